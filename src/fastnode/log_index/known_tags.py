"""Filter of the tags that exist: in memory, filled at start, updated block by block, kept in a file.

Wallets ask for about a hundred tags at a time and nearly all of them do not exist; the filter
answers for those without touching the disk.  It errs in one direction only: it may take an unknown
tag for a known one (and the database then says no), never the other way round.  Tags are never
removed, so a reorg leaves stale ones behind until the next rebuild.

File (integers big-endian), written when the node stops:

    magic 8 | block number u32 | block hash 32 | tags u64 | filter bytes u64 | crc32 u32 of all else | filter

It is used if it is whole, of the configured size, and of a block that the chain still has close below
its tip; else the tags are read from the database again, about a second per million.
"""

from __future__ import annotations

import logging
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from fastnode.files import replace_file
from fastnode.kernels import tag_log
from fastnode.log_index import layout
from fastnode.protocol.block import L2Block

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView

__all__ = ["TAG_FILTER_FILE", "KnownTags", "tag_keys_of_block"]

log = logging.getLogger(__name__)

#: Name of the file below the data directory.
TAG_FILTER_FILE: Final = "tag_filter"
MAGIC: Final = b"fntags\x00\x01"
#: Below this a rebuild is as quick as reading a file.
TAGS_WORTH_A_FILE: Final = 200_000
#: A file that is further behind than this is not caught up from the blocks but built anew.
CATCH_UP_BLOCKS_MAX: Final = 200
#: Bits per tag below which the filter lets one unknown tag in thirty through, and says so.
BITS_PER_TAG_MIN: Final = 8

_HEAD: Final = struct.Struct(">8sI32sQQI")
_CHECKED_HEAD: Final = struct.Struct(">8sI32sQQ")


class _Stored(NamedTuple):
    block_number: int
    block_hash: bytes
    tag_count: int
    bits: bytes


class KnownTags:
    """The filter over all tags, and whether it is complete yet.

    One writer adds (the ingesting thread, before a block is committed), any thread reads.  While
    :attr:`reader_filter` is None every tag has to be looked up.
    """

    def __init__(self, size: int) -> None:
        """``size`` in bytes."""
        self._filter = tag_log.TagFilter(size)
        self._complete = False
        self._tag_count = 0
        self._warned = False

    @property
    def reader_filter(self) -> tag_log.TagFilter | None:
        """The filter, or None until it is complete."""
        return self._filter if self._complete else None

    @property
    def size(self) -> int:
        """Bytes."""
        return self._filter.size

    @property
    def tag_count(self) -> int:
        """About how many tags were added."""
        return self._tag_count

    def is_unknown(self, tag_key: bytes) -> bool:
        """True only for a tag that certainly has no log."""
        return self._complete and not self._filter.may_contain(tag_key)

    def add(self, tag_key: bytes) -> None:
        if self._filter.add(tag_key):
            self._tag_count += 1
            if self._tag_count * BITS_PER_TAG_MIN > self.size * 8 and not self._warned:
                self._warned = True
                log.warning(
                    "%d log tags are many for a filter of %d MB; raise --tag-filter-mb to keep tag queries fast",
                    self._tag_count,
                    self.size >> 20,
                )

    def begin_anew(self) -> None:
        """The chain may have tags that were not added: every tag is looked up until :meth:`fill` has been called again.

        What is in the filter stays; it errs to the safe side.
        """
        self._complete = False

    # ---- filling -----------------------------------------------------------------------------

    def fill(self, view: ChainView, path: Path | None = None) -> None:
        """Complete the filter from the file at ``path``, if that is of use, or from the database.

        ``view`` must not be older than the first block whose tags the writer has added itself, so open it
        after the writer was given this object.  May run in any thread while both go on.
        """
        if self._complete:
            return
        stored = None if path is None else _read_file(path)
        if stored is None or not self._fill_from_file(stored, view):
            self._fill_from_database(view)
        self._complete = True

    def _fill_from_file(self, stored: _Stored, view: ChainView) -> bool:
        if len(stored.bits) != self.size:
            return False
        if view.block_number_by_hash(stored.block_hash) != stored.block_number:
            return False
        missing = range(stored.block_number + 1, view.tip_number + 1)
        if len(missing) > CATCH_UP_BLOCKS_MAX or missing.start < view.oldest_body:
            return False
        # Into the filter in use: the writer may be adding to it, and nothing of that may get lost.
        self._filter.merge(stored.bits)
        self._tag_count += stored.tag_count
        for number in missing:
            block = view.load_block(number)
            if block is not None:
                for tag_key in tag_keys_of_block(block):
                    self.add(tag_key)
        return True

    def _fill_from_database(self, view: ChainView) -> None:
        for key, _ in view.scan(layout.PRIVATE_COUNT, layout.after_prefix(layout.PUBLIC_COUNT)):
            self.add(layout.tag_key_of_count(key))

    # ---- the file ----------------------------------------------------------------------------

    def save(self, path: Path, view: ChainView) -> bool:
        """Write the file for a later start; returns whether it was worth writing.

        ``view`` must not be newer than what the writer has added: call it when the writer rests.
        """
        if not self._complete or self._tag_count < TAGS_WORTH_A_FILE:
            return False
        tip = view.block_info(view.tip_number)
        if tip is None:
            return False
        bits = self._filter.dump()
        head = _CHECKED_HEAD.pack(MAGIC, tip.number, tip.hash, self._tag_count, len(bits))
        checksum = zlib.crc32(bits, zlib.crc32(head))
        replace_file(path, head, checksum.to_bytes(4, "big"), bits)
        return True


def _read_file(path: Path) -> _Stored | None:
    """The content of a whole file, or None; a damaged one is said in the log."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        log.warning("cannot read %s (%s); reading the tags from the database", path, error.strerror)
        return None
    if len(data) >= _HEAD.size:
        magic, number, block_hash, tag_count, size, checksum = _HEAD.unpack_from(data)
        bits = data[_HEAD.size :]
        head = data[: _CHECKED_HEAD.size]
        if magic == MAGIC and len(bits) == size > 0 and zlib.crc32(bits, zlib.crc32(head)) == checksum:
            return _Stored(number, block_hash, tag_count, bits)
    log.warning("%s is damaged; reading the tags from the database", path)
    return None


def tag_keys_of_block(block: L2Block) -> set[bytes]:
    """The tag keys of all logs of a block."""
    keys: set[bytes] = set()
    for effect in block.body.tx_effects:
        keys.update(log.fields[0] for log in effect.private_logs)
        keys.update(log.contract_address + log.fields[0] for log in effect.public_logs if log.fields)
    return keys
