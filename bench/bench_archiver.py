"""The archiver: importing the bundled chain, reading a block for getBlock, hashing a header.

Baselines, measured in the same run: for the import, writing the very same entries in the very same
synced batches (what the disk takes whatever we do); for a block, the bare database gets of its
pieces; for the header hash, the bare kernel on the same fields.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fastnode.archiver import layout
from fastnode.archiver.check import check_database
from fastnode.archiver.ingest import Ingestor, Verification
from fastnode.archiver.queries import ChainView
from fastnode.archiver.store import ArchiverStore
from fastnode.kernels import poseidon2
from fastnode.protocol.fields import field_from_int
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.storage.database import SharedDatabase, open_leveldb

CHAIN_FILE = Path(str(files("fastnode").joinpath("data/sample_chain.jsonl.xz")))
BLOCKS = 106
#: One transaction that registers a class: 200 kB of JSON.
LARGE_BLOCK = 1
#: Three ordinary transactions.
SMALL_BLOCK = 29

IMPORT_ROUNDS = 5


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArchiverStore]:
    with ArchiverStore.open(tmp_path_factory.mktemp("bench")) as store:
        _import(store, Verification.FULL)
        yield store


@pytest.fixture(scope="module")
def view(imported: ArchiverStore) -> Iterator[ChainView]:
    with imported.open_view() as view:
        yield view


def _import(store: ArchiverStore, verification: Verification) -> None:
    adopt_chain_file(store, CHAIN_FILE)
    ingestor = Ingestor(store, verification=verification)
    assert import_chain_file(ingestor, CHAIN_FILE).tip == BLOCKS
    ingestor.close()


# ---- import ------------------------------------------------------------------------------------


@pytest.fixture
def fresh_directory(tmp_path: Path) -> Callable[[], tuple[tuple[Path], dict[str, Any]]]:
    """Set-up of a round: an empty directory as its argument."""
    directory = tmp_path / "data"

    def set_up() -> tuple[tuple[Path], dict[str, Any]]:
        shutil.rmtree(directory, ignore_errors=True)
        return (directory,), {}

    return set_up


@pytest.mark.benchmark(group="import of 106 blocks")
@pytest.mark.parametrize("verification", [Verification.FULL, Verification.NONE], ids=["verified", "unverified"])
def test_import(
    benchmark: BenchmarkFixture,
    fresh_directory: Callable[[], tuple[tuple[Path], dict[str, Any]]],
    verification: Verification,
) -> None:
    def run(directory: Path) -> None:
        with ArchiverStore.open(directory) as store:
            _import(store, verification)

    benchmark.pedantic(run, setup=fresh_directory, rounds=IMPORT_ROUNDS)
    benchmark.extra_info["blocks_per_s"] = round(BLOCKS / benchmark.stats.stats.mean)


@pytest.mark.benchmark(group="import of 106 blocks")
def test_baseline_of_import_synced_writes_of_the_same_bytes(
    benchmark: BenchmarkFixture,
    fresh_directory: Callable[[], tuple[tuple[Path], dict[str, Any]]],
    view: ChainView,
) -> None:
    batches = _entries_by_block(view)

    def run(directory: Path) -> None:
        database = SharedDatabase(open_leveldb(directory, create=True), directory)
        for batch in batches:
            database.write(batch)
        database.release()

    benchmark.pedantic(run, setup=fresh_directory, rounds=IMPORT_ROUNDS)


def _entries_by_block(view: ChainView) -> list[list[tuple[bytes, bytes]]]:
    """All entries in as many batches as there are blocks; the numbered ones with their block."""
    batches: list[list[tuple[bytes, bytes]]] = [[] for _ in range(BLOCKS)]
    numbered = (layout.BLOCK, layout.EFFECT, layout.TX_HASHES, layout.L2_TO_L1)
    for position, (key, value) in enumerate(view.scan()):
        is_numbered = key[:1] in numbered
        number = layout.decode_number(key[1:5]) - 1 if is_numbered else position % BLOCKS
        batches[number % BLOCKS].append((key, value))
    return batches


@pytest.mark.benchmark(group="import of 106 known blocks")
def test_import_of_what_is_stored(benchmark: BenchmarkFixture, imported: ArchiverStore) -> None:
    ingestor = Ingestor(imported)
    benchmark.pedantic(import_chain_file, args=(ingestor, CHAIN_FILE), rounds=IMPORT_ROUNDS)
    ingestor.close()


@pytest.mark.benchmark(group="check of 106 blocks")
def test_check(benchmark: BenchmarkFixture, imported: ArchiverStore) -> None:
    assert benchmark.pedantic(check_database, args=(imported,), rounds=IMPORT_ROUNDS).clean


@pytest.mark.benchmark(group="opening a view")
def test_opening_a_view(benchmark: BenchmarkFixture, imported: ArchiverStore) -> None:
    """What each commit costs its readers."""
    benchmark(lambda: imported.open_view().close())


# ---- reads -------------------------------------------------------------------------------------


def _block_json(view: ChainView, number: int) -> bytes:
    block, body = view.block(number), view.body_json(number)
    assert block is not None
    assert body is not None
    return b'{"archive":%b,"header":%b,"body":%b}' % (block.archive_json, block.header_json, body)


@pytest.mark.parametrize("number", [SMALL_BLOCK, LARGE_BLOCK], ids=["small", "large"])
def test_block_from_the_view(benchmark: BenchmarkFixture, view: ChainView, number: int) -> None:
    benchmark.group = f"block of {len(_block_json(view, number))} bytes"
    benchmark(_block_json, view, number)


@pytest.mark.parametrize("number", [SMALL_BLOCK, LARGE_BLOCK], ids=["small", "large"])
def test_baseline_of_block_bare_gets(benchmark: BenchmarkFixture, view: ChainView, number: int) -> None:
    info = view.block_info(number)
    assert info is not None
    keys = [layout.block_key(number), *(layout.effect_key(number, index) for index in range(info.tx_count))]
    benchmark.group = f"block of {len(_block_json(view, number))} bytes"
    benchmark(lambda: [view.get(key) for key in keys])


# ---- hashing -----------------------------------------------------------------------------------


@pytest.mark.benchmark(group="header hash")
def test_header_hash(benchmark: BenchmarkFixture, view: ChainView) -> None:
    block = view.load_block(SMALL_BLOCK)
    assert block is not None
    info = view.block_info(SMALL_BLOCK)
    assert info is not None
    assert benchmark(block.header.hash) == info.hash


@pytest.mark.benchmark(group="header hash")
def test_baseline_of_header_hash_bare_kernel(benchmark: BenchmarkFixture, view: ChainView) -> None:
    block = view.load_block(SMALL_BLOCK)
    assert block is not None
    fields = field_from_int(1) + block.header.to_fields()
    benchmark(poseidon2.hash_fields, fields)
