"""Writing and undoing what a block's logs add to the database.  Keys are drawn in ``layout.py``.

The pages of a tag only grow at their end, so adding a log touches the count and the last page of its
tag, and undoing a block cuts exactly as many logs off that end as the block put there.  Pruning the oldest
block that has logs here cuts as many off the other end, and the count says how many those are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Final

from fastnode.archiver.layout import KEY_NOT_PACKED
from fastnode.errors import DatabaseError
from fastnode.kernels import stored_text
from fastnode.log_index import layout
from fastnode.log_index.head import IndexHead
from fastnode.log_index.known_tags import KnownTags
from fastnode.log_index.layout import LOGS_PER_PAGE, Place, TagCount
from fastnode.log_index.pages import cut_page, joined_page
from fastnode.protocol.block import L2Block
from fastnode.records import dataclass
from fastnode.storage.database import WriteBatch

__all__ = ["LogEntries", "LogIndexWriter", "log_entries"]


#: Bytes that a page takes on the disk with its part of the rows, about: most have one log.
PAGE_BYTES: Final = 200


class LogIndexWriter:
    """The index writer of logs; ``known_tags`` learns every tag before the block that has it is committed."""

    prefixes: Final = layout.LOG_PREFIXES

    def __init__(self, known_tags: KnownTags) -> None:
        self.head: Final = IndexHead("logs", layout.LOG_HEAD)
        self._known_tags = known_tags

    def write(self, batch: WriteBatch, block: L2Block) -> None:
        self.head.advance(batch, block)
        entries = log_entries(block)
        for tag_key, logs in entries.tagged.items():
            self._append(batch, tag_key, logs)
        for key, places in entries.places.items():
            batch.put(key, layout.encode_places(places))

    def undo(self, batch: WriteBatch, block: L2Block) -> None:
        self.head.retreat(batch, block)
        keys = _keys_of(block)
        for tag_key, count in keys.tagged.items():
            _cut(batch, tag_key, count)
        keys.delete(batch)

    def prune(self, batch: WriteBatch, block: L2Block) -> int:
        """Drop the logs of a block: the oldest that has any here."""
        keys = _keys_of(block)
        dropped_bytes = sum(PAGE_BYTES * _drop(batch, tag_key, count) for tag_key, count in keys.tagged.items())
        keys.delete(batch)
        return dropped_bytes

    def renew(self, batch: WriteBatch, key: bytes, stored: bytes) -> int:
        """Bring an entry that lies in the form of an older version to this one's; bytes that it takes less."""
        if key.startswith((layout.PUBLIC_LOG, layout.CLASS_LOG)):
            row = key[: layout.ROW_BYTES]
            if key == row:
                return 0
            batch.delete(key)
            batch.put(row, (batch.get(row) or b"") + key[layout.ROW_BYTES :])
            return len(key) + len(stored)
        page = stored_text.unpack(stored)
        tag_key, number = layout.tag_key_of_page(key)
        mark = page[: page.startswith(layout.CUT_PAGE)]
        renewed = mark + cut_page(batch.get, tag_key, number, page)
        is_text = not renewed[len(mark) :].startswith(layout.ENTRIES)
        if renewed == page and (not is_text or stored.startswith(stored_text.MARK)):
            return 0
        batch.put(key, renewed)
        return len(stored)

    def _append(self, batch: WriteBatch, tag_key: bytes, logs: list[bytes]) -> None:
        count_key = layout.count_key(tag_key)
        stored = None if self._known_tags.is_unknown(tag_key) else batch.get(count_key)
        count = TagCount(0) if stored is None else TagCount.decode(stored)
        self._known_tags.add(tag_key)
        batch.put(count_key, count._replace(logs=count.logs + len(logs)).encode())
        written = 0
        while written < len(logs):
            page, used = divmod(count.logs + written, LOGS_PER_PAGE)
            added = logs[written : written + LOGS_PER_PAGE - used]
            pruned = count.pruned_of_page(page)
            before = _page(batch, tag_key, page) if used > pruned else b""
            joined = joined_page(batch.get, tag_key, page, before, b"".join(added))
            _put_page(batch, tag_key, page, joined, is_cut=pruned > 0)
            written += len(added)


