"""Blob encoding: the fields that publish a checkpoint, and the running hash over them.

Fields of a checkpoint: its blocks, then one checkpoint end marker.  A block: its txs, then its end data::

    tx     tx start marker | tx hash | fee | note hashes | nullifiers | L2->L1 messages
           | (leaf slot, value) per public data write
           | (length, emitted fields) per private log
           | (field count, contract, fields) per public log
           | contract, emitted fields of the class log, when there is one
    end    block end marker | block state marker | last archive root | note hash root | nullifier root
           | public data root | L1-to-L2 message root (only in the first block of a checkpoint; from 6.x on in each)

Markers pack counters into one field; the first part is the most significant one, widths in bits::

    tx start        prefix 32, note hashes 16, nullifiers 16, messages 16, writes 16, private logs 16,
                    private log fields 16, public log fields 32, class log fields 16, revert code 8,
                    fields of this tx 32
    block end       prefix 32, timestamp 64, block number 32, txs 16
    block state     L1-to-L2 size 36, note hash size 42, nullifier size 42, public data size 40, mana 48
    checkpoint end  prefix 32, fields of the checkpoint 32 (this one included)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, Self

from fastnode.kernels import poseidon2
from fastnode.protocol.block import L2Block
from fastnode.protocol.constants import (
    BLOBS_PER_CHECKPOINT_MAX,
    BLOCK_END_PREFIX,
    CHECKPOINT_END_PREFIX,
    FIELDS_PER_BLOB,
    PUBLIC_LOG_HEADER_FIELDS,
    TX_START_PREFIX,
)
from fastnode.protocol.effects import TxEffect
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.protocol.header import BlockHeader
from fastnode.records import dataclass

#: Fields that fit the blobs of one checkpoint.
CHECKPOINT_FIELDS_MAX: Final = BLOBS_PER_CHECKPOINT_MAX * FIELDS_PER_BLOB

#: Widths of the parts of markers, the most significant first.
TX_START_BITS: Final = (32, 16, 16, 16, 16, 16, 16, 32, 16, 8, 32)
BLOCK_END_BITS: Final = (32, 64, 32, 16)
BLOCK_STATE_BITS: Final = (36, 42, 42, 40, 48)
CHECKPOINT_END_BITS: Final = (32, 32)


def _word(value: int) -> bytes:
    return value.to_bytes(FIELD_BYTES, "big")


def _marker(widths: Sequence[int], parts: Sequence[int]) -> bytes:
    """Packs the parts into one field; ValueError when one does not fit its width."""
    packed = 0
    for width, part in zip(widths, parts, strict=True):
        if part >> width:
            raise ValueError(f"{part} does not fit {width} bits of a blob marker")
        packed = packed << width | part
    return _word(packed)


# ---- fields ---------------------------------------------------------------------------------------


def tx_blob_fields(effect: TxEffect) -> bytes:
    """The blob fields of one tx, joined."""
    content = [effect.tx_hash, _word(effect.transaction_fee)]
    content += effect.note_hashes
    content += effect.nullifiers
    content += effect.l2_to_l1_msgs
    for write in effect.public_data_writes:
        content += (write.leaf_slot, write.value)
    for private_log in effect.private_logs:
        content += (_word(private_log.emitted_length), private_log.emitted)
    for public_log in effect.public_logs:
        content += (_word(len(public_log.fields)), public_log.contract_address, *public_log.fields)
    for class_log in effect.contract_class_logs:
        if class_log.emitted_length:
            content += (class_log.contract_address, class_log.emitted)
    joined = b"".join(content)
    counts = (
        len(effect.note_hashes),
        len(effect.nullifiers),
        len(effect.l2_to_l1_msgs),
        len(effect.public_data_writes),
        len(effect.private_logs),
        sum(log.emitted_length for log in effect.private_logs),
        sum(PUBLIC_LOG_HEADER_FIELDS + len(log.fields) for log in effect.public_logs),
        sum(log.emitted_length for log in effect.contract_class_logs),
    )
    return with_tx_start(counts, effect.revert_code, joined)


def with_tx_start(counts: Sequence[int], revert_code: int, content: bytes) -> bytes:
    """The blob fields of one tx from those behind its start marker.

    ``counts`` in the order of the marker: note hashes, nullifiers, messages, writes, private logs, fields of private
    logs, of public logs with their heads, of class logs.  ValueError for one that the marker cannot hold.
    """
    return _marker(TX_START_BITS, (TX_START_PREFIX, *counts, revert_code, 1 + len(content) // FIELD_BYTES)) + content


def block_end_fields(block: L2Block) -> bytes:
    """Return the end data of a block, joined: 7 fields for the first block of a checkpoint and in 6.x, else 6."""
    return header_end_fields(block.header, len(block.body.tx_effects), block.index_within_checkpoint)


def header_end_fields(header: BlockHeader, tx_count: int, index_within_checkpoint: int) -> bytes:
    """The same of a block whose body is not at hand."""
    state, variables = header.state, header.global_variables
    end_marker = _marker(BLOCK_END_BITS, (BLOCK_END_PREFIX, variables.timestamp, variables.block_number, tx_count))
    state_marker = _marker(
        BLOCK_STATE_BITS,
        (
            state.l1_to_l2_message_tree.next_available_leaf_index,
            state.note_hash_tree.next_available_leaf_index,
            state.nullifier_tree.next_available_leaf_index,
            state.public_data_tree.next_available_leaf_index,
            header.total_mana_used,
        ),
    )
    roots = [
        header.last_archive.root,
        state.note_hash_tree.root,
        state.nullifier_tree.root,
        state.public_data_tree.root,
    ]
    # Headers with a root over the effects are those of releases whose blocks append messages each.
    if index_within_checkpoint == 0 or header.tx_effects_tree_root is not None:
        roots.append(state.l1_to_l2_message_tree.root)
    return b"".join((end_marker, state_marker, *roots))


def block_blob_fields(block: L2Block) -> bytes:
    """The blob fields of a block, joined.  ValueError for a counter that its marker cannot hold."""
    return b"".join([tx_blob_fields(effect) for effect in block.body.tx_effects]) + block_end_fields(block)


def checkpoint_end_marker(field_count: int) -> bytes:
    """The last field of a checkpoint; ``field_count`` counts all its fields, this one included."""
    return _marker(CHECKPOINT_END_BITS, (CHECKPOINT_END_PREFIX, field_count))


def checkpoint_blob_fields(blocks: Sequence[L2Block]) -> bytes:
    """All blob fields of a checkpoint, joined, without the zero padding of the last blob."""
    fields = b"".join([block_blob_fields(block) for block in blocks])
    return fields + checkpoint_end_marker(len(fields) // FIELD_BYTES + 1)


# ---- running hash -----------------------------------------------------------------------------------

_RATE_BYTES: Final = 3 * FIELD_BYTES
_STATE_BYTES: Final = 4 * FIELD_BYTES
# The capacity is fixed to what a checkpoint can hold, not to what is absorbed: the number of fields is
# not known before the last block.
_INITIAL_STATE: Final = _word(0) * 3 + _word(CHECKPOINT_FIELDS_MAX << 64)


@dataclass(frozen=True, slots=True)
class BlobSponge:
    """The sponge that runs over the blob fields of one checkpoint; a value, so any state can be kept.

    Lazy: a group of three is permuted in only when a fourth field arrives, so 1 to 3 fields are
    pending after any absorption.
    """

    state: bytes = _INITIAL_STATE
    pending: bytes = b""

    def absorb(self, fields: bytes) -> Self:
        """The sponge after n joined fields; ValueError for a field not below the modulus."""
        data = self.pending + fields
        whole = (len(data) - 1) // _RATE_BYTES * _RATE_BYTES if data else 0
        state = _absorbed(self.state, data[:whole]) if whole else self.state
        return type(self)(state, data[whole:])

    def squeeze(self) -> bytes:
        """The hash so far (32 bytes).  The sponge itself can go on absorbing."""
        padded = self.pending.ljust(_RATE_BYTES, b"\0")
        return poseidon2.sponge_absorb(self.state, padded)[:FIELD_BYTES]


#: States by digests of what they came from, the newest last: blocks that are derived are verified a moment later as
#: those of any source are, and those that were proposed when they are published.
_newest_states: Final[OrderedDict[bytes, bytes]] = OrderedDict()
_NEWEST_STATES_MAX: Final = 64


def _absorbed(state: bytes, groups: bytes) -> bytes:
    """The state after whole groups of three fields."""
    digest = sha256(state + groups).digest()
    known = _newest_states.get(digest)
    if known is None:
        known = _newest_states[digest] = poseidon2.sponge_absorb(state, groups)
        while len(_newest_states) > _NEWEST_STATES_MAX:
            _newest_states.popitem(last=False)
    return known


def absorb_each(sponges: Sequence[BlobSponge], runs: Sequence[bytes]) -> list[BlobSponge]:
    """Each sponge after a run of fields of its own; many take less time than each of them alone.

    ValueError for a field not below the modulus.
    """
    data = [sponge.pending + fields for sponge, fields in zip(sponges, runs, strict=True)]
    wholes = [max(0, len(run) - 1) // _RATE_BYTES * _RATE_BYTES for run in data]
    states = _permuted(sponges, [run[:whole] for run, whole in zip(data, wholes, strict=True)])
    return [BlobSponge(state, run[whole:]) for state, run, whole in zip(states, data, wholes, strict=True)]


def squeeze_each(sponges: Sequence[BlobSponge]) -> list[bytes]:
    """The hash so far of each sponge."""
    states = _permuted(sponges, [sponge.pending.ljust(_RATE_BYTES, b"\0") for sponge in sponges])
    return [state[:FIELD_BYTES] for state in states]


def _permuted(sponges: Sequence[BlobSponge], groups: Sequence[bytes]) -> list[bytes]:
    states = poseidon2.sponges_absorb(b"".join([sponge.state for sponge in sponges]), groups)
    return [states[start : start + _STATE_BYTES] for start in range(0, len(states), _STATE_BYTES)]


def sponge_blob_hash(sponge: BlobSponge, block: L2Block) -> tuple[bytes, BlobSponge]:
    """``spongeBlobHash`` of a block, and the sponge for the next block of the checkpoint.

    ``sponge`` is what the block before left behind, a new :class:`BlobSponge` for the first block.
    """
    after = sponge.absorb(block_blob_fields(block))
    return after.squeeze(), after
