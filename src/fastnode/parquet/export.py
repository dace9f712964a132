"""Exporting the chain as tables: partition by partition, continued where the last run ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from fastnode.archiver.queries import ChainView, stored_info
from fastnode.errors import ExportError, StartError
from fastnode.parquet.columns import stripes
from fastnode.parquet.files import TableFile
from fastnode.parquet.folder import ExportFolder, Manifest, Partition, describe_chain, digest_of
from fastnode.parquet.tables import choose_tables
from fastnode.parquet.verification import Verifier, Written
from fastnode.protocol.fields import hex_text
from fastnode.records import dataclass
from fastnode.world_state.range_check import RangeCheck

__all__ = ["PARTITION_BLOCKS", "TablesSummary", "TablesWanted", "export_tables"]

#: Blocks of a partition where nothing else is said.
PARTITION_BLOCKS: Final = 10_000

#: ``progress(done, total, note)`` in blocks, each once for writing and once for verifying.
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesWanted:
    """The blocks and tables to export; None: those that the folder has, or the default of a new one."""

    first: int | None = None
    last: int | None = None
    tables: Sequence[str] | None = None
    partition_blocks: int | None = None
    #: Read and verify what was verified before, too.
    verify_all: bool = False


@dataclass(frozen=True, slots=True)
class TablesSummary:
    """Contents of the folder now, and the work of this run."""

    first: int
    last: int
    rows: int
    rows_written: int
    #: Blocks that were there and are no longer of the chain.
    replaced: range
    is_verified: bool
    without_history: int


def export_tables(
    view: ChainView, path: Path, wanted: TablesWanted, *, state: RangeCheck | None, progress: Progress
) -> TablesSummary:
    """Write blocks as Parquet files to the folder ``path``, or continue what it holds, and verify them.

    ``state``: the trees of the same chain; None: nothing is verified.  The last block is the newest finalized one
    unless ``wanted`` names another: files are read by others, and a block before that may be replaced.  Where blocks
    that were exported are of the chain no longer, their partitions are written anew.

    StartError for blocks that the chain does not have; ExportError for a folder that cannot be used or continued, a
    disk that is full, and a row that does not hold; DatabaseError for what is stored and damaged.
    """
    choose_tables(wanted.tables)
    last = _last_block(view, wanted)
    if wanted.first is not None or not (path / "manifest.json").exists():
        _require_blocks(view, wanted.first or 1, last)
    with ExportFolder.open(path) as folder:
        return _Export(view, folder, wanted, last, state, progress).run()


def _last_block(view: ChainView, wanted: TablesWanted) -> int:
    if wanted.last is not None:
        return wanted.last
    finalized = view.tips.finalized.block.number
    if finalized == 0:
        raise StartError(
            f"no block of the chain is final yet; --to names the last block to export, at most {view.tip_number}"
        )
    return finalized


def _require_blocks(view: ChainView, first: int, last: int) -> None:
    if not 1 <= first <= last <= view.tip_number:
        raise StartError(f"blocks {first} to {last} cannot be exported: the chain has blocks 1 to {view.tip_number}")


def _require_bodies(view: ChainView, missing: Sequence[tuple[int, int]]) -> None:
    """StartError when a partition that is to be written begins before the oldest block that is kept whole."""
    pruned = [blocks for blocks in missing if blocks[0] < view.oldest_body]
    if pruned:
        raise StartError(
            f"blocks {pruned[0][0]} to {pruned[0][1]} cannot be exported: bodies are kept from block "
            f"{view.oldest_body} on (--keep-blocks); begin there with --from, in a folder of its own"
        )


class _Export:
    def __init__(
        self,
        view: ChainView,
        folder: ExportFolder,
        wanted: TablesWanted,
        last: int,
        state: RangeCheck | None,
        progress: Progress,
    ) -> None:
        self._view = view
        self._folder = folder
        self._wanted = wanted
        self._last = last
        self._progress = progress
        self._done = self._total = 0
        self._rows_written = 0
        self._manifest = self._begin()
        self._tables = choose_tables(self._manifest.tables)
        self._verifier = None if state is None else Verifier(view, state, self._tables)

    # ---- what is there ----------------------------------------------------------------------------------

    def _begin(self) -> Manifest:
        """The manifest of the folder, or of a new one.  ExportError if it is of something else."""
        wanted, chain = self._wanted, describe_chain(self._view.chain)
        tables = tuple(table.name for table in choose_tables(wanted.tables))
        stored = self._folder.read_manifest()
        if stored is None:
            blocks = wanted.partition_blocks or PARTITION_BLOCKS
            return Manifest(chain, tables, blocks, wanted.first or 1)
        where = f"the folder {self._folder.path} holds"
        for name, ours in chain.items():
            if stored.chain.get(name) != ours:
                raise ExportError(
                    f"{where} another chain: its {name} is {stored.chain.get(name)}, this one's is {ours}"
                )
        if wanted.tables is not None and stored.tables != tables:
            raise ExportError(f"{where} the tables {', '.join(stored.tables)}; give another folder for others")
        if wanted.first not in (None, stored.first):
            raise ExportError(
                f"{where} blocks from {stored.first} on; give another folder for blocks from {wanted.first}"
            )
        if wanted.partition_blocks not in (None, stored.partition_blocks):
            raise ExportError(
                f"{where} partitions of {stored.partition_blocks} blocks; give another folder for "
                f"{wanted.partition_blocks}"
            )
        _require_blocks(self._view, stored.first, max(self._last, stored.first))
        return stored

    def _is_true(self, partition: Partition) -> bool:
        """Tell whether the blocks of a partition are those of the chain."""
        info = self._view.block_info(partition.last)
        return info is not None and hex_text(info.hash) == partition.last_hash

    # ---- the run ----------------------------------------------------------------------------------------

    def run(self) -> TablesSummary:
        before, manifest = self._manifest.partitions, self._manifest
        true = [item for item in before if self._is_true(item)]
        last = max(self._last, true[-1].last if true else 0)
        ranges = list(manifest.ranges(manifest.first, last))
        # The last one is written anew when it grows; one that lost a file, too.
        kept = [item for item in true if (item.first, item.last) in ranges and not self._sizes_differ(item)]
        missing = [blocks for blocks in ranges if blocks not in [(item.first, item.last) for item in kept]]
        _require_bodies(self._view, missing)
        again = [item for item in kept if self._wanted.verify_all or not item.is_verified] if self._verifier else []
        self._total = sum(blocks[1] - blocks[0] + 1 for blocks in missing) * (2 if self._verifier else 1)
        self._total += sum(item.last - item.first + 1 for item in again)
        self._name(kept)
        for partition in again:
            self._verify_again(partition)
        for first, last in missing:
            self._write_partition(first, last)
        replaced = [item for item in before if item not in true]
        return self._summary(range(replaced[0].first, replaced[-1].last + 1) if replaced else range(0))

    def _sizes_differ(self, partition: Partition) -> bool:
        return bool(self._folder.faults(self._manifest, partition, lambda file, expected: True))

    def _name(self, partitions: Iterable[Partition]) -> None:
        """Let the manifest say what is whole, before anything else of it goes."""
        in_order = tuple(sorted(partitions, key=lambda item: item.first))
        self._manifest = replace(self._manifest, partitions=in_order)
        self._folder.write_manifest(self._manifest)
        self._folder.remove_others(self._manifest)

    def _files(self, first: int) -> dict[str, Path]:
        return {table.name: self._folder.file(table.name, self._manifest, first) for table in self._tables}

    def _write_partition(self, first: int, last: int) -> None:
        files = self._files(first)
        open_files: dict[str, TableFile] = {}
        try:
            for table in self._tables:
                open_files[table.name] = TableFile(table, self._folder.unfinished(files[table.name]))
            rows, written = self._write_rows(open_files, first, last)
            described = {name: file.close() for name, file in open_files.items()}
        except BaseException:
            for file in open_files.values():
                file.abandon()
            raise
        if self._verifier is not None:
            self._verify({name: file.path for name, file in open_files.items()}, first, last, written)
        self._folder.finish(list(files.values()))
        block_hash = hex_text(stored_info(self._view, last).hash)
        partition = Partition(first, last, block_hash, self._verifier is not None, described)
        self._name([*self._manifest.partitions, partition])
        self._rows_written += rows

    def _write_rows(self, files: dict[str, TableFile], first: int, last: int) -> tuple[int, list[Written]]:
        """Their number, and what verification needs to know of them."""
        rows, start, written = 0, first, []
        for stop, tables in stripes(self._view, self._tables, first, last):
            if self._verifier is not None:
                written.append(Written.of(stop, tables))
            for name, table in tables.items():
                files[name].write(table)
                rows += _count(table)
            self._advance(stop + 1 - start, f"block {stop}, {self._rows_written + rows} rows")
            start = stop + 1
        return rows, written

    def _verify(self, files: dict[str, Path], first: int, last: int, written: Sequence[Written] = ()) -> None:
        assert self._verifier is not None
        start = first

        def advance(stop: int) -> None:
            nonlocal start
            self._advance(stop + 1 - start, f"block {stop} verified")
            start = stop + 1

        self._verifier.check(files, first, last, advance, written)

    def _verify_again(self, partition: Partition) -> None:
        """Verify what an earlier run has written; also that its files are still those."""
        self._verify(self._files(partition.first), partition.first, partition.last)
        faults = self._folder.faults(self._manifest, partition, lambda file, expected: digest_of(file) == expected)
        if faults:
            raise ExportError(
                f"{faults[0]}; its rows are those of the chain; remove it, and the next run writes it anew"
            )
        others = [item for item in self._manifest.partitions if item is not partition]
        self._name([*others, replace(partition, is_verified=True)])

    def _advance(self, blocks: int, note: str) -> None:
        self._done += blocks
        self._progress(self._done, self._total, note)

    def _summary(self, replaced: range) -> TablesSummary:
        partitions = self._manifest.partitions
        return TablesSummary(
            first=self._manifest.first,
            last=self._manifest.last,
            rows=sum(rows for item in partitions for rows, _, _ in item.files.values()),
            rows_written=self._rows_written,
            replaced=replaced,
            is_verified=all(item.is_verified for item in partitions),
            without_history=self._verifier.without_history if self._verifier else 0,
        )


def _count(table: pa.Table) -> int:
    rows: int = table.num_rows
    return rows
