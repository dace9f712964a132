"""Entries that an older fastnode has stored in more bytes are brought to this version's form while the node serves.

Texts are packed; logs in the index of logs give way to where they are, by the writer of that index.  A step does some
in one synced batch that also moves the mark behind them, so that a crash leaves what was before it or what is after it;
both are read alike.  The room that it frees counts as dropped, and is given back to the disk.

A text that is not packed never begins with the mark of packed ones, 0x81: it begins with ``{``, ``[`` or a zero byte,
with a field element (its first byte is 0x30 at most), or with the number of a block, which has 32 bits.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

from fastnode.archiver import layout
from fastnode.archiver.hooks import IndexWriter
from fastnode.archiver.queries import ChainView
from fastnode.archiver.store import ArchiverStore
from fastnode.kernels import stored_text
from fastnode.log import log_facts

__all__ = ["packing_step"]

logger = logging.getLogger("fastnode.storage")

#: A step ends with so many texts, or bytes of them: some 20 ms of work.
TEXTS_PER_STEP: Final = 2000
BYTES_PER_STEP: Final = 1 << 20
#: Texts that an entry of an index counts for: it is looked up in a transaction.
TEXTS_PER_ENTRY: Final = 5


def packing_step(store: ArchiverStore, view: ChainView, writers: Sequence[IndexWriter]) -> bool:
    """Bring what comes next to the form of this version; False if there is nothing, or nobody who could.

    ``writers`` are those of the indexes.

    To be called by the thread that writes the chain, or while it does not; ``view`` is the newest.
    """
    mark = view.get(layout.KEY_NOT_PACKED)
    if mark is None or not writers:
        return False
    if len(mark) == 1:
        logger.info("packing texts of an older version", extra=log_facts(database=store.database.path.name))
    batch = store.write_batch()
    freed = read = count = 0
    next_mark = None
    writer_of = {prefix[0]: writer for writer in writers for prefix in writer.prefixes}
    for key, stored in _values_from(view, mark):
        if count >= TEXTS_PER_STEP or read >= BYTES_PER_STEP:
            next_mark = key
            break
        read += len(stored)
        writer = writer_of.get(key[0])
        count += 1 if writer is None else TEXTS_PER_ENTRY
        if writer is not None:
            freed += writer.renew(batch, key, stored)
        elif not stored.startswith(stored_text.MARK):
            batch.put(key, stored)
            freed += len(stored)
    if next_mark is None:
        batch.delete(layout.KEY_NOT_PACKED)
        logger.info("texts of an older version are packed", extra=log_facts(database=store.database.path.name))
    else:
        batch.put(layout.KEY_NOT_PACKED, next_mark)
    batch.put(*store.giving_back.entry(freed))
    batch.commit()
    store.giving_back.count(freed)
    return True


def _values_from(view: ChainView, first: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys of what has had another form, from the key ``first`` on, and their values as they are stored."""
    for kind in sorted(layout.RENEWED):
        if kind >= first[0]:
            yield from view.scan_stored(max(first, bytes([kind])), bytes([kind + 1]))
