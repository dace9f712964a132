"""Importing a chain file: idempotent, resumable, never moving a tip back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.source import CheckpointRecord, Record, TipsRecord
from fastnode.archiver.store import ArchiverStore
from fastnode.errors import BlockRejected, DecodeError
from fastnode.protocol.tips import L2Tips, TipId
from fastnode.records import dataclass
from fastnode.sources.chain_file import ChainFileSource

__all__ = ["ImportProgress", "ImportSummary", "adopt_chain_file", "import_chain_file"]


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """Said after every record.  ``bytes_*`` count the file as it lies on disk, compressed or not."""

    block_number: int
    bytes_read: int
    bytes_total: int


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """``blocks`` in the file, ``new_blocks`` of them stored by this run, ``tip`` the newest block afterwards."""

    blocks: int
    new_blocks: int
    tip: int


def adopt_chain_file(store: ArchiverStore, path: Path) -> bool:
    """Make the store one of the file's chain (its genesis); returns whether it was new.

    DataDirectoryError naming both when the store holds another chain; ChainFileError when the head of the
    file cannot be read.
    """
    with ChainFileSource(path) as source:
        return _adopt(store, source)


def import_chain_file(
    ingestor: Ingestor, path: Path, *, progress: Callable[[ImportProgress], None] | None = None
) -> ImportSummary:
    """Apply a whole chain file.  What is stored already is recognised by its hashes and skipped.

    A record that fails a check stops the import as a ChainFileError with its line; everything before it
    stays.  Another chain than the store's: DataDirectoryError.
    """
    blocks = new_blocks = 0
    if path.is_file():
        with ChainFileSource(path) as source:
            ingestor.final_checkpoint = source.newest_final_checkpoint()
    with ChainFileSource(path) as source, _whole_runs(ingestor, source):
        _adopt(ingestor.store, source)
        for record in source.records():
            try:
                new_blocks += _apply(ingestor, record)
                blocks += _block_count(record)
            except (BlockRejected, DecodeError) as error:
                raise source.error(str(error)) from error
            if progress is not None:
                progress(ImportProgress(ingestor.view.tip_number, source.bytes_read, source.bytes_total))
    return ImportSummary(blocks=blocks, new_blocks=new_blocks, tip=ingestor.view.tip_number)


@contextmanager
def _whole_runs(ingestor: Ingestor, source: ChainFileSource) -> Iterator[None]:
    """Store what was applied, also when a later record is refused or the import is stopped."""
    try:
        yield
    finally:
        try:
            ingestor.flush()
        except BlockRejected as error:
            raise source.error(str(error)) from error


def _adopt(store: ArchiverStore, source: ChainFileSource) -> bool:
    try:
        return store.adopt_chain(source.chain, source.genesis)
    except BlockRejected as error:
        raise source.error(str(error)) from error


def _apply(ingestor: Ingestor, record: Record) -> int:
    if isinstance(record, TipsRecord):
        # An older file may be imported into a store that has moved on.
        ingestor.set_tips(_highest(record.tips, ingestor.view.tips))
        return 0
    return ingestor.apply(record)


def _block_count(record: Record) -> int:
    if isinstance(record, CheckpointRecord):
        return record.block_count
    return 0 if isinstance(record, TipsRecord) else 1


def _highest(given: L2Tips, stored: L2Tips) -> L2Tips:
    return L2Tips(
        proposed=given.proposed,
        checkpointed=_higher(given.checkpointed, stored.checkpointed),
        proven=_higher(given.proven, stored.proven),
        finalized=_higher(given.finalized, stored.finalized),
    )


def _higher(given: TipId, stored: TipId) -> TipId:
    return stored if stored.checkpoint.number > given.checkpoint.number else given
