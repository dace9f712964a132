"""Conditions on a block and a checkpoint before anything of them is stored.

First come the rules that need no database, then the comparison with what is stored.  Every failure is a
:class:`BlockRejected` that names the block or checkpoint, the field, the value given and the value expected.  Roots of
the state trees and of the archive are recomputed by the state applier, not here.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from fastnode.archiver.entries import block_info
from fastnode.archiver.queries import stored_info
from fastnode.archiver.records import BlockInfo, StoredCheckpoint
from fastnode.errors import BlockRejected
from fastnode.protocol.blobs import CHECKPOINT_FIELDS_MAX, BlobSponge, block_blob_fields
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import Checkpoint, block_headers_hash, header_in_hash, header_type
from fastnode.protocol.constants import (
    BLOCKS_PER_CHECKPOINT_MAX,
    CHECKPOINTS_PER_EPOCH_MAX,
    CONTRACT_CLASS_LOGS_PER_TX_MAX,
    L1_TO_L2_MESSAGES_PER_CHECKPOINT,
    L2_TO_L1_MESSAGES_PER_TX_MAX,
    NOTE_HASHES_PER_TX_MAX,
    NULLIFIERS_PER_TX_MAX,
    PRIVATE_LOG_FIELDS,
    PRIVATE_LOGS_PER_TX_MAX,
    PUBLIC_DATA_WRITES_PER_TX_MAX,
    PUBLIC_LOG_HEADER_FIELDS,
    PUBLIC_LOGS_FLAT_FIELDS_MAX,
    REVERT_CODE_MAX,
)
from fastnode.protocol.effects import TXS_PER_BLOCK_MAX, TxEffect
from fastnode.protocol.effects_tree import effects_root
from fastnode.protocol.fields import FIELD_BYTES, ZERO_FIELD
from fastnode.protocol.out_hash import checkpoint_out_hash, epoch_out_hash, messages_of_block
from fastnode.protocol.releases import Release

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.archiver.source import CheckpointRecord

__all__ = [
    "SKIPPED_WITHOUT_VERIFICATION",
    "CheckpointVerifier",
    "Verification",
    "check_messages",
    "check_new_messages",
    "check_zeros",
    "is_known_checkpoint",
    "reject",
    "require",
    "require_same_block",
    "require_same_messages",
    "require_unknown",
]

#: For the log line that says what ``Verification.NONE`` means.
SKIPPED_WITHOUT_VERIFICATION: Final = (
    "not checked: block headers hash, blob sponge hash, in hash, epoch out hash, root over effects, fee and mana sums, "
    "limits, padding of logs, global variables; still checked: numbering, archive chaining, unknown transactions "
    "and messages"
)


class Verification(enum.Enum):
    """Extent of the checks before a block is stored."""

    FULL = "full"
    #: Only what keeps the store itself consistent.
    NONE = "none"


def show(value: object) -> str:
    """A value for an error text: hashes as hex."""
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)


def reject(where: str, field: str, given: object, expected: object) -> NoReturn:
    raise BlockRejected(f"{where}: {field} is {show(given)}, expected {show(expected)}")


def require(where: str, field: str, given: object, expected: object) -> None:
    if given != expected:
        reject(where, field, given, expected)


def require_at_most(where: str, field: str, given: int, maximum: int) -> None:
    if given > maximum:
        raise BlockRejected(f"{where}: {field} is {given}, at most {maximum} allowed")


class CheckpointVerifier:
    """Checks the blocks of one checkpoint in order, then the checkpoint against its blocks.

    ``parent`` is the last block before the checkpoint.  After a rejection the verifier must not be used.
    """

    def __init__(self, parent: BlockInfo, *, chain_id: int, version: int, mode: Verification, release: Release) -> None:
        self.number = parent.checkpoint_number + 1
        self.infos: list[BlockInfo] = []
        self._parent = parent
        self._chain_id = chain_id
        self._version = version
        self._full = mode is Verification.FULL
        self._release = release
        self._first: L2Block | None = None
        self._last: L2Block | None = None
        self._sponge = BlobSponge()
        self._blob_fields = 0
        self._mana = 0
        self._fees = 0
        self._messages: list[list[tuple[bytes, ...]]] = []

    @property
    def tip(self) -> BlockInfo:
        """The block that the next one must follow."""
        return self.infos[-1] if self.infos else self._parent

    # ---- one block -----------------------------------------------------------------------

    def check_block(self, block: L2Block, block_hash: bytes) -> BlockInfo:
        """Check the next block.  ``block_hash`` is the hash of its header."""
        where = f"block {block.number}"
        self._check_chaining(where, block)
        if self._full:
            self._check_global_variables(where, block)
            self._check_body(where, block)
        return self.pass_block(block, block_hash)

    def pass_block(self, block: L2Block, block_hash: bytes) -> BlockInfo:
        """Take the next block into account.  Unchecked, except for its root over effects and the blob sponge hash."""
        if self._full:
            self._check_effects_root(f"block {block.number}", block)
            self._absorb(f"block {block.number}", block)
        info = block_info(block, block_hash)
        self.infos.append(info)
        self._first = self._first or block
        self._last = block
        self._mana += block.header.total_mana_used
        self._fees += block.header.total_fees
        self._messages.append(messages_of_block(block))
        return info

    def _check_chaining(self, where: str, block: L2Block) -> None:
        tip, header = self.tip, block.header
        require(where, "header.globalVariables.blockNumber", block.number, tip.number + 1)
        require(where, "checkpointNumber", block.checkpoint_number, self.number)
        require(where, "indexWithinCheckpoint", block.index_within_checkpoint, len(self.infos))
        require(where, "header.lastArchive.root", header.last_archive.root, tip.archive_root)
        require(
            where,
            "header.lastArchive.nextAvailableLeafIndex",
            header.last_archive.next_available_leaf_index,
            block.number,
        )
        require(where, "archive.nextAvailableLeafIndex", block.archive.next_available_leaf_index, block.number + 1)
        self._check_time(where, block)

    def _check_time(self, where: str, block: L2Block) -> None:
        tip, variables = self.tip, block.header.global_variables
        slot, timestamp = variables.slot_number, variables.timestamp
        if self.infos:
            require(where, "header.globalVariables.slotNumber", slot, tip.slot_number)
            require(where, "header.globalVariables.timestamp", timestamp, tip.timestamp)
            return
        # Nothing is earlier than the genesis block: its slot and time are zero, not real.
        if tip.number > 0 and slot <= tip.slot_number:
            reject(where, "header.globalVariables.slotNumber", slot, f"more than {tip.slot_number}")
        if tip.number > 0 and timestamp <= tip.timestamp:
            reject(where, "header.globalVariables.timestamp", timestamp, f"more than {tip.timestamp}")

    def _check_global_variables(self, where: str, block: L2Block) -> None:
        variables = block.header.global_variables
        require(where, "header.globalVariables.chainId", variables.chain_id, self._chain_id)
        require(where, "header.globalVariables.version", variables.version, self._version)
        if self._first is None:
            return
        first = self._first.header.global_variables
        require(where, "header.globalVariables.coinbase", variables.coinbase, first.coinbase)
        require(where, "header.globalVariables.feeRecipient", variables.fee_recipient, first.fee_recipient)
        require(where, "header.globalVariables.gasFees", variables.gas_fees, first.gas_fees)

    def _check_body(self, where: str, block: L2Block) -> None:
        effects = block.body.tx_effects
        require_at_most(where, "number of transactions", len(effects), TXS_PER_BLOCK_MAX)
        for index, effect in enumerate(effects):
            _check_limits(f"{where}: transaction {index}", effect)
        require(where, "header.totalFees", block.header.total_fees, block.body.total_fees)

    def _check_effects_root(self, where: str, block: L2Block) -> None:
        given, has_root = block.header.tx_effects_tree_root, self._release.trees.has_effects_root
        if (given is not None) is not has_root:
            expected = "none" if given is not None else "a root over the effects"
            reject(where, "header.txEffectsTreeRoot", given or "missing", expected)
        if given is not None:
            require(where, "header.txEffectsTreeRoot", given, effects_root(block.body.tx_effects))

    def _absorb(self, where: str, block: L2Block) -> None:
        try:
            fields = block_blob_fields(block)
        except ValueError as error:
            raise BlockRejected(f"{where}: {error}") from error
        self._blob_fields += len(fields) // FIELD_BYTES
        # One more is needed for the marker that ends the checkpoint.
        require_at_most(where, "number of blob fields of the checkpoint", self._blob_fields + 1, CHECKPOINT_FIELDS_MAX)
        self._sponge = self._sponge.absorb(fields)
        require(where, "header.spongeBlobHash", block.header.sponge_blob_hash, self._sponge.squeeze())

    # ---- the checkpoint ------------------------------------------------------------------

    def check_checkpoint(
        self,
        checkpoint: Checkpoint,
        messages: Sequence[bytes],
        earlier_out_hashes: Sequence[bytes],
        in_hash_before: bytes = ZERO_FIELD,
    ) -> bytes:
        """Check a checkpoint whose blocks have all been passed; returns its own out hash.

        ``messages`` are its L1->L2 messages without padding, ``earlier_out_hashes`` the out hashes of the
        checkpoints before it in the same epoch, ``in_hash_before`` the rolling hash of the Inbox after the checkpoint
        before it, in a release whose headers have it.
        """
        where = f"checkpoint {checkpoint.number}"
        if self._first is None or self._last is None:
            raise BlockRejected(f"{where}: has no blocks")
        require(where, "number", checkpoint.number, self.number)
        require(where, "archive", checkpoint.archive.to_json(), self._last.archive.to_json())
        require(where, "header.slotNumber", checkpoint.header.slot_number, self.tip.slot_number)
        out_hash = checkpoint_out_hash(self._messages)
        if self._full:
            self._check_header(where, checkpoint)
            expected = header_in_hash(self._release, messages, in_hash_before)
            _check_message_hashes(where, checkpoint, expected, [*earlier_out_hashes, out_hash])
        return out_hash

    def _check_header(self, where: str, checkpoint: Checkpoint) -> None:
        assert self._first is not None
        header, first = checkpoint.header, self._first.header
        variables = first.global_variables
        require_at_most(where, "number of blocks", len(self.infos), BLOCKS_PER_CHECKPOINT_MAX)
        hashes = [info.hash for info in self.infos]
        in_header = block_headers_hash(hashes, self._release.separators.block_headers)
        require(where, "header.blockHeadersHash", header.block_headers_hash, in_header)
        messages_field = header_type(self._release).in_hash_name
        require(where, "header: the hash of its messages", header.in_hash_name, messages_field)
        require(where, "header: whether it counts fees", header.accumulated_fees is not None, self._release.counts_fees)
        if header.accumulated_fees is not None:
            require(where, "header.accumulatedFees", header.accumulated_fees, self._fees)
        require(where, "header.lastArchiveRoot", header.last_archive_root, first.last_archive.root)
        require(where, "header.timestamp", header.timestamp, variables.timestamp)
        require(where, "header.coinbase", header.coinbase, variables.coinbase)
        require(where, "header.feeRecipient", header.fee_recipient, variables.fee_recipient)
        require(where, "header.gasFees", header.gas_fees, variables.gas_fees)
        require(where, "header.totalManaUsed", header.total_mana_used, self._mana)


def _check_message_hashes(
    where: str, checkpoint: Checkpoint, expected_in_hash: bytes, out_hashes: Sequence[bytes]
) -> None:
    header = checkpoint.header
    require_at_most(where, "number of checkpoints in its epoch", len(out_hashes), CHECKPOINTS_PER_EPOCH_MAX)
    require(where, f"header.{header.in_hash_name}", header.in_hash, expected_in_hash)
    require(where, "header.epochOutHash", header.epoch_out_hash, epoch_out_hash(out_hashes))


def check_messages(checkpoint_number: int, messages: Sequence[bytes]) -> None:
    """L1->L2 messages as a list: not too many, none of them padding, none twice."""
    where = f"checkpoint {checkpoint_number}"
    require_at_most(where, "number of L1->L2 messages", len(messages), L1_TO_L2_MESSAGES_PER_CHECKPOINT)
    if ZERO_FIELD in messages:
        raise BlockRejected(f"{where}: L1->L2 message {messages.index(ZERO_FIELD)} is zero, expected no padding")
    if len(set(messages)) != len(messages):
        raise BlockRejected(f"{where}: an L1->L2 message is there twice")


_TX_LIMITS: Final = (
    ("noteHashes", NOTE_HASHES_PER_TX_MAX),
    ("nullifiers", NULLIFIERS_PER_TX_MAX),
    ("l2ToL1Msgs", L2_TO_L1_MESSAGES_PER_TX_MAX),
    ("publicDataWrites", PUBLIC_DATA_WRITES_PER_TX_MAX),
    ("privateLogs", PRIVATE_LOGS_PER_TX_MAX),
    ("contractClassLogs", CONTRACT_CLASS_LOGS_PER_TX_MAX),
)

_ZERO_PRIVATE_LOG: Final = (ZERO_FIELD,) * PRIVATE_LOG_FIELDS


def _check_limits(where: str, effect: TxEffect) -> None:
    counts = (
        len(effect.note_hashes),
        len(effect.nullifiers),
        len(effect.l2_to_l1_msgs),
        len(effect.public_data_writes),
        len(effect.private_logs),
        len(effect.contract_class_logs),
    )
    for (field, maximum), count in zip(_TX_LIMITS, counts, strict=True):
        require_at_most(where, f"number of {field}", count, maximum)
    if not effect.nullifiers:
        raise BlockRejected(f"{where}: number of nullifiers is 0, at least 1 needed")
    flat = sum(PUBLIC_LOG_HEADER_FIELDS + len(log.fields) for log in effect.public_logs)
    require_at_most(where, "number of publicLogs fields", flat, PUBLIC_LOGS_FLAT_FIELDS_MAX)
    require_at_most(where, "revertCode", effect.revert_code, REVERT_CODE_MAX)
    check_zeros(where, effect)
    _check_padding(where, effect)


def check_zeros(where: str, effect: TxEffect) -> None:
    """Nothing is a zero: the circuits leave them out, and other nodes know no such effects.  BlockRejected."""
    for field, values in (
        ("noteHashes", effect.note_hashes),
        ("nullifiers", effect.nullifiers),
        ("l2ToL1Msgs", effect.l2_to_l1_msgs),
    ):
        if ZERO_FIELD in values:
            raise BlockRejected(f"{where}: {field}[{values.index(ZERO_FIELD)}] is zero")
    for index, write in enumerate(effect.public_data_writes):
        if write.leaf_slot == ZERO_FIELD and write.value == ZERO_FIELD:
            raise BlockRejected(f"{where}: publicDataWrites[{index}] is zero")
    for index, log in enumerate(effect.private_logs):
        if log.emitted_length == 0:
            raise BlockRejected(f"{where}: privateLogs[{index}] is empty")


def _check_padding(where: str, effect: TxEffect) -> None:
    """Logs behind their emitted length: no hash covers these fields, so they may say nothing."""
    for index, log in enumerate(effect.private_logs):
        if log.fields[log.emitted_length :] != _ZERO_PRIVATE_LOG[log.emitted_length :]:
            raise BlockRejected(f"{where}: privateLogs[{index}] is not zero behind its emittedLength")
    for index, class_log in enumerate(effect.contract_class_logs):
        if len(class_log.fields) > class_log.emitted_length * FIELD_BYTES:
            raise BlockRejected(f"{where}: contractClassLogs[{index}] is not zero behind its emittedLength")


# ---- against what is stored already ----------------------------------------------------------------


def is_known_checkpoint(view: ChainView, record: CheckpointRecord) -> bool:
    """True if all of a record is stored, seen from its headers alone.  False may also mean: look closer."""
    stored = view.checkpoint(record.number)
    return (
        stored is not None
        and record.header.hash() == stored.header_hash
        and record.publication_json == (stored.l1_json, stored.attestations_json)
        and record.fee_asset_price_modifier == stored.fee_asset_price_modifier
        and _are_known_headers(view, record, stored)
        and view.l1_to_l2_messages(record.number) == list(record.l1_to_l2_messages)
    )


def _are_known_headers(view: ChainView, record: CheckpointRecord, stored: StoredCheckpoint) -> bool:
    headers = record.block_headers
    if len(headers) != stored.block_count:
        return False
    numbers = range(stored.start_block, stored.last_block + 1)
    return all(header.hash() == stored_info(view, number).hash for number, header in zip(numbers, headers, strict=True))


def require_same_block(view: ChainView, given: BlockInfo) -> None:
    """A known number must come with the very same block."""
    stored = view.block_info(given.number)
    where = f"block {given.number}, known already"
    if stored is None:
        raise BlockRejected(f"block {given.number}: unknown, the newest is {view.tip_number}")
    require(where, "hash", given.hash, stored.hash)
    require(where, "archive.root", given.archive_root, stored.archive_root)
    require(where, "checkpointNumber", given.checkpoint_number, stored.checkpoint_number)
    require(where, "indexWithinCheckpoint", given.index_within_checkpoint, stored.index_within_checkpoint)


def require_unknown(view: ChainView, block: L2Block, seen: set[bytes]) -> None:
    """Nothing that a new block is indexed by may be there yet, or an undo would remove the older entry."""
    where = f"block {block.number}"
    known = view.block_number_by_archive(block.archive.root)
    if known is not None or block.archive.root in seen:
        raise BlockRejected(f"{where}: archive.root {show(block.archive.root)} is already that of block {known}")
    seen.add(block.archive.root)
    for effect in block.body.tx_effects:
        location = view.tx_location(effect.tx_hash)
        if location is not None:
            raise BlockRejected(
                f"{where}: transaction {show(effect.tx_hash)} is already in block {location.block_number}"
            )
        if effect.tx_hash in seen:
            raise BlockRejected(f"{where}: transaction {show(effect.tx_hash)} is there twice")
        seen.add(effect.tx_hash)


def check_new_messages(view: ChainView, checkpoint_number: int, messages: Sequence[bytes], first_index: int) -> None:
    """Check messages of a checkpoint that is not whole yet; those that are stored must be at their index.

    ``first_index``: leaf index of the first.
    """
    check_messages(checkpoint_number, messages)
    for index, message in enumerate(messages, first_index):
        known = view.l1_to_l2_message_index(message)
        if known is not None:
            require(f"checkpoint {checkpoint_number}: L1->L2 message {show(message)}", "index", index, known)


def require_same_messages(view: ChainView, checkpoint_number: int, messages: Sequence[bytes]) -> None:
    stored = view.l1_to_l2_messages(checkpoint_number)
    where = f"checkpoint {checkpoint_number}, known already"
    is_whole = checkpoint_number <= view.tips.checkpointed.checkpoint.number
    if is_whole or not view.chain.release.trees.has_compact_messages:
        require(where, "number of L1->L2 messages", len(messages), len(stored))
    elif len(messages) < len(stored):
        reject(where, "number of L1->L2 messages", len(messages), f"at least {len(stored)}")
    for index, (given, known) in enumerate(zip(messages, stored, strict=False)):
        require(where, f"L1->L2 message {index}", given, known)
