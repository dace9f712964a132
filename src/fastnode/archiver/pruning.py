"""Bodies of old blocks are dropped: what their transactions did, and their logs.

    kept       headers, hashes, archive roots, checkpoints, messages both ways, receipts, hashes of transactions
    dropped    effects, and what the log index has of them

A step drops whole checkpoints in one synced batch that also moves the oldest block with a body, so that a crash leaves
the one before it or the one after it.  Only what is final goes: an undo needs the bodies of what it takes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastnode.archiver import layout
from fastnode.archiver.hooks import IndexWriter
from fastnode.archiver.queries import ChainView, stored_block, stored_info
from fastnode.archiver.store import ArchiverStore
from fastnode.storage.giving_back import ENTRY_BYTES

__all__ = ["oldest_to_keep", "prune_step"]

#: A step ends behind the checkpoint with which it has so many blocks, or bytes of bodies: some 50 ms of work.
BLOCKS_PER_STEP: Final = 64
BYTES_PER_STEP: Final = 256 << 10


def oldest_to_keep(view: ChainView, keep: int) -> int:
    """The oldest block whose body is to stay when those of the newest ``keep`` blocks up to the finalized one are.

    The first block of a checkpoint: what an undo leaves of one is read again.
    """
    wanted = view.tips.finalized.block.number + 1 - keep
    if wanted <= view.oldest_body:
        return view.oldest_body
    info = stored_info(view, wanted)
    return max(view.oldest_body, wanted - info.index_within_checkpoint)


def prune_step(store: ArchiverStore, view: ChainView, writers: Sequence[IndexWriter], keep: int) -> bool:
    """Drop the bodies of some blocks that are older than those to keep; False if there is none.

    To be called by the thread that writes the chain, or while it does not; ``view`` is the newest.
    """
    end = oldest_to_keep(view, keep)
    number = view.oldest_body
    if number >= end:
        return False
    batch = store.write_batch()
    blocks = body_bytes = dropped_bytes = 0
    while number < end:
        info = stored_info(view, number)
        if info.index_within_checkpoint == 0 and (blocks >= BLOCKS_PER_STEP or body_bytes >= BYTES_PER_STEP):
            break
        if info.tx_count:
            block = stored_block(view, number)
            for writer in writers:
                dropped_bytes += writer.prune(batch, block)
            body_bytes += len(view.body_json(number) or b"")
            bodies = layout.effect_key(number, 0), layout.effect_key(number, info.tx_count)
            for key, stored in view.scan_stored(*bodies):
                dropped_bytes += len(stored) + ENTRY_BYTES
                batch.delete(key)
        blocks += 1
        number += 1
    batch.put(layout.KEY_OLDEST_BODY, layout.encode_number(number))
    batch.put(*store.giving_back.entry(dropped_bytes))
    batch.commit()
    store.giving_back.count(dropped_bytes)
    return True
