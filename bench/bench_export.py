"""Exporting a chain as Parquet tables: written alone, and written, read back and verified; beside it, for the ratio,
pyarrow alone with the same rows.

pyarrow writes them from Python's dictionaries, as a script has them that asked a node, and from finished Arrow tables,
which is the least that any export with it can take; its settings are its own.

FASTNODE_BENCH_EXPORT_BLOCKS is the length of the synthetic chain (default 300), of wallets' shape, eight transactions a
block.  ``rows_per_cpu_second`` is what the whole process used, threads included; memory is the peak beyond that of the
open databases.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fastnode.chain_data import ChainData
from fastnode.development.synthetic_chain import ChainShape, write_synthetic_chain
from fastnode.parquet.columns import stripes
from fastnode.parquet.export import TablesWanted, export_tables
from fastnode.parquet.files import plain
from fastnode.parquet.tables import TABLES
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file

BLOCKS = int(os.environ.get("FASTNODE_BENCH_EXPORT_BLOCKS", "300"))
TXS_PER_BLOCK = 8
ROUNDS = 3


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChainData]:
    folder = tmp_path_factory.mktemp("chain")
    file = folder / "chain.jsonl"
    write_synthetic_chain(file, ChainShape(blocks=BLOCKS, txs=TXS_PER_BLOCK, wallets=True, commitments=False))
    with ChainData.open(folder / "data") as opened:
        adopt_chain_file(opened.store, file)
        import_chain_file(opened.open_ingestor(verify=False), file)
        yield opened


@pytest.mark.parametrize("verify", [False, True], ids=["written", "written and verified"])
def test_a_chain_as_tables(benchmark: BenchmarkFixture, data: ChainData, tmp_path: Path, verify: bool) -> None:
    benchmark.group = "export of tables"
    used: list[float] = []
    rows = 0

    def export() -> None:
        nonlocal rows
        before = time.process_time()
        state = data.state.open_range_check() if verify else None
        with data.store.open_view() as view:
            wanted = TablesWanted(last=BLOCKS)
            summary = export_tables(view, tmp_path / "tables", wanted, state=state, progress=lambda *_: None)
        used.append(time.process_time() - before)
        rows = summary.rows

    def clear() -> None:
        shutil.rmtree(tmp_path / "tables", ignore_errors=True)

    memory = _memory_mib("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    benchmark.pedantic(export, setup=clear, rounds=ROUNDS)
    rate = rows / min(used)
    peak = _memory_mib("VmHWM") - memory
    benchmark.extra_info |= {"rows": rows, "rows_per_cpu_second": round(rate), "memory_mib": peak}
    print(f"\n{rows} rows, {rate:,.0f} a second of processor time, {peak} MiB more at the peak")


@pytest.mark.parametrize("form", ["dictionaries", "tables"])
def test_pyarrow_alone(benchmark: BenchmarkFixture, data: ChainData, tmp_path: Path, form: str) -> None:
    benchmark.group = "export of tables"
    with data.store.open_view() as view:
        stored = [
            (name, plain(rows)) for _, tables in stripes(view, TABLES, 1, BLOCKS) for name, rows in tables.items()
        ]
    given = [(name, rows.schema, rows.to_pylist() if form == "dictionaries" else rows) for name, rows in stored]
    used: list[float] = []

    def write() -> None:
        before = time.process_time()
        for number, (name, schema, rows) in enumerate(given):
            made = pa.Table.from_pylist(rows, schema) if form == "dictionaries" else rows
            pq.write_table(made, tmp_path / f"{name} {number}.parquet")
        used.append(time.process_time() - before)

    benchmark.pedantic(write, rounds=ROUNDS)
    rows = sum(len(rows) for _, rows in stored)
    rate = rows / min(used)
    benchmark.extra_info |= {"rows": rows, "rows_per_cpu_second": round(rate)}
    print(f"\n{rows} rows, {rate:,.0f} a second of processor time")


def _memory_mib(name: str) -> int:
    """``VmRSS``, or ``VmHWM``: the most since that was forgotten."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) // 1024
    raise LookupError(name)
