"""The inverse of blob encoding: blocks of a checkpoint from the fields that publish it (layout: ``blobs.py``).

The fields do not hold everything.  The archive root after a block is the ``lastArchive`` root of the next one, and
after the last block it is what L1 says; the root of the message tree is only with the first block; slot, coinbase,
fee recipient and gas fees are in the checkpoint header; fees, counts, the sponge hash and the root over the effects
follow from the rest.

Everything is a claim: every root is recomputed before a block is stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from fastnode.errors import DecodeError
from fastnode.protocol.blobs import (
    BLOCK_END_BITS,
    BLOCK_STATE_BITS,
    CHECKPOINT_END_BITS,
    CHECKPOINT_FIELDS_MAX,
    TX_START_BITS,
    BlobSponge,
)
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import Checkpoint, CheckpointHeader
from fastnode.protocol.constants import (
    BLOCK_END_PREFIX,
    BLOCKS_PER_CHECKPOINT_MAX,
    CHECKPOINT_END_PREFIX,
    CONTRACT_CLASS_LOG_FIELDS,
    L2_TO_L1_MESSAGES_PER_TX_MAX,
    NOTE_HASHES_PER_TX_MAX,
    NULLIFIERS_PER_TX_MAX,
    PRIVATE_LOG_FIELDS,
    PRIVATE_LOGS_PER_TX_MAX,
    PUBLIC_DATA_WRITES_PER_TX_MAX,
    PUBLIC_LOG_FIELDS_MAX,
    PUBLIC_LOGS_FLAT_FIELDS_MAX,
    REVERT_CODE_MAX,
    TX_START_PREFIX,
)
from fastnode.protocol.effects import (
    Body,
    ContractClassLog,
    PrivateLog,
    PublicDataWrite,
    PublicLog,
    TxEffect,
)
from fastnode.protocol.effects_tree import effects_root
from fastnode.protocol.fields import FIELD_BYTES, U32_BITS, ZERO_FIELD, first_non_canonical, split_fields
from fastnode.protocol.header import AppendOnlyTreeSnapshot, BlockHeader, GlobalVariables, StateReference
from fastnode.protocol.releases import TreeRules
from fastnode.records import dataclass

__all__ = ["DecodedBlock", "checkpoint_of", "decode_blocks"]


@dataclass(frozen=True, slots=True)
class DecodedBlock:
    """One block, decoded from its fields.  ``fields`` are all of them, joined.

    ``sizes`` and ``roots`` are those of the trees of the header's state, in its order: messages, note hashes,
    nullifiers, public data.
    """

    effects: tuple[TxEffect, ...]
    number: int
    timestamp: int
    mana: int
    last_archive_root: bytes
    sizes: tuple[int, int, int, int]
    roots: tuple[bytes, bytes, bytes, bytes]
    fields: bytes


class _Cursor:
    """Reads field after field."""

    __slots__ = ("_fields", "at", "count")

    def __init__(self, fields: bytes) -> None:
        self._fields = fields
        self.count = len(fields) // FIELD_BYTES
        self.at = 0

    def take(self, count: int) -> bytes:
        """The next fields, joined."""
        end = self.at + count
        if end > self.count:
            raise DecodeError(f"blob fields: {count} needed at field {self.at}, {self.count - self.at} are left")
        taken = self._fields[self.at * FIELD_BYTES : end * FIELD_BYTES]
        self.at = end
        return taken

    def split(self, count: int) -> tuple[bytes, ...]:
        return split_fields(self.take(count))

    def number(self) -> int:
        return int.from_bytes(self.take(1), "big")

    def since(self, start: int) -> bytes:
        return self._fields[start * FIELD_BYTES : self.at * FIELD_BYTES]


def decode_blocks(fields: bytes, rules: TreeRules | None = None) -> tuple[DecodedBlock, ...]:
    """Return the blocks in the joined fields of a checkpoint's blobs, zero padding included.  DecodeError.

    ``rules``: those of the release; None: of one whose blocks but the first have no root of the message tree.
    """
    if len(fields) % FIELD_BYTES:
        raise DecodeError(f"blob fields: {len(fields)} bytes")
    bad = first_non_canonical(fields)
    if bad is not None:
        raise DecodeError(f"blob fields: field {bad} is not below the field modulus")
    cursor = _Cursor(fields)
    blocks: list[DecodedBlock] = []
    has_each_root = rules is not None and rules.has_compact_messages
    while not blocks or not _is_checkpoint_end(cursor):
        if len(blocks) == BLOCKS_PER_CHECKPOINT_MAX:
            raise DecodeError(f"blob fields: more than {BLOCKS_PER_CHECKPOINT_MAX} blocks")
        blocks.append(_block(cursor, blocks[0].roots[0] if blocks and not has_each_root else None))
    if cursor.at > CHECKPOINT_FIELDS_MAX:
        raise DecodeError(f"blob fields: a checkpoint of {cursor.at} fields, at most {CHECKPOINT_FIELDS_MAX}")
    if fields[cursor.at * FIELD_BYTES :].strip(b"\0"):
        raise DecodeError(f"blob fields: something follows the end of the checkpoint at field {cursor.at}")
    return tuple(blocks)


def _is_checkpoint_end(cursor: _Cursor) -> bool:
    """True if the checkpoint ends here; then the cursor is behind its end marker."""
    start = cursor.at
    marker = cursor.number()
    if marker >> CHECKPOINT_END_BITS[1] != CHECKPOINT_END_PREFIX:
        cursor.at = start
        return False
    _, count = _unpack(marker, CHECKPOINT_END_BITS, "checkpoint end")
    if count != cursor.at:
        raise DecodeError(f"blob fields: the end marker counts {count} fields, there are {cursor.at}")
    return True


def _block(cursor: _Cursor, message_root: bytes | None) -> DecodedBlock:
    """``message_root``: None for a block that brings it."""
    start = cursor.at
    effects: list[TxEffect] = []
    while (marker := cursor.number()) >> sum(BLOCK_END_BITS[1:]) != BLOCK_END_PREFIX:
        effects.append(_effect(cursor, marker))
    _, timestamp, number, tx_count = _unpack(marker, BLOCK_END_BITS, "block end")
    if tx_count != len(effects):
        raise DecodeError(f"blob fields: block {number} is said to have {tx_count} transactions, it has {len(effects)}")
    *sizes, mana = _unpack(cursor.number(), BLOCK_STATE_BITS, "block state")
    last_archive, note_hashes, nullifiers, public_data = cursor.split(4)
    if message_root is None:
        message_root = cursor.take(1)
    return DecodedBlock(
        tuple(effects),
        number,
        timestamp,
        mana,
        last_archive,
        (sizes[0], sizes[1], sizes[2], sizes[3]),
        (message_root, note_hashes, nullifiers, public_data),
        cursor.since(start),
    )


def _effect(cursor: _Cursor, marker: int) -> TxEffect:
    start = cursor.at - 1
    parts = _unpack(marker, TX_START_BITS, "tx start")
    # The total of fields of private logs is held against nothing, as by the network's other nodes.
    prefix, notes, nullifiers, messages, writes, private_logs, _, public_fields, class_fields = parts[:9]
    revert_code, field_count = parts[9:]
    if prefix != TX_START_PREFIX:
        raise DecodeError(f"blob fields: neither a transaction nor the end of a block begins at field {start}")
    for name, count, maximum in (
        ("note hashes", notes, NOTE_HASHES_PER_TX_MAX),
        ("nullifiers", nullifiers, NULLIFIERS_PER_TX_MAX),
        ("L2 to L1 messages", messages, L2_TO_L1_MESSAGES_PER_TX_MAX),
        ("public data writes", writes, PUBLIC_DATA_WRITES_PER_TX_MAX),
        ("private logs", private_logs, PRIVATE_LOGS_PER_TX_MAX),
        ("fields of public logs", public_fields, PUBLIC_LOGS_FLAT_FIELDS_MAX),
        ("fields of its class log", class_fields, CONTRACT_CLASS_LOG_FIELDS),
        ("as revert code", revert_code, REVERT_CODE_MAX),
    ):
        if count > maximum:
            raise DecodeError(f"blob fields: the transaction at field {start} has {count} {name}, at most {maximum}")
    # Nor is the one of all fields, as long as so many are there.
    if field_count - 1 > cursor.count - cursor.at:
        raise DecodeError(
            f"blob fields: the transaction at field {start} is said to have {field_count} fields, "
            f"{cursor.count - start} are left"
        )
    tx_hash, fee = cursor.split(2)
    return TxEffect(
        revert_code=revert_code,
        tx_hash=tx_hash,
        transaction_fee=int.from_bytes(fee, "big"),
        note_hashes=cursor.split(notes),
        nullifiers=cursor.split(nullifiers),
        l2_to_l1_msgs=cursor.split(messages),
        public_data_writes=_writes(cursor, writes),
        private_logs=_private_logs(cursor, private_logs),
        public_logs=_public_logs(cursor, public_fields),
        contract_class_logs=_class_logs(cursor, class_fields),
    )


def _writes(cursor: _Cursor, count: int) -> tuple[PublicDataWrite, ...]:
    values = iter(cursor.split(2 * count))
    return tuple([PublicDataWrite(slot, value) for slot, value in zip(values, values, strict=True)])


def _private_logs(cursor: _Cursor, count: int) -> tuple[PrivateLog, ...]:
    logs = []
    for _ in range(count):
        length = cursor.number()
        if length > PRIVATE_LOG_FIELDS:
            raise DecodeError(f"blob fields: a private log of {length} fields at field {cursor.at - 1}")
        logs.append(PrivateLog(cursor.split(length) + (ZERO_FIELD,) * (PRIVATE_LOG_FIELDS - length), length))
    return tuple(logs)


def _public_logs(cursor: _Cursor, total: int) -> tuple[PublicLog, ...]:
    logs = []
    end = cursor.at + total
    while cursor.at < end:
        length = cursor.number()
        if length > PUBLIC_LOG_FIELDS_MAX:
            raise DecodeError(f"blob fields: a public log of {length} fields at field {cursor.at - 1}")
        logs.append(PublicLog(cursor.take(1), cursor.split(length)))
    if cursor.at != end:
        raise DecodeError(f"blob fields: public logs take more than the {total} fields they are said to have")
    return tuple(logs)


def _class_logs(cursor: _Cursor, length: int) -> tuple[ContractClassLog, ...]:
    return (ContractClassLog(cursor.take(1), cursor.take(length), length),) if length else ()


def _unpack(marker: int, widths: Sequence[int], what: str) -> list[int]:
    """The parts of a marker, its prefix first."""
    parts = []
    for width in reversed(widths):
        parts.append(marker & (1 << width) - 1)
        marker >>= width
    if marker:
        raise DecodeError(f"blob fields: a {what} marker with something before its prefix")
    return parts[::-1]


# ---- blocks ---------------------------------------------------------------------------------------


def checkpoint_of(
    number: int,
    header: CheckpointHeader,
    archive_root: bytes,
    fee_asset_price_modifier: int,
    blocks: Sequence[DecodedBlock],
    *,
    chain_id: int,
    version: int,
    rules: TreeRules | None = None,
) -> Checkpoint:
    """Return the checkpoint with whole blocks; ``archive_root`` is the one after the last of them.

    ``rules``: those of the release; None: of one whose headers have no root over the effects.

    DecodeError when the sizes of trees do not fit a header.
    """
    roots_after = [block.last_archive_root for block in blocks[1:]] + [archive_root]
    sponge = BlobSponge()
    whole = []
    for place, (block, root) in enumerate(zip(blocks, roots_after, strict=True)):
        sponge = sponge.absorb(block.fields)
        body = Body(block.effects)
        variables = GlobalVariables(
            chain_id=chain_id,
            version=version,
            block_number=block.number,
            slot_number=header.slot_number,
            timestamp=block.timestamp,
            coinbase=header.coinbase,
            fee_recipient=header.fee_recipient,
            gas_fees=header.gas_fees,
        )
        block_header = BlockHeader(
            last_archive=AppendOnlyTreeSnapshot(block.last_archive_root, block.number),
            state=_state(block),
            sponge_blob_hash=sponge.squeeze(),
            global_variables=variables,
            total_fees=body.total_fees,
            total_mana_used=block.mana,
            tx_effects_tree_root=effects_root(block.effects) if rules is not None and rules.has_effects_root else None,
        )
        archive = AppendOnlyTreeSnapshot(root, block.number + 1)
        whole.append(L2Block(archive, block_header, body, number, place))
    return Checkpoint(whole[-1].archive, header, tuple(whole), number, fee_asset_price_modifier)


def _state(block: DecodedBlock) -> StateReference:
    snapshots = [AppendOnlyTreeSnapshot(root, size) for root, size in zip(block.roots, block.sizes, strict=True)]
    largest = max(*block.sizes, block.number + 1)
    if largest >> U32_BITS:
        raise DecodeError(f"blob fields: block {block.number} has a tree of {largest} leaves")
    return StateReference.of_trees(*snapshots)
