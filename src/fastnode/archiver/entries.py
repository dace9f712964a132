"""The keys and values of a block, a checkpoint and its messages.

Ingestion writes them, undo removes them, the check compares them: one definition for all three.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from fastnode.archiver import layout
from fastnode.archiver.forms import Mined, render_stored_receipt
from fastnode.archiver.records import BlockInfo, StoredBlock, StoredCheckpoint, StoredTransaction
from fastnode.archiver.rendering import render, render_block_messages
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import CommitteeAttestation, L1PublishedData, PublishedCheckpoint

__all__ = [
    "Entries",
    "block_entries",
    "block_info",
    "block_keys",
    "checkpoint_entries",
    "checkpoint_keys",
    "message_entries",
    "message_keys",
    "publication_json",
]

#: Keys and their values.
Entries = dict[bytes, bytes]


def block_info(block: L2Block, block_hash: bytes) -> BlockInfo:
    variables = block.header.global_variables
    return BlockInfo(
        number=block.number,
        hash=block_hash,
        archive_root=block.archive.root,
        checkpoint_number=block.checkpoint_number,
        index_within_checkpoint=block.index_within_checkpoint,
        slot_number=variables.slot_number,
        timestamp=variables.timestamp,
        tx_count=len(block.body.tx_effects),
    )


def block_entries(block: L2Block, block_hash: bytes, *, epoch_duration: int) -> Entries:
    """Everything a block stores, except messages and its checkpoint."""
    info = block_info(block, block_hash)
    effects = block.body.tx_effects
    number = layout.encode_number(info.number)
    stored = StoredBlock(info, header_json=render(block.header), archive_json=render(block.archive))
    entries = {
        layout.block_key(info.number): stored.encode(),
        layout.tx_hashes_key(info.number): b"".join([effect.tx_hash for effect in effects]),
        layout.l2_to_l1_key(info.number): render_block_messages(effects),
        layout.BLOCK_BY_HASH + block_hash: number,
        layout.BLOCK_BY_ARCHIVE + info.archive_root: number,
    }
    epoch_number = info.slot_number // epoch_duration
    for index, effect in enumerate(effects):
        receipt = render_stored_receipt(Mined(effect, info.number, block_hash, epoch_number))
        transaction = StoredTransaction(info.number, index, effect.revert_code, block_hash, receipt)
        entries[layout.effect_key(info.number, index)] = render(effect)
        entries[layout.TRANSACTION + effect.tx_hash] = transaction.encode()
    return entries


def block_keys(info: BlockInfo, tx_hashes: Sequence[bytes]) -> list[bytes]:
    """The keys of :func:`block_entries`, without the block itself."""
    keys = [
        layout.block_key(info.number),
        layout.tx_hashes_key(info.number),
        layout.l2_to_l1_key(info.number),
        layout.BLOCK_BY_HASH + info.hash,
        layout.BLOCK_BY_ARCHIVE + info.archive_root,
    ]
    keys += [layout.effect_key(info.number, index) for index in range(info.tx_count)]
    keys += [layout.TRANSACTION + tx_hash for tx_hash in tx_hashes]
    return keys


def message_entries(
    checkpoint_number: int, messages: Sequence[bytes], first_index: int, earlier: Sequence[bytes] = ()
) -> Entries:
    """Return the entries of L1->L2 messages that a block of a checkpoint appends; none at all for none.

    ``first_index``: leaf index of the first; ``earlier``: messages of the checkpoint's blocks before.
    """
    if not messages:
        return {}
    entries = {layout.MESSAGE + message: layout.encode_index(first_index + i) for i, message in enumerate(messages)}
    entries[layout.l1_to_l2_key(checkpoint_number)] = b"".join((*earlier, *messages))
    return entries


def message_keys(messages: Sequence[bytes]) -> list[bytes]:
    """Return the keys of the indexes of these messages."""
    return [layout.MESSAGE + message for message in messages]


def publication_json(l1: L1PublishedData, attestations: Sequence[CommitteeAttestation]) -> tuple[bytes, bytes]:
    """``l1_json`` and ``attestations_json`` of a stored checkpoint."""
    return render(l1), orjson.dumps([attestation.to_json() for attestation in attestations])


def checkpoint_entries(published: PublishedCheckpoint, *, header_hash: bytes, out_hash: bytes) -> Entries:
    """The record of a complete checkpoint and its slot index."""
    checkpoint = published.checkpoint
    l1_json, attestations_json = publication_json(published.l1, published.attestations)
    stored = StoredCheckpoint(
        number=checkpoint.number,
        header_hash=header_hash,
        out_hash=out_hash,
        start_block=checkpoint.blocks[0].number,
        block_count=len(checkpoint.blocks),
        slot_number=checkpoint.header.slot_number,
        fee_asset_price_modifier=checkpoint.fee_asset_price_modifier,
        header_json=render(checkpoint.header),
        archive_json=render(checkpoint.archive),
        l1_json=l1_json,
        attestations_json=attestations_json,
    )
    return {
        layout.checkpoint_key(stored.number): stored.encode(),
        layout.slot_key(stored.slot_number): layout.encode_number(stored.number),
    }


def checkpoint_keys(stored: StoredCheckpoint) -> list[bytes]:
    return [layout.checkpoint_key(stored.number), layout.slot_key(stored.slot_number)]
