"""A chain database as long as a busy network's: records of blocks and nothing that the status page does not read."""

from __future__ import annotations

from pathlib import Path

from fastnode.archiver import layout
from fastnode.archiver.records import BlockInfo, StoredBlock, StoredCheckpoint, StoredTips
from fastnode.archiver.store import ArchiverStore
from fastnode.sources.chain_import import adopt_chain_file

__all__ = ["write_long_chain"]

BLOCKS_PER_CHECKPOINT = 4
BLOCK_TIME_S = 6
STARTED_AT = 1_700_000_000


def write_long_chain(store: ArchiverStore, chain_file: Path, blocks: int) -> None:
    """``blocks`` blocks on the genesis of ``chain_file``, a multiple of four of them; all but four are finalized."""
    adopt_chain_file(store, chain_file)
    header = b'{"filler":"%b"}' % (b"0" * 1500)  # about what a header takes
    batch = store.write_batch()
    for number in range(1, blocks + 1):
        place = number - 1
        info = BlockInfo(
            number=number,
            hash=_hash(1, number),
            archive_root=_hash(2, number),
            checkpoint_number=place // BLOCKS_PER_CHECKPOINT + 1,
            index_within_checkpoint=place % BLOCKS_PER_CHECKPOINT,
            slot_number=place // BLOCKS_PER_CHECKPOINT,
            timestamp=STARTED_AT + number * BLOCK_TIME_S,
            tx_count=0,
        )
        batch.put(layout.block_key(number), StoredBlock(info, header, b"{}").encode())
        batch.put(layout.tx_hashes_key(number), b"")
        batch.put(layout.BLOCK_BY_HASH + info.hash, layout.encode_number(number))
    last = blocks // BLOCKS_PER_CHECKPOINT
    for number in (last - 1, last):
        batch.put(layout.checkpoint_key(number), _checkpoint(number).encode())
    batch.put(layout.KEY_TIPS, StoredTips(blocks, last, last - 1, last - 1).encode())
    batch.commit()


def _hash(kind: int, number: int) -> bytes:
    return bytes([kind]) + number.to_bytes(31, "big")


def _checkpoint(number: int) -> StoredCheckpoint:
    return StoredCheckpoint(
        number=number,
        header_hash=_hash(3, number),
        out_hash=bytes(32),
        start_block=(number - 1) * BLOCKS_PER_CHECKPOINT + 1,
        block_count=BLOCKS_PER_CHECKPOINT,
        slot_number=number - 1,
        fee_asset_price_modifier=0,
        header_json=b"{}",
        archive_json=b"{}",
        l1_json=b"{}",
        attestations_json=b"[]",
    )
