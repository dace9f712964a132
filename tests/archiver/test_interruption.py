"""kill -9 at random moments: what is found afterwards is a whole chain, and going on completes it."""

from __future__ import annotations

import random
import shutil
import subprocess
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.effort import tries
from tests.killed import killed, script_command

from fastnode import kernels
from fastnode.archiver.check import check_database
from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.store import ArchiverStore
from fastnode.chain_data import ChainData
from fastnode.data_check import check_data
from fastnode.sources.chain_import import import_chain_file

#: The twins hash so slowly that a few must do.
KILLS_DURING_IMPORT = 5 if kernels.USING_TWINS else tries(15, 100)
KILLS_DURING_UNDO = 3 if kernels.USING_TWINS else tries(6, 40)
KILLS_DURING_IMPORT_OF_EVERYTHING = tries(6, 40)
TIP = 106

#: Processor time that reopening may take; it takes a hundredth of it.
REOPEN_S_MAX = 2.0
#: About the time of one block: a kill comes so much after a random commit, at most.
BLOCK_S = 0.004

#: Says a dot for each commit, so that a kill hits work and not the start or the end of a process.
HEAD = """
    import sys
    from pathlib import Path
    from fastnode.archiver import ingest
    from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
    from fastnode.archiver.ingest import Ingestor
    from fastnode.archiver.store import ArchiverStore

    def say(view):
        sys.stdout.write(".")
        sys.stdout.flush()
        sys.stdin.buffer.read(1)

    ingest.UNDO_BLOCKS_PER_BATCH = 7
    file, directory = Path(sys.argv[1]), Path(sys.argv[2])
    say(None)
    store = ArchiverStore.open(directory)
    adopt_chain_file(store, file)
    ingestor = Ingestor(store, on_commit=say)
"""
IMPORT = textwrap.dedent(HEAD) + "import_chain_file(ingestor, file)\n"
IMPORT_AND_UNDO = textwrap.dedent(HEAD) + textwrap.dedent(
    """
    import random
    from fastnode.storage.database import SharedDatabase

    write = SharedDatabase.write

    def write_and_say(database, changes):
        write(database, changes)
        say(None)

    SharedDatabase.write = write_and_say
    while True:
        import_chain_file(ingestor, file)
        ingestor.undo_above(random.randrange(106))
    """
)


#: The same with state trees and indexes, as the command ``fastnode import`` does it.
IMPORT_EVERYTHING = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
    from fastnode.chain_data import ChainData

    def say(view):
        sys.stdout.write(".")
        sys.stdout.flush()
        sys.stdin.buffer.read(1)

    file, directory = Path(sys.argv[1]), Path(sys.argv[2])
    say(None)
    with ChainData.open(directory) as data:
        adopt_chain_file(data.store, file)
        ingestor = data.open_ingestor(verify=False, on_commit=say)
        ingestor.catch_up()
        import_chain_file(ingestor, file)
    """
)


def assert_sound(directory: Path) -> int:
    """Opens at once, ends with a whole block, and nothing is missing or too much; returns the tip."""
    start = time.process_time()
    with ArchiverStore.open(directory) as store:
        if not store.has_chain:
            return 0
        view = store.open_view()
        assert time.process_time() - start < REOPEN_S_MAX
        tip = view.tip_number
        assert view.body_json(tip) is not None
        view.close()
        report = check_database(store)
        assert report.problems == []
        assert report.blocks == tip
        return tip


def test_an_import_may_be_killed_at_any_moment(
    sample_path: Path,
    imported_directory: Path,
    tmp_path: Path,
    contents: Callable[[ArchiverStore], dict[bytes, bytes]],
) -> None:
    moments = random.Random(1)
    directory = tmp_path / "killed"
    command = script_command(IMPORT, sample_path, directory)
    kills, tips = 0, set()
    while kills < KILLS_DURING_IMPORT:
        kills += killed(command, after=moments.randrange(50), delay_s=moments.uniform(0, BLOCK_S))
        tip = assert_sound(directory)
        tips.add(tip)
        if tip == TIP:
            shutil.rmtree(directory)
    assert len(tips) > KILLS_DURING_IMPORT // 2, "the kills did not hit the import"
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=120)
    assert_same_contents(directory, imported_directory, tmp_path, contents)


def test_an_undo_may_be_killed_at_any_moment(
    sample_path: Path,
    imported_directory: Path,
    tmp_path: Path,
    contents: Callable[[ArchiverStore], dict[bytes, bytes]],
) -> None:
    moments = random.Random(2)
    directory = tmp_path / "killed"
    shutil.copytree(imported_directory, directory)
    command = script_command(IMPORT_AND_UNDO, sample_path, directory)
    for _ in range(KILLS_DURING_UNDO):
        assert killed(command, after=moments.randrange(150), delay_s=moments.uniform(0, BLOCK_S))
        assert_sound(directory)
    with ArchiverStore.open(directory) as store:
        ingestor = Ingestor(store)
        assert import_chain_file(ingestor, sample_path).tip == TIP
        ingestor.close()
    assert_same_contents(directory, imported_directory, tmp_path, contents)


@pytest.mark.skipif(kernels.USING_TWINS, reason="state trees on the twins take minutes")
def test_an_import_with_state_trees_and_indexes_may_be_killed_at_any_moment(sample_path: Path, tmp_path: Path) -> None:
    moments = random.Random(3)
    directory = tmp_path / "killed"
    command = script_command(IMPORT_EVERYTHING, sample_path, directory)
    tips = set()
    for _ in range(KILLS_DURING_IMPORT_OF_EVERYTHING):
        killed(command, after=moments.randrange(30), delay_s=moments.uniform(0, 2 * BLOCK_S))
        tips.add(assert_all_databases_sound(directory))
    assert len(tips) > KILLS_DURING_IMPORT_OF_EVERYTHING // 2, "the kills did not hit the import"
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=120)
    assert assert_all_databases_sound(directory) == TIP


def assert_all_databases_sound(directory: Path) -> int:
    """Like :func:`assert_sound`, with the state trees: they agree with the chain or are one block behind."""
    with ChainData.open(directory) as data:
        report = check_data(data)
        assert report.problems == []
        if not data.store.has_chain:
            return 0
    with ChainData.open(directory) as data:
        ingestor = data.open_ingestor(verify=False)
        assert ingestor.catch_up() <= 1
        return ingestor.view.tip_number


def assert_same_contents(
    directory: Path, expected: Path, tmp_path: Path, contents: Callable[[ArchiverStore], dict[bytes, bytes]]
) -> None:
    shutil.copytree(expected, tmp_path / "expected")
    with ArchiverStore.open(directory) as store, ArchiverStore.open(tmp_path / "expected") as other:
        assert contents(store) == contents(other)
