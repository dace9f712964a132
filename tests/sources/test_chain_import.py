"""Importing a file: whole, again, in part, and with a fault in it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from fastnode.archiver.check import check_database
from fastnode.archiver.ingest import Ingestor, Verification
from fastnode.archiver.store import ArchiverStore
from fastnode.errors import ChainFileError, DataDirectoryError
from fastnode.sources.chain_import import ImportProgress, ImportSummary, adopt_chain_file, import_chain_file

if TYPE_CHECKING:
    from tests.archiver.conftest import SampleChain

Contents = Callable[[ArchiverStore], dict[bytes, bytes]]


@pytest.fixture
def unverified(store: ArchiverStore, open_ingestor: Callable[..., Ingestor]) -> Ingestor:
    return open_ingestor(store, verification=Verification.NONE)


def write_lines(path: Path, lines: list[bytes]) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def test_an_import_says_what_it_did(ingestor: Ingestor, sample_path: Path) -> None:
    assert import_chain_file(ingestor, sample_path) == ImportSummary(blocks=106, new_blocks=106, tip=106)
    assert import_chain_file(ingestor, sample_path) == ImportSummary(blocks=106, new_blocks=0, tip=106)


def test_progress_is_said_after_every_record(unverified: Ingestor, sample_path: Path) -> None:
    said: list[ImportProgress] = []
    import_chain_file(unverified, sample_path, progress=said.append)
    assert len(said) == 42
    assert [progress.bytes_read for progress in said] == sorted(progress.bytes_read for progress in said)
    assert said[-1] == ImportProgress(106, sample_path.stat().st_size, sample_path.stat().st_size)


def test_importing_again_changes_nothing(
    full_store: ArchiverStore, full_ingestor: Ingestor, sample_path: Path, contents: Contents
) -> None:
    before = contents(full_store)
    import_chain_file(full_ingestor, sample_path)
    assert contents(full_store) == before


def test_an_import_goes_on_where_a_shorter_file_ended(
    store: ArchiverStore,
    full_store: ArchiverStore,
    unverified: Ingestor,
    sample: SampleChain,
    tmp_path: Path,
    contents: Contents,
) -> None:
    short = write_lines(tmp_path / "short.jsonl", sample.lines[:20])
    assert import_chain_file(unverified, short) == ImportSummary(blocks=50, new_blocks=50, tip=50)
    assert import_chain_file(unverified, sample.path).new_blocks == 56
    assert contents(store) == contents(full_store)


def test_an_older_file_moves_no_tip_back(full_ingestor: Ingestor, sample: SampleChain, tmp_path: Path) -> None:
    newest = full_ingestor.view.tips
    full_ingestor.undo_above(50)
    older = orjson.dumps({"kind": "tips", "tips": full_ingestor.view.tips.to_json()})
    import_chain_file(full_ingestor, sample.path)
    old_file = write_lines(tmp_path / "old.jsonl", [*sample.lines[:20], older])
    assert import_chain_file(full_ingestor, old_file) == ImportSummary(blocks=50, new_blocks=0, tip=106)
    assert full_ingestor.view.tips == newest


def test_a_rejected_record_is_named_by_its_line_and_what_came_before_stays(
    store: ArchiverStore, ingestor: Ingestor, sample: SampleChain, tmp_path: Path
) -> None:
    record = sample.checkpoint_json(9)
    record["published"]["checkpoint"]["header"]["inHash"] = "0x" + "00" * 31 + "05"
    path = write_lines(tmp_path / "wrong.jsonl", [*sample.lines[:10], orjson.dumps(record), *sample.lines[11:]])
    with pytest.raises(ChainFileError, match=r"wrong\.jsonl, line 11: checkpoint 9: header\.inHash is 0x0+5"):
        import_chain_file(ingestor, path)
    assert ingestor.view.tips.checkpointed.checkpoint.number == 8
    assert check_database(store).clean
    assert import_chain_file(ingestor, sample.path).tip == 106


def test_a_body_that_cannot_be_decoded_is_named_by_its_line(
    ingestor: Ingestor, sample: SampleChain, tmp_path: Path
) -> None:
    record = sample.checkpoint_json(4)
    record["published"]["checkpoint"]["blocks"][1]["body"]["txEffects"][0]["nullifiers"][2] = "0x12"
    path = write_lines(tmp_path / "wrong.jsonl", [*sample.lines[:5], orjson.dumps(record)])
    with pytest.raises(
        ChainFileError,
        match=r"line 6: checkpoint\.blocks\[1\]\.body\.txEffects\[0\]\.nullifiers\[2\]: expected 0x and 64 hex digits",
    ):
        import_chain_file(ingestor, path)
    assert ingestor.view.tip_number == 3


def test_a_file_of_another_chain_is_refused(ingestor: Ingestor, sample: SampleChain, tmp_path: Path) -> None:
    chain = orjson.loads(sample.lines[0])
    chain["nodeInfo"]["rollupVersion"] = 12
    path = write_lines(tmp_path / "other.jsonl", [orjson.dumps(chain), *sample.lines[1:]])
    with pytest.raises(DataDirectoryError, match="holds another chain: its rollup version is 3658137161"):
        import_chain_file(ingestor, path)


def test_a_wrong_genesis_hash_is_named_by_its_line(tmp_path: Path, sample: SampleChain) -> None:
    genesis = orjson.loads(sample.lines[1])
    genesis["blockHash"] = "0x" + "00" * 31 + "05"
    path = write_lines(tmp_path / "wrong.jsonl", [sample.lines[0], orjson.dumps(genesis)])
    with (
        ArchiverStore.open(tmp_path / "data") as store,
        pytest.raises(ChainFileError, match=r"line 2: genesis: blockHash is 0x0+5, its header hashes to 0x"),
    ):
        adopt_chain_file(store, path)


IMPORT_ON_A_SMALL_DISK = textwrap.dedent(
    """
    import resource, signal, sys
    from pathlib import Path
    from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
    from fastnode.archiver.ingest import Ingestor
    from fastnode.archiver.store import ArchiverStore
    from fastnode.errors import DatabaseError

    file, directory, limit = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    store = ArchiverStore.open(directory)
    adopt_chain_file(store, file)
    ingestor = Ingestor(store)
    try:
        import_chain_file(ingestor, file)
    except DatabaseError as error:
        print(ingestor.view.tip_number, error, sep="\\n")
    """
)


@pytest.mark.parametrize("limit", [100_000, 250_000, 500_000])
def test_an_import_that_fills_the_disk_stops_with_whole_blocks_and_goes_on_later(
    sample_path: Path,
    tmp_path: Path,
    full_store: ArchiverStore,
    open_ingestor: Callable[..., Ingestor],
    contents: Contents,
    limit: int,
) -> None:
    """A limit on the size of a file stands in for the full disk."""
    directory = tmp_path / "small"
    result = subprocess.run(
        [sys.executable, "-c", IMPORT_ON_A_SMALL_DISK, str(sample_path), str(directory), str(limit)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    tip, message = result.stdout.splitlines()
    assert message.startswith(f"cannot write the database {directory}/archiver: ")
    with ArchiverStore.open(directory) as store:
        report = check_database(store)
        assert report.problems == []
        assert report.blocks == int(tip) < 106
        assert import_chain_file(open_ingestor(store), sample_path).tip == 106
        assert contents(store) == contents(full_store)
