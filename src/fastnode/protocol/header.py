"""Block headers.

Block header buffer, 440 bytes, big-endian::

      0  lastArchive          root 32 | size u32
     36  l1ToL2MessageTree    root 32 | size u32
     72  noteHashTree         root 32 | size u32
    108  nullifierTree        root 32 | size u32
    144  publicDataTree       root 32 | size u32
    180  spongeBlobHash       32
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

import struct
from collections.abc import Sequence
from typing import Any, Final, Self

from fastnode.errors import DecodeError
from fastnode.kernels import poseidon2
from fastnode.protocol.constants import SEPARATOR_BLOCK_HEADER_HASH
from fastnode.protocol.fields import (
    FIELD_BYTES,
    MODULUS,
    U32_BITS,
    U64_BITS,
    U128_BITS,
    as_record,
    field_from_int,
    first_non_canonical,
    hex_text,
    integer_field_text,
    join_path,
    read_decimal,
    read_eth_address,
    read_field,
    read_field_integer,
    read_number,
    read_value,
)
from fastnode.records import dataclass

SNAPSHOT_BYTES: Final = 36
HEADER_BYTES: Final = 440
HEADER_FIELDS: Final = 22

_SNAPSHOT: Final = struct.Struct(">32sI")
_HEADER: Final = struct.Struct(">" + "32sI" * 5 + "32s32s32sIIQ20s32s16s16s32s32s")
_HASH_SEPARATOR: Final = field_from_int(SEPARATOR_BLOCK_HEADER_HASH)


def _u128(value: int) -> bytes:
    return value.to_bytes(16, "big")


def _word(value: int) -> bytes:
    return value.to_bytes(FIELD_BYTES, "big")


@dataclass(frozen=True, slots=True)
class AppendOnlyTreeSnapshot:
    """Root and size of a tree."""

    root: bytes
    next_available_leaf_index: int

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        record = as_record(value, path)
        return cls(read_field(record, "root", path), read_number(record, "nextAvailableLeafIndex", path))

    def to_json(self) -> dict[str, Any]:
        return {"root": hex_text(self.root), "nextAvailableLeafIndex": self.next_available_leaf_index}

    def to_buffer(self) -> bytes:
        """root 32 | size u32."""
        return _SNAPSHOT.pack(self.root, self.next_available_leaf_index)

    @classmethod
    def from_buffer(cls, buffer: bytes) -> Self:
        if len(buffer) != SNAPSHOT_BYTES:
            raise DecodeError(f"tree snapshot: {len(buffer)} bytes, expected {SNAPSHOT_BYTES}")
        root, size = _SNAPSHOT.unpack(buffer)
        if first_non_canonical(root) is not None:
            raise DecodeError("tree snapshot: root is not below the field modulus")
        return cls(root, size)


EMPTY_SNAPSHOT: Final = AppendOnlyTreeSnapshot(bytes(FIELD_BYTES), 0)


@dataclass(frozen=True, slots=True)
class StateReference:
    """The four state trees after a block.  Order on the wire and in the hash is the order here."""

    l1_to_l2_message_tree: AppendOnlyTreeSnapshot
    note_hash_tree: AppendOnlyTreeSnapshot
    nullifier_tree: AppendOnlyTreeSnapshot
    public_data_tree: AppendOnlyTreeSnapshot

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        record = as_record(value, path)
        partial_path = join_path(path, "partial")
        partial = as_record(read_value(record, "partial", path), partial_path)
        return cls(
            _snapshot(record, "l1ToL2MessageTree", path),
            _snapshot(partial, "noteHashTree", partial_path),
            _snapshot(partial, "nullifierTree", partial_path),
            _snapshot(partial, "publicDataTree", partial_path),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "l1ToL2MessageTree": self.l1_to_l2_message_tree.to_json(),
            "partial": {
                "noteHashTree": self.note_hash_tree.to_json(),
                "nullifierTree": self.nullifier_tree.to_json(),
                "publicDataTree": self.public_data_tree.to_json(),
            },
        }


def _snapshot(record: dict[str, Any], key: str, path: str) -> AppendOnlyTreeSnapshot:
    return AppendOnlyTreeSnapshot.from_json(read_value(record, key, path), join_path(path, key))


@dataclass(frozen=True, slots=True)
class GasFees:
    """Price of one unit of gas in both dimensions, u128 each."""

    fee_per_da_gas: int
    fee_per_l2_gas: int

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        record = as_record(value, path)
        return cls(
            read_decimal(record, "feePerDaGas", path, bits=U128_BITS),
            read_decimal(record, "feePerL2Gas", path, bits=U128_BITS),
        )

    def to_json(self) -> dict[str, Any]:
        return {"feePerDaGas": str(self.fee_per_da_gas), "feePerL2Gas": str(self.fee_per_l2_gas)}


@dataclass(frozen=True, slots=True)
class GlobalVariables:
    """Values that every tx of a block sees: position, time, and who is paid.

    ``timestamp`` is in seconds; ``coinbase`` is a 20-byte L1 address, ``fee_recipient`` a 32-byte L2 address.
    """

    chain_id: int
    version: int
    block_number: int
    slot_number: int
    timestamp: int
    coinbase: bytes
    fee_recipient: bytes
    gas_fees: GasFees

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        record = as_record(value, path)
        return cls(
            chain_id=read_field_integer(record, "chainId", path),
            version=read_field_integer(record, "version", path),
            block_number=read_number(record, "blockNumber", path),
            slot_number=read_field_integer(record, "slotNumber", path, U32_BITS),
            timestamp=read_decimal(record, "timestamp", path, bits=U64_BITS),
            coinbase=read_eth_address(record, "coinbase", path),
            fee_recipient=read_field(record, "feeRecipient", path),
            gas_fees=GasFees.from_json(read_value(record, "gasFees", path), join_path(path, "gasFees")),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "chainId": integer_field_text(self.chain_id),
            "version": integer_field_text(self.version),
            "blockNumber": self.block_number,
            "slotNumber": integer_field_text(self.slot_number),
            "timestamp": str(self.timestamp),
            "coinbase": hex_text(self.coinbase),
            "feeRecipient": hex_text(self.fee_recipient),
            "gasFees": self.gas_fees.to_json(),
        }


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """A block's header.  ``total_fees`` and ``total_mana_used`` are field-sized on the wire."""

    last_archive: AppendOnlyTreeSnapshot
    state: StateReference
    sponge_blob_hash: bytes
    global_variables: GlobalVariables
    total_fees: int
    total_mana_used: int

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        record = as_record(value, path)
        return cls(
            last_archive=_snapshot(record, "lastArchive", path),
            state=StateReference.from_json(read_value(record, "state", path), join_path(path, "state")),
            sponge_blob_hash=read_field(record, "spongeBlobHash", path),
            global_variables=GlobalVariables.from_json(
                read_value(record, "globalVariables", path), join_path(path, "globalVariables")
            ),
            total_fees=read_field_integer(record, "totalFees", path),
            total_mana_used=read_field_integer(record, "totalManaUsed", path),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "lastArchive": self.last_archive.to_json(),
            "state": self.state.to_json(),
            "spongeBlobHash": hex_text(self.sponge_blob_hash),
            "globalVariables": self.global_variables.to_json(),
            "totalFees": integer_field_text(self.total_fees),
            "totalManaUsed": integer_field_text(self.total_mana_used),
        }

    def hash(self) -> bytes:
        """The block hash (32 bytes): Poseidon2 over the separator and the 22 header fields."""
        return poseidon2.hash_fields(_HASH_SEPARATOR + self.to_fields())

    def to_fields(self) -> bytes:
        """The 22 hashed fields, joined."""
        state, variables = self.state, self.global_variables
        snapshots = (
            self.last_archive,
            state.l1_to_l2_message_tree,
            state.note_hash_tree,
            state.nullifier_tree,
            state.public_data_tree,
        )
        parts: list[bytes] = []
        for snapshot in snapshots:
            parts.append(snapshot.root)
            parts.append(_word(snapshot.next_available_leaf_index))
        parts += (
            self.sponge_blob_hash,
            _word(variables.chain_id),
            _word(variables.version),
            _word(variables.block_number),
            _word(variables.slot_number),
            _word(variables.timestamp),
            bytes(12) + variables.coinbase,
            variables.fee_recipient,
            _word(variables.gas_fees.fee_per_da_gas),
            _word(variables.gas_fees.fee_per_l2_gas),
            _word(self.total_fees),
            _word(self.total_mana_used),
        )
        return b"".join(parts)

    def to_buffer(self) -> bytes:
        """The 440-byte form drawn at the top of this file."""
        state, variables = self.state, self.global_variables
        return _HEADER.pack(
            self.last_archive.root,
            self.last_archive.next_available_leaf_index,
            state.l1_to_l2_message_tree.root,
            state.l1_to_l2_message_tree.next_available_leaf_index,
            state.note_hash_tree.root,
            state.note_hash_tree.next_available_leaf_index,
            state.nullifier_tree.root,
            state.nullifier_tree.next_available_leaf_index,
            state.public_data_tree.root,
            state.public_data_tree.next_available_leaf_index,
            self.sponge_blob_hash,
            _word(variables.chain_id),
            _word(variables.version),
            variables.block_number,
            variables.slot_number,
            variables.timestamp,
            variables.coinbase,
            variables.fee_recipient,
            _u128(variables.gas_fees.fee_per_da_gas),
            _u128(variables.gas_fees.fee_per_l2_gas),
            _word(self.total_fees),
            _word(self.total_mana_used),
        )

    @classmethod
    def from_buffer(cls, buffer: bytes) -> Self:
        """The inverse of :meth:`to_buffer`; DecodeError for another length or a field not below the modulus."""
        if len(buffer) != HEADER_BYTES:
            raise DecodeError(f"block header: {len(buffer)} bytes, expected {HEADER_BYTES}")
        parts = _HEADER.unpack(buffer)
        _check_words(parts)
        snapshots = [AppendOnlyTreeSnapshot(parts[i], parts[i + 1]) for i in range(0, 10, 2)]
        return cls(
            last_archive=snapshots[0],
            state=StateReference(*snapshots[1:]),
            sponge_blob_hash=parts[10],
            global_variables=GlobalVariables(
                chain_id=int.from_bytes(parts[11], "big"),
                version=int.from_bytes(parts[12], "big"),
                block_number=parts[13],
                slot_number=parts[14],
                timestamp=parts[15],
                coinbase=parts[16],
                fee_recipient=parts[17],
                gas_fees=GasFees(int.from_bytes(parts[18], "big"), int.from_bytes(parts[19], "big")),
            ),
            total_fees=int.from_bytes(parts[20], "big"),
            total_mana_used=int.from_bytes(parts[21], "big"),
        )


def _check_words(parts: tuple[Any, ...]) -> None:
    for part in parts:
        if type(part) is bytes and len(part) == FIELD_BYTES and int.from_bytes(part, "big") >= MODULUS:
            raise DecodeError(f"block header: {hex_text(part)} is not below the field modulus")


def hash_each(headers: Sequence[BlockHeader]) -> bytes:
    """The hash of each header, joined; many take less time than each of them alone."""
    runs = b"".join([_HASH_SEPARATOR + header.to_fields() for header in headers])
    return poseidon2.hash_runs(runs, 1 + HEADER_FIELDS)
