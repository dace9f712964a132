"""kill -9 at random moments: what is found afterwards are the trees of a whole block, and going on completes them."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.effort import tries
from tests.killed import killed, script_command
from tests.world_state.conftest import SampleBlocks

from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.store import ArchiverStore
from fastnode.protocol.releases import FOUR
from fastnode.sources.chain_import import import_chain_file
from fastnode.world_state.state import WorldState

KILLS = tries(18, 120)
KILLS_DURING_UNDO = tries(6, 40)
TIP = 106
#: About the time of one block: a kill comes so much after a random commit, at most.
BLOCK_S = 0.006

#: Says a dot for each block, so that a kill hits work and not the start or the end of a process.
HEAD = """
    import sys
    from pathlib import Path
    import orjson
    from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
    from fastnode.archiver.ingest import Ingestor
    from fastnode.archiver.source import GenesisRecord
    from fastnode.archiver.store import ArchiverStore
    from fastnode.protocol.releases import FOUR
    from fastnode.world_state.state import WorldState

    def say(*_):
        sys.stdout.write(".")
        sys.stdout.flush()
        sys.stdin.buffer.read(1)

    file, directory = Path(sys.argv[1]), Path(sys.argv[2])
    say()
    store = ArchiverStore.open(directory)
    adopt_chain_file(store, file)
    genesis = GenesisRecord.from_json(orjson.loads(store.open_view().genesis_json()))
    state = WorldState(directory, genesis, cache_mb=16, rules=FOUR.trees)
    ingestor = Ingestor(store, state=state, on_commit=say)
    ingestor.catch_up()
"""
IMPORT = textwrap.dedent(HEAD) + "import_chain_file(ingestor, file)\n"
IMPORT_AND_UNDO = textwrap.dedent(HEAD) + textwrap.dedent(
    """
    import random
    while True:
        import_chain_file(ingestor, file)
        ingestor.undo_above(random.randrange(106))
    """
)


def assert_whole(directory: Path, sample: SampleBlocks) -> int:
    """The trees are those of a whole block, all roots follow from the leaves; returns the block."""
    with WorldState(directory, sample.genesis, rules=FOUR.trees) as state:
        block = state.block_number
        if block:
            header, archive = sample.blocks[block - 1][0].header, sample.blocks[block - 1][0].archive
            roots = state.view.tip.roots
            assert roots[0] == header.state.nullifier_tree.root
            assert roots[1] == header.state.note_hash_tree.root
            assert roots[2] == header.state.public_data_tree.root
            assert roots[3] == header.state.l1_to_l2_message_tree.root
            assert roots[4] == archive.root
        assert state.check() == []
    return block


def finish(directory: Path, sample: SampleBlocks, file: Path) -> None:
    with (
        ArchiverStore.open(directory) as store,
        WorldState(directory, sample.genesis, rules=FOUR.trees) as state,
    ):
        ingestor = Ingestor(store, state=state)
        behind = ingestor.catch_up()
        assert 0 <= behind <= TIP
        import_chain_file(ingestor, file)
        ingestor.close()
        assert state.block_number == TIP
        assert state.check() == []


@pytest.mark.parametrize("round_number", range(3))
def test_the_application_of_blocks_may_be_killed_at_any_moment(
    sample_path: Path, sample: SampleBlocks, tmp_path: Path, round_number: int
) -> None:
    moments = random.Random(round_number)
    directory = tmp_path / "killed"
    at_work, kills, block = 0, 0, 0
    while kills < KILLS // 3:
        if block > TIP - 12:
            finish(directory, sample, sample_path)
            shutil.rmtree(directory)
            block = 0
        delay = moments.random() * BLOCK_S
        at_work += killed(script_command(IMPORT, sample_path, directory), after=moments.randint(1, 12), delay_s=delay)
        kills += 1
        reached = assert_whole(directory, sample)
        assert reached >= block
        block = reached
    assert at_work >= kills - 2
    finish(directory, sample, sample_path)


def test_an_undo_may_be_killed_at_any_moment(sample_path: Path, sample: SampleBlocks, tmp_path: Path) -> None:
    moments = random.Random(9)
    directory = tmp_path / "killed"
    finish_first = [sys.executable, "-c", IMPORT, str(sample_path), str(directory)]
    subprocess.run(finish_first, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=120)
    for _ in range(KILLS_DURING_UNDO):
        delay = moments.random() * 20 * BLOCK_S
        command = script_command(IMPORT_AND_UNDO, sample_path, directory)
        killed(command, after=moments.randint(1, 4), delay_s=delay, ahead=100)
        assert_whole(directory, sample)
    finish(directory, sample, sample_path)
