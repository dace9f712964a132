"""Block headers.

Block header buffer, 440 bytes (472 with txEffectsTreeRoot, from release 6.x on), big-endian::

      0  lastArchive          root 32 | size u32
     36  l1ToL2MessageTree    root 32 | size u32
     72  noteHashTree         root 32 | size u32
    108  nullifierTree        root 32 | size u32
    144  publicDataTree       root 32 | size u32
    180  spongeBlobHash       32
         txEffectsTreeRoot    32   (from 6.x on; what follows is 32 bytes further)
    212  chainId              32
    244  version              32
    276  blockNumber          u32
    280  slotNumber           u32
    284  timestamp            u64
    292  coinbase             20
    312  feeRecipient         32
    344  feePerDaGas          u128
    360  feePerL2Gas          u128
    376  totalFees            32
    408  totalManaUsed        32

The block hash runs over the same values in the same order, one field each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Self

from fastnode.kernels import poseidon2
from fastnode.protocol.constants import SEPARATOR_BLOCK_HEADER_HASH
from fastnode.protocol.fields import FIELD_BYTES, U32_BITS, U128_BITS, field_from_int
from fastnode.protocol.records import (
    ETH_ADDRESS,
    FIELD,
    Record,
    decimal,
    field_number,
    member,
    number,
    of,
    optional,
    record,
)

_HASH_SEPARATOR: Final = field_from_int(SEPARATOR_BLOCK_HEADER_HASH)


@record
class AppendOnlyTreeSnapshot(Record):
    """Root and size of a tree."""

    root: bytes = member(FIELD)
    next_available_leaf_index: int = member(number(), "Number of leaves.")


SNAPSHOT: Final = of(AppendOnlyTreeSnapshot)
EMPTY_SNAPSHOT: Final = AppendOnlyTreeSnapshot(bytes(FIELD_BYTES), 0)


@record
class PartialStateReference(Record):
    """The state trees that transactions write to, after a block."""

    note_hash_tree: AppendOnlyTreeSnapshot = member(SNAPSHOT)
    nullifier_tree: AppendOnlyTreeSnapshot = member(SNAPSHOT)
    public_data_tree: AppendOnlyTreeSnapshot = member(SNAPSHOT)


@record
class StateReference(Record):
    """The four state trees after a block."""

    l1_to_l2_message_tree: AppendOnlyTreeSnapshot = member(SNAPSHOT)
    partial: PartialStateReference = member(of(PartialStateReference))

    @classmethod
    def of_trees(
        cls,
        l1_to_l2_message_tree: AppendOnlyTreeSnapshot,
        note_hash_tree: AppendOnlyTreeSnapshot,
        nullifier_tree: AppendOnlyTreeSnapshot,
        public_data_tree: AppendOnlyTreeSnapshot,
    ) -> Self:
        return cls(l1_to_l2_message_tree, PartialStateReference(note_hash_tree, nullifier_tree, public_data_tree))

    @property
    def note_hash_tree(self) -> AppendOnlyTreeSnapshot:
        return self.partial.note_hash_tree

    @property
    def nullifier_tree(self) -> AppendOnlyTreeSnapshot:
        return self.partial.nullifier_tree

    @property
    def public_data_tree(self) -> AppendOnlyTreeSnapshot:
        return self.partial.public_data_tree


@record
class GasFees(Record):
    """Price of one unit of gas in both dimensions, u128 each."""

    fee_per_da_gas: int = member(decimal(U128_BITS), "Price of one unit of gas for data.")
    fee_per_l2_gas: int = member(decimal(U128_BITS), "Price of one unit of gas for execution.")


@record
class GlobalVariables(Record):
    """Values that every tx of a block sees: position, time, and who is paid."""

    chain_id: int = member(field_number(), "Chain id of L1.")
    version: int = member(field_number(), "Version of the rollup.")
    block_number: int = member(number())
    slot_number: int = member(field_number(U32_BITS, width=4))
    timestamp: int = member(decimal(), "Seconds since 1970.")
    coinbase: bytes = member(ETH_ADDRESS, "L1 address that is paid for the block.")
    fee_recipient: bytes = member(FIELD, "L2 address that receives the fees.")
    gas_fees: GasFees = member(of(GasFees))


@record
class BlockHeader(Record):
    """A block's header."""

    json_order: ClassVar = (
        "last_archive",
        "state",
        "sponge_blob_hash",
        "tx_effects_tree_root",
        "global_variables",
        "total_fees",
        "total_mana_used",
    )
    buffer_order: ClassVar = json_order

    last_archive: AppendOnlyTreeSnapshot = member(SNAPSHOT, "Archive tree before the block.")
    state: StateReference = member(of(StateReference), "State trees after the block.")
    sponge_blob_hash: bytes = member(FIELD, "Hash of the data that the checkpoint has published up to this block.")
    global_variables: GlobalVariables = member(of(GlobalVariables))
    total_fees: int = member(field_number(), "Sum of the fees of its transactions.")
    total_mana_used: int = member(field_number(), "L2 gas that its transactions have used.")
    tx_effects_tree_root: bytes | None = optional(
        FIELD, "Root over the effects of its transactions, from release 6.x on.", default=None, size_tells=True
    )

    def hash(self) -> bytes:
        """The block hash (32 bytes): Poseidon2 over the separator and the header's fields."""
        return poseidon2.hash_fields(_HASH_SEPARATOR + self.to_fields())


HEADER: Final = of(BlockHeader)
HEADER_BYTES: Final = HEADER.width
#: Values of a header without ``txEffectsTreeRoot``, one hashed field each.
HEADER_FIELDS: Final = len(HEADER.widths)
#: Values before ``txEffectsTreeRoot``.
FIELDS_BEFORE_EFFECTS_ROOT: Final = 11


def header_widths(fields: int) -> tuple[int, ...]:
    """Return the widths in bytes of a header's values in order; ``fields``: how many there are in the release."""
    plain = HEADER.widths
    if fields == HEADER_FIELDS:
        return plain
    return (*plain[:FIELDS_BEFORE_EFFECTS_ROOT], FIELD_BYTES, *plain[FIELDS_BEFORE_EFFECTS_ROOT:])


def header_bytes(fields: int) -> int:
    """Return the bytes of a header with that many values."""
    return sum(header_widths(fields))


def hash_each(headers: Sequence[BlockHeader]) -> bytes:
    """Return the hash of each header, joined.  Many at once are faster; all must be of one release."""
    if not headers:
        return b""
    runs = [_HASH_SEPARATOR + header.to_fields() for header in headers]
    return poseidon2.hash_runs(b"".join(runs), len(runs[0]) // FIELD_BYTES)