def _cut(batch: WriteBatch, tag_key: bytes, count: int) -> None:
    """Take the newest ``count`` logs of a tag away."""
    before = _count(batch, tag_key)
    left = before.logs - count
    if left < before.pruned:
        raise DatabaseError(
            f"log tag {tag_key.hex()} has {before.logs} logs, {before.pruned} of them pruned; {count} were to be undone"
        )
    kept_pages, used = divmod(left, LOGS_PER_PAGE)
    if left:
        batch.put(layout.count_key(tag_key), before._replace(logs=left).encode())
    else:
        batch.delete(layout.count_key(tag_key))
    pruned = before.pruned_of_page(kept_pages)
    if used > pruned:
        page = _page(batch, tag_key, kept_pages)
        kept = cut_page(batch.get, tag_key, kept_pages, page, stop=used - pruned)
        _put_page(batch, tag_key, kept_pages, kept, is_cut=pruned > 0)
        kept_pages += 1
    for number in range(kept_pages, -(-before.logs // LOGS_PER_PAGE)):
        batch.delete(layout.page_key(tag_key, number))


def _drop(batch: WriteBatch, tag_key: bytes, count: int) -> int:
    """Take the oldest ``count`` logs of a tag away that are there; returns how many pages went."""
    before = _count(batch, tag_key)
    after = before._replace(pruned=before.pruned + count)
    if after.pruned > after.logs:
        raise DatabaseError(
            f"log tag {tag_key.hex()} has {before.logs} logs, {before.pruned} of them pruned; {count} were to be too"
        )
    batch.put(layout.count_key(tag_key), after.encode())
    first, last = before.pruned // LOGS_PER_PAGE, after.pruned // LOGS_PER_PAGE
    dropped = 0
    for number in range(first, last + 1):
        lacks, will_lack = before.pruned_of_page(number), after.pruned_of_page(number)
        has = min(LOGS_PER_PAGE, after.logs - number * LOGS_PER_PAGE)
        if will_lack >= has > lacks:
            batch.delete(layout.page_key(tag_key, number))
            dropped += 1
        elif will_lack > lacks:
            page = _page(batch, tag_key, number)
            _put_page(
                batch, tag_key, number, cut_page(batch.get, tag_key, number, page, will_lack - lacks), is_cut=True
            )
    return dropped


def _count(batch: WriteBatch, tag_key: bytes) -> TagCount:
    stored = batch.get(layout.count_key(tag_key))
    return TagCount(0) if stored is None else TagCount.decode(stored)


def _page(batch: WriteBatch, tag_key: bytes, number: int) -> bytes:
    key = layout.page_key(tag_key, number)
    page = batch.get(key)
    if page is None:
        raise DatabaseError(f"the chain database lacks the log page {key.hex()}")
    return page


def _put_page(batch: WriteBatch, tag_key: bytes, number: int, page: bytes, *, is_cut: bool) -> None:
    batch.put(layout.page_key(tag_key, number), layout.CUT_PAGE + page if is_cut else page)


# ---- what a block has -------------------------------------------------------------------------


@dataclass(slots=True)
class LogEntries:
    """Additions of a block: entries by tag key, places by the key of an index row."""

    tagged: dict[bytes, list[bytes]] = field(default_factory=dict)
    places: dict[bytes, list[Place]] = field(default_factory=dict)


def log_entries(block: L2Block) -> LogEntries:
    """Everything that the logs of a block add to the index."""
    entries = LogEntries()
    tagged, number, timestamp = entries.tagged, block.number, block.header.global_variables.timestamp
    for tx_index, effect in enumerate(block.body.tx_effects):
        for log_index, private in enumerate(effect.private_logs):
            entry = layout.encode_entry((number, tx_index, log_index), timestamp)
            tagged.setdefault(private.fields[0], []).append(entry)
        for log_index, log in enumerate(effect.public_logs):
            tag = log.fields[0] if log.fields else None
            if tag is not None:
                entry = layout.encode_entry((number, tx_index, log_index), timestamp)
                tagged.setdefault(log.contract_address + tag, []).append(entry)
            for row in _public_rows(log.contract_address, tag, number):
                entries.places.setdefault(row, []).append((tx_index, log_index))
        for log_index, class_log in enumerate(effect.contract_class_logs):
            for row in _class_rows(class_log.contract_address, number):
                entries.places.setdefault(row, []).append((tx_index, log_index))
    return entries


def _public_rows(contract: bytes, tag: bytes | None, block_number: int) -> Iterator[bytes]:
    """Index rows that a public log belongs to."""
    yield layout.block_key(layout.PUBLIC_LOG, block_number)
    yield layout.block_key(layout.PUBLIC_BY_CONTRACT + contract, block_number)
    if tag is not None:
        yield layout.block_key(layout.PUBLIC_BY_TAG + tag, block_number)
        yield layout.block_key(layout.PUBLIC_BY_CONTRACT_AND_TAG + contract + tag, block_number)


def _class_rows(contract: bytes, block_number: int) -> Iterator[bytes]:
    """Index rows that a class log belongs to."""
    yield layout.block_key(layout.CLASS_LOG, block_number)
    yield layout.block_key(layout.CLASS_BY_CONTRACT + contract, block_number)


@dataclass(slots=True)
class _Keys:
    """The keys of a block's entries, and by tag key how many logs it added."""

    tagged: dict[bytes, int] = field(default_factory=dict)
    places: set[bytes] = field(default_factory=set)
    #: Keys of logs that older versions would have.
    older: list[bytes] = field(default_factory=list)

    def delete(self, batch: WriteBatch) -> None:
        """Remove all but pages and counts of tags."""
        older = self.older if batch.get(KEY_NOT_PACKED) is not None else []
        for key in (*self.places, *older):
            batch.delete(key)


def _keys_of(block: L2Block) -> _Keys:
    keys = _Keys()
    for tx_index, effect in enumerate(block.body.tx_effects):
        for private_log in effect.private_logs:
            keys.tagged[private_log.fields[0]] = keys.tagged.get(private_log.fields[0], 0) + 1
        for log_index, log in enumerate(effect.public_logs):
            tag = log.fields[0] if log.fields else None
            if tag is not None:
                tag_key = log.contract_address + tag
                keys.tagged[tag_key] = keys.tagged.get(tag_key, 0) + 1
            keys.older.append(layout.log_key(layout.PUBLIC_LOG, (block.number, tx_index, log_index)))
            keys.places.update(_public_rows(log.contract_address, tag, block.number))
        for log_index, class_log in enumerate(effect.contract_class_logs):
            keys.older.append(layout.log_key(layout.CLASS_LOG, (block.number, tx_index, log_index)))
            keys.places.update(_class_rows(class_log.contract_address, block.number))
    return keys
