"""Values of the chain database that are not plain JSON: fixed heads followed by JSON fragments.

All integers are big-endian.  A *fragment* is JSON exactly as it is sent to a client.

    block        hash 32 | archive root 32 | checkpoint number u32 | index within checkpoint u32
                 | slot u32 | timestamp u64 | tx count u32 | header length u32
                 | header fragment | archive fragment

    checkpoint   header hash 32 | out hash 32 | start block u32 | block count u32 | slot u32
                 | fee asset price modifier i256 | lengths of the first three fragments 3 x u32
                 | header fragment | archive fragment | l1 fragment | attestations fragment

    transaction  block u32 | index in block u32 | revert code u8 | block hash 32
                 | receipt fragment: the members after "executionResult" and the closing brace

    tips         proposed block u32 | checkpointed u32 | proven u32 | finalized u32
                 (the last three are checkpoint numbers; every hash is looked up, never stored twice)
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import orjson

from fastnode.kernels import layouts
from fastnode.protocol.checkpoint import CommitteeAttestation
from fastnode.storage.structs import placed

__all__ = [
    "BlockInfo",
    "StoredBlock",
    "StoredCheckpoint",
    "StoredTips",
    "StoredTransaction",
]

_BLOCK_HEAD = placed(
    (layouts.BLOCK_HASH, "32s"),
    (layouts.BLOCK_ARCHIVE_ROOT, "32s"),
    (layouts.BLOCK_CHECKPOINT_NUMBER, "I"),
    (layouts.BLOCK_INDEX_WITHIN_CHECKPOINT, "I"),
    (layouts.BLOCK_SLOT, "I"),
    (layouts.BLOCK_TIMESTAMP, "Q"),
    (layouts.BLOCK_TX_COUNT, "I"),
    (layouts.BLOCK_HEADER_LENGTH, "I"),
    size=layouts.BLOCK_HEAD_BYTES,
)
_CHECKPOINT_HEAD = placed(
    (layouts.CHECKPOINT_HEADER_HASH, "32s"),
    (layouts.CHECKPOINT_OUT_HASH, "32s"),
    (layouts.CHECKPOINT_START_BLOCK, "I"),
    (layouts.CHECKPOINT_BLOCK_COUNT, "I"),
    (layouts.CHECKPOINT_SLOT, "I"),
    (layouts.CHECKPOINT_FEE_ASSET_PRICE_MODIFIER, "32s"),
    (layouts.CHECKPOINT_FRAGMENT_LENGTHS, "III"),
    size=layouts.CHECKPOINT_HEAD_BYTES,
)
_MODIFIER_BYTES = 32
_TRANSACTION_HEAD = placed(
    (layouts.TX_BLOCK, "I"),
    (layouts.TX_INDEX, "I"),
    (layouts.TX_REVERT_CODE, "B"),
    (layouts.TX_BLOCK_HASH, "32s"),
    size=layouts.TX_HEAD_BYTES,
)
_TIPS = struct.Struct(">IIII")


class BlockInfo(NamedTuple):
    """The numbers of one block.  ``timestamp`` is in seconds; ``hash`` and ``archive_root`` are 32 bytes."""

    number: int
    hash: bytes
    archive_root: bytes
    checkpoint_number: int
    index_within_checkpoint: int
    slot_number: int
    timestamp: int
    tx_count: int


class StoredBlock(NamedTuple):
    """A block record: its numbers, its header as JSON, its archive snapshot as JSON."""

    info: BlockInfo
    header_json: bytes
    archive_json: bytes

    def encode(self) -> bytes:
        info = self.info
        head = _BLOCK_HEAD.pack(
            info.hash,
            info.archive_root,
            info.checkpoint_number,
            info.index_within_checkpoint,
            info.slot_number,
            info.timestamp,
            info.tx_count,
            len(self.header_json),
        )
        return b"".join((head, self.header_json, self.archive_json))

    @classmethod
    def decode(cls, number: int, value: bytes) -> StoredBlock:
        *fields, header_length = _BLOCK_HEAD.unpack_from(value)
        header_end = _BLOCK_HEAD.size + header_length
        return cls(BlockInfo(number, *fields), value[_BLOCK_HEAD.size : header_end], value[header_end:])


def decode_block_info(number: int, value: bytes) -> BlockInfo:
    """Only the numbers of a block record."""
    return BlockInfo(number, *_BLOCK_HEAD.unpack_from(value)[:-1])


class StoredCheckpoint(NamedTuple):
    """A complete checkpoint; ``*_json`` are fragments ready to be sent.

    ``out_hash`` is the checkpoint's own out hash (zero without L2->L1 messages), not the epoch's.
    """

    number: int
    header_hash: bytes
    out_hash: bytes
    start_block: int
    block_count: int
    slot_number: int
    fee_asset_price_modifier: int
    header_json: bytes
    archive_json: bytes
    l1_json: bytes
    attestations_json: bytes

    @property
    def last_block(self) -> int:
        return self.start_block + self.block_count - 1

    @property
    def archive_root(self) -> bytes:
        """Root of the archive after it (32 bytes)."""
        return bytes.fromhex(orjson.loads(self.archive_json)["root"][2:])

    @property
    def attestations(self) -> tuple[CommitteeAttestation, ...]:
        """Attestations that it has on L1, in the order of the committee."""
        return tuple(
            CommitteeAttestation.from_json(item, "attestations") for item in orjson.loads(self.attestations_json)
        )

    def encode(self) -> bytes:
        head = _CHECKPOINT_HEAD.pack(
            self.header_hash,
            self.out_hash,
            self.start_block,
            self.block_count,
            self.slot_number,
            self.fee_asset_price_modifier.to_bytes(_MODIFIER_BYTES, "big", signed=True),
            len(self.header_json),
            len(self.archive_json),
            len(self.l1_json),
        )
        return b"".join((head, self.header_json, self.archive_json, self.l1_json, self.attestations_json))

    @classmethod
    def decode(cls, number: int, value: bytes) -> StoredCheckpoint:
        head = _CHECKPOINT_HEAD.unpack_from(value)
        header_hash, out_hash, start_block, block_count, slot_number, modifier, *lengths = head
        fragments = []
        end = _CHECKPOINT_HEAD.size
        for length in lengths:
            start, end = end, end + length
            fragments.append(value[start:end])
        return cls(
            number=number,
            header_hash=header_hash,
            out_hash=out_hash,
            start_block=start_block,
            block_count=block_count,
            slot_number=slot_number,
            fee_asset_price_modifier=int.from_bytes(modifier, "big", signed=True),
            header_json=fragments[0],
            archive_json=fragments[1],
            l1_json=fragments[2],
            attestations_json=value[end:],
        )


class StoredTransaction(NamedTuple):
    """Place of a mined transaction, and the end of its receipt."""

    block_number: int
    index_in_block: int
    revert_code: int
    block_hash: bytes
    receipt_json: bytes

    def encode(self) -> bytes:
        head = _TRANSACTION_HEAD.pack(self.block_number, self.index_in_block, self.revert_code, self.block_hash)
        return head + self.receipt_json

    @classmethod
    def decode(cls, value: bytes) -> StoredTransaction:
        block_number, index, revert_code, block_hash = _TRANSACTION_HEAD.unpack_from(value)
        return cls(block_number, index, revert_code, block_hash, value[_TRANSACTION_HEAD.size :])


class StoredTips(NamedTuple):
    """The four tips as numbers: one block and three checkpoints."""

    proposed_block: int
    checkpointed: int
    proven: int
    finalized: int

    def encode(self) -> bytes:
        return _TIPS.pack(*self)

    @classmethod
    def decode(cls, value: bytes) -> StoredTips:
        return cls(*_TIPS.unpack(value))
