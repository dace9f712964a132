"""Exporting: what went in comes out, byte for byte, and every part of it can be imported again."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from fastnode.archiver import layout
from fastnode.archiver.check import check_database
from fastnode.archiver.ingest import Ingestor, Verification
from fastnode.archiver.queries import ChainView
from fastnode.archiver.store import ArchiverStore
from fastnode.errors import ChainFileError, DatabaseError, StartError
from fastnode.sources.chain_export import ExportSummary, export_chain_file
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file

if TYPE_CHECKING:
    from tests.archiver.conftest import SampleChain

Contents = Callable[[ArchiverStore], dict[bytes, bytes]]


@pytest.fixture
def view(full_ingestor: Ingestor) -> ChainView:
    return full_ingestor.view


def kinds(path: Path) -> list[str]:
    return [orjson.loads(line)["kind"] for line in path.read_bytes().splitlines()]


def test_the_export_of_an_import_is_the_file_byte_for_byte(
    view: ChainView, sample: SampleChain, tmp_path: Path
) -> None:
    assert export_chain_file(view, tmp_path / "chain.jsonl") == ExportSummary(1, 106, checkpoints=41)
    assert (tmp_path / "chain.jsonl").read_bytes() == lzma.decompress(sample.path.read_bytes())


def test_what_l1_and_the_committee_said_comes_out_again(
    store: ArchiverStore, sample: SampleChain, tmp_path: Path, open_ingestor: Callable[..., Ingestor]
) -> None:
    lines = list(sample.lines[:4])
    for position in (2, 3):
        record = orjson.loads(lines[position])
        record["published"]["attestations"] = [
            {"address": "0x" + "12" * 20, "signature": "0x" + "ab" * 65},
            {"address": "0x" + "00" * 20, "signature": "0x" + "0" * 129},  # as the reference writes it
        ]
        record["published"]["checkpoint"]["feeAssetPriceModifier"] = "-250"
        lines[position] = orjson.dumps(record)
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    before.write_bytes(b"".join(line + b"\n" for line in lines))
    ingestor = open_ingestor(store)
    import_chain_file(ingestor, before)
    export_chain_file(ingestor.view, after)
    assert after.read_bytes().splitlines()[:-1] == lines
    assert check_database(store).clean


def test_a_name_that_ends_in_gz_is_compressed(view: ChainView, sample: SampleChain, tmp_path: Path) -> None:
    export_chain_file(view, tmp_path / "chain.jsonl.gz")
    assert gzip.decompress((tmp_path / "chain.jsonl.gz").read_bytes()) == lzma.decompress(sample.path.read_bytes())


def test_progress_counts_blocks(view: ChainView, tmp_path: Path) -> None:
    said: list[tuple[int, int]] = []
    export_chain_file(view, tmp_path / "chain.jsonl", progress=lambda done, total: said.append((done, total)))
    assert len(said) == 41
    assert said[0] == (1, 106)
    assert said[-1] == (106, 106)


@pytest.mark.parametrize(
    ("last_block", "checkpoints", "blocks"),
    [(1, 1, 0), (4, 3, 1), (5, 4, 0), (8, 5, 1), (10, 5, 3), (11, 6, 0), (105, 40, 3)],
)
def test_a_checkpoint_that_is_cut_becomes_single_blocks(
    view: ChainView,
    sample_path: Path,
    tmp_path: Path,
    open_ingestor: Callable[..., Ingestor],
    last_block: int,
    checkpoints: int,
    blocks: int,
) -> None:
    path = tmp_path / "part.jsonl"
    assert export_chain_file(view, path, last_block=last_block) == ExportSummary(1, last_block, checkpoints)
    assert kinds(path) == ["chain", "genesis", *["checkpoint"] * checkpoints, *["block"] * blocks, "tips"]
    with ArchiverStore.open(tmp_path / "data") as store:
        adopt_chain_file(store, path)
        ingestor = open_ingestor(store)
        assert import_chain_file(ingestor, path).tip == last_block
        assert ingestor.view.tips.checkpointed.checkpoint.number == checkpoints
        assert ingestor.view.tips.proven.checkpoint.number == min(checkpoints, 39)
        assert check_database(store).clean
        again = tmp_path / "again.jsonl"
        export_chain_file(ingestor.view, again)
        assert again.read_bytes() == path.read_bytes()


def test_a_block_cut_from_its_checkpoint_brings_the_messages(
    view: ChainView, sample: SampleChain, tmp_path: Path
) -> None:
    checkpoint = view.checkpoint(9)
    assert checkpoint is not None
    path = tmp_path / "part.jsonl"
    export_chain_file(view, path, last_block=checkpoint.start_block + 1)
    first, second = (orjson.loads(line) for line in path.read_bytes().splitlines()[-3:-1])
    assert first["l1ToL2Messages"] == sample.checkpoint_json(9)["l1ToL2Messages"]
    assert "l1ToL2Messages" not in second


def test_proposed_blocks_are_exported_as_blocks(full_ingestor: Ingestor, sample: SampleChain, tmp_path: Path) -> None:
    full_ingestor.undo_above(105)
    export_chain_file(full_ingestor.view, tmp_path / "chain.jsonl")
    assert kinds(tmp_path / "chain.jsonl") == ["chain", "genesis", *["checkpoint"] * 40, *["block"] * 3, "tips"]


@pytest.mark.parametrize(("first_block", "starts_at"), [(5, 4), (9, 8), (11, 8), (12, 12), (106, 103)])
def test_a_later_part_begins_with_a_whole_checkpoint_and_goes_behind_the_earlier(
    full_store: ArchiverStore,
    view: ChainView,
    tmp_path: Path,
    open_ingestor: Callable[..., Ingestor],
    contents: Contents,
    first_block: int,
    starts_at: int,
) -> None:
    early, late = tmp_path / "early.jsonl", tmp_path / "late.jsonl"
    summary = export_chain_file(view, late, first_block=first_block)
    assert (summary.first_block, summary.last_block, summary.blocks) == (starts_at, 106, 107 - starts_at)
    export_chain_file(view, early, last_block=starts_at - 1)
    with ArchiverStore.open(tmp_path / "data") as store:
        adopt_chain_file(store, late)
        ingestor = open_ingestor(store, verification=Verification.NONE)
        with pytest.raises(ChainFileError, match=r"line 3: checkpoint \d+: number is \d+, expected 1"):
            import_chain_file(ingestor, late)
        import_chain_file(ingestor, early)
        import_chain_file(ingestor, late)
        assert contents(store) == contents(full_store)


def test_a_chain_without_blocks_is_exported_as_its_head(
    store: ArchiverStore, sample: SampleChain, tmp_path: Path, open_ingestor: Callable[..., Ingestor]
) -> None:
    path = tmp_path / "empty.jsonl"
    with store.open_view() as view:
        assert export_chain_file(view, path).blocks == 0
    assert path.read_bytes().splitlines()[:2] == sample.lines[:2]
    assert kinds(path) == ["chain", "genesis", "tips"]
    assert import_chain_file(open_ingestor(store), path).tip == 0


@pytest.mark.parametrize(("first_block", "last_block"), [(0, 5), (1, 107), (6, 5), (107, 107), (1, 0)])
def test_blocks_that_the_chain_does_not_have_cannot_be_exported(
    view: ChainView, tmp_path: Path, first_block: int, last_block: int
) -> None:
    with pytest.raises(StartError, match=f"blocks {first_block} to {last_block} .*: the chain has blocks 1 to 106"):
        export_chain_file(view, tmp_path / "part.jsonl", first_block=first_block, last_block=last_block)
    assert not (tmp_path / "part.jsonl").exists()


def test_an_export_to_an_absent_folder_says_so(view: ChainView, tmp_path: Path) -> None:
    with pytest.raises(ChainFileError, match="cannot be written: No such file or directory"):
        export_chain_file(view, tmp_path / "absent" / "chain.jsonl")


def test_a_damaged_value_is_not_exported_and_the_older_file_stays(
    full_store: ArchiverStore, full_ingestor: Ingestor, tmp_path: Path
) -> None:
    older = tmp_path / "chain.jsonl"
    older.write_bytes(b"an older one")
    batch = full_store.write_batch()
    batch.put(layout.effect_key(42, 0), b"\xff" * 100)
    batch.commit()
    with (
        full_store.open_view() as view,
        pytest.raises(DatabaseError, match=r"^checkpoint \d+ cannot be exported: .* `fastnode db check`$"),
    ):
        export_chain_file(view, older)
    assert [path.read_bytes() for path in tmp_path.iterdir() if path.is_file()] == [b"an older one"]
