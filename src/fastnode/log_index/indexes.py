"""The log and contract indexes of one chain database as a whole: what a node builds once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from fastnode.archiver.queries import ChainView
from fastnode.archiver.store import ArchiverStore
from fastnode.errors import DatabaseError, DataDirectoryError
from fastnode.log_index import layout
from fastnode.log_index.contracts import ContractIndexWriter
from fastnode.log_index.index import LogIndexWriter
from fastnode.log_index.known_tags import KnownTags

__all__ = ["TAG_FILTER_BYTES", "ChainIndexes"]

_Writer: TypeAlias = LogIndexWriter | ContractIndexWriter

log = logging.getLogger(__name__)

#: Size of the tag filter unless set otherwise: room for eight million tags.
TAG_FILTER_BYTES: Final = 16 << 20
#: Blocks indexed, or keys removed, in one batch while catching up.
BLOCKS_PER_BATCH: Final = 64
KEYS_PER_BATCH: Final = 10_000
#: Blocks between two lines that say how far catching up is.
BLOCKS_PER_PROGRESS_LINE: Final = 10_000


class ChainIndexes:
    """The index writers, the filter of known tags, and their care at start and stop.

    ``filter_bytes``: memory for the filter.
    """

    def __init__(self, *, filter_bytes: int = TAG_FILTER_BYTES) -> None:
        self.known_tags = KnownTags(filter_bytes)
        self._contracts = ContractIndexWriter()
        self.writers: tuple[_Writer, ...] = (LogIndexWriter(self.known_tags), self._contracts)

    # ---- start -------------------------------------------------------------------------------

    def catch_up(self, store: ArchiverStore) -> int:
        """Index the blocks that were stored without these indexes; returns how many those are.

        Call it before the first :class:`~fastnode.archiver.ingest.Ingestor` is made.  An index that does not
        fit the chain (of another layout, or of blocks that are gone) is removed and built anew.
        """
        if not store.has_chain:
            return 0
        self._contracts.release = store.chain.release
        with store.open_view() as view:
            if view.tip_number == 0:
                self.load_filter(view)  # there is no tag: none is looked up while the chain grows
            starts = [self._end_of_index(store, view, writer) for writer in self.writers]
            count = view.tip_number - min(starts)
            if count:
                log.warning("indexing the logs and contracts of %d stored blocks", count)
            for numbers in _batches(range(min(starts) + 1, view.tip_number + 1), BLOCKS_PER_BATCH):
                self._index(store, view, numbers, starts)
        return count

    def _end_of_index(self, store: ArchiverStore, view: ChainView, writer: _Writer) -> int:
        head = writer.head.read(view.get)
        if head is not None:
            block = view.block_info(head.block_number)
            is_of_this_chain = block is not None and block.archive_root == head.archive_root
            if head.version == layout.LAYOUT_VERSION and is_of_this_chain:
                return head.block_number
            log.warning("the index of %s does not fit the chain; building it anew", writer.head.name)
        _require_bodies(store, view, writer)
        _remove_all(store, view, writer)
        return 0

    def _index(self, store: ArchiverStore, view: ChainView, numbers: range, starts: list[int]) -> None:
        batch = store.write_batch()
        for number in numbers:
            block = view.load_block(number)
            if block is None:
                raise DatabaseError(f"block {number} is missing from the chain database; run `fastnode db check`")
            for writer, start in zip(self.writers, starts, strict=True):
                if number > start:
                    writer.write(batch, block)
            if number % BLOCKS_PER_PROGRESS_LINE == 0:
                log.info("indexed up to block %d of %d", number, view.tip_number)
        batch.commit()

    def load_filter(self, view: ChainView, path: Path | None = None) -> None:
        """Fill the filter of known tags from the file at ``path`` or from the database.

        Until that is done every tag is looked up in the database, which is right but slower, so it may run
        in a thread beside ingestion and requests; ``view`` is one opened after :meth:`catch_up`.
        """
        self.known_tags.fill(view, path)

    # ---- stop --------------------------------------------------------------------------------

    def save_filter(self, view: ChainView, path: Path) -> bool:
        """Write the filter to ``path`` for the next start; returns whether it was worth it.

        Call it when ingestion has stopped, with its last view.
        """
        return self.known_tags.save(path, view)


def _require_bodies(store: ArchiverStore, view: ChainView, writer: _Writer) -> None:
    """DataDirectoryError when an index cannot be built: it needs the bodies of all blocks."""
    if view.oldest_body > 1:
        raise DataDirectoryError(
            f"the index of {writer.head.name} in {store.path} does not fit the chain and cannot be built anew: bodies "
            f"are kept from block {view.oldest_body} on; restore a snapshot, or sync again"
        )


def _remove_all(store: ArchiverStore, view: ChainView, writer: _Writer) -> None:
    """Remove every key of an index, its head first: an index cut down halfway is never taken for a whole one."""
    batch = store.write_batch()
    batch.delete(writer.head.key)
    count = 1
    for prefix in writer.prefixes:
        for key, _ in view.scan(prefix, layout.after_prefix(prefix)):
            batch.delete(key)
            count += 1
            if count % KEYS_PER_BATCH == 0:
                batch.commit()
    batch.commit()


def _batches(numbers: range, size: int) -> Iterator[range]:
    for start in range(0, len(numbers), size):
        yield numbers[start : start + size]
