"""Checkpoints: the unit that is published on L1.

Checkpoint header, 316 bytes (348 in 5.x), big-endian::

      0  lastArchiveRoot    32
     32  blockHeadersHash   32
     64  blobsHash          32
     96  inHash             32
    128  epochOutHash       32
    160  slotNumber         32   (a uint256 on L1)
    192  timestamp          u64
    200  coinbase           20
    220  feeRecipient       32
    252  feePerDaGas        u128
    268  feePerL2Gas        u128
    284  totalManaUsed      32
    316  accumulatedFees    32   (from 5.x on)

Its hash, the "checkpoint hash" of the tips, is ``sha256_to_field`` of these bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, Self

from fastnode.errors import DecodeError
from fastnode.protocol.block import L2Block
from fastnode.protocol.constants import BLOCKS_PER_CHECKPOINT_MAX, COMMITTEE_MEMBERS_MAX
from fastnode.protocol.fields import (
    FIELD_BYTES,
    MODULUS,
    U32_BITS,
    U64_BITS,
    as_record,
    element_path,
    hex_text,
    integer_field_text,
    join_path,
    read_bytes,
    read_decimal,
    read_eth_address,
    read_field,
    read_field_integer,
    read_list,
    read_number,
    read_value,
)
from fastnode.protocol.hashing import poseidon2_unbalanced_root, sha256_to_field
from fastnode.protocol.header import AppendOnlyTreeSnapshot, GasFees
from fastnode.protocol.releases import Release
from fastnode.records import dataclass

CHECKPOINT_HEADER_BYTES: Final = 316
SIGNATURE_BYTES: Final = 65
#: In JSON v is a number without a zero before it: of those who have not signed it has one digit.
_SHORT_SIGNATURE_CHARACTERS: Final = len("0x") + 2 * SIGNATURE_BYTES - 1
_TWO_DIGITS: Final = 0x10
#: feeAssetPriceModifier is an int256 on L1.
PRICE_MODIFIER_BITS: Final = 255

_FEES: Final = "accumulatedFees"
_HEADER: Final = struct.Struct(">32s32s32s32s32s32sQ20s32s16s16s32s")


@dataclass(frozen=True, slots=True)
class CheckpointHeader:
    """The header of a checkpoint, of which L1 stores the hash.  ``timestamp`` in seconds, ``coinbase`` 20 bytes.

    ``accumulated_fees`` None: the header is of a release that does not count them.
    """

    last_archive_root: bytes
    block_headers_hash: bytes
    blobs_hash: bytes
    in_hash: bytes
    epoch_out_hash: bytes
    slot_number: int
    timestamp: int
    coinbase: bytes
    fee_recipient: bytes
    gas_fees: GasFees
    total_mana_used: int
    accumulated_fees: int | None = None

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        record = as_record(value, path)
        return cls(
            last_archive_root=read_field(record, "lastArchiveRoot", path),
            block_headers_hash=read_field(record, "blockHeadersHash", path),
            blobs_hash=read_field(record, "blobsHash", path),
            in_hash=read_field(record, "inHash", path),
            epoch_out_hash=read_field(record, "epochOutHash", path),
            slot_number=read_number(record, "slotNumber", path),
            timestamp=read_decimal(record, "timestamp", path, bits=U64_BITS),
            coinbase=read_eth_address(record, "coinbase", path),
            fee_recipient=read_field(record, "feeRecipient", path),
            gas_fees=GasFees.from_json(read_value(record, "gasFees", path), join_path(path, "gasFees")),
            total_mana_used=read_field_integer(record, "totalManaUsed", path),
            accumulated_fees=read_field_integer(record, _FEES, path) if _FEES in record else None,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "lastArchiveRoot": hex_text(self.last_archive_root),
            "blockHeadersHash": hex_text(self.block_headers_hash),
            "blobsHash": hex_text(self.blobs_hash),
            "inHash": hex_text(self.in_hash),
            "epochOutHash": hex_text(self.epoch_out_hash),
            "slotNumber": self.slot_number,
            "timestamp": str(self.timestamp),
            "coinbase": hex_text(self.coinbase),
            "feeRecipient": hex_text(self.fee_recipient),
            "gasFees": self.gas_fees.to_json(),
            "totalManaUsed": integer_field_text(self.total_mana_used),
            **({} if self.accumulated_fees is None else {_FEES: integer_field_text(self.accumulated_fees)}),
        }

    def hash(self) -> bytes:
        """The checkpoint hash (32 bytes, first byte zero)."""
        return sha256_to_field(self.to_buffer())

    def to_buffer(self) -> bytes:
        """The form drawn at the top of this file."""
        fees = self.accumulated_fees
        return self._without_fees() + (b"" if fees is None else fees.to_bytes(FIELD_BYTES, "big"))

    def _without_fees(self) -> bytes:
        return _HEADER.pack(
            self.last_archive_root,
            self.block_headers_hash,
            self.blobs_hash,
            self.in_hash,
            self.epoch_out_hash,
            self.slot_number.to_bytes(FIELD_BYTES, "big"),
            self.timestamp,
            self.coinbase,
            self.fee_recipient,
            self.gas_fees.fee_per_da_gas.to_bytes(16, "big"),
            self.gas_fees.fee_per_l2_gas.to_bytes(16, "big"),
            self.total_mana_used.to_bytes(FIELD_BYTES, "big"),
        )

    @classmethod
    def from_buffer(cls, buffer: bytes) -> Self:
        """The inverse of :meth:`to_buffer`; DecodeError for another length or a value out of range."""
        fees = buffer[CHECKPOINT_HEADER_BYTES:]
        if len(buffer) < CHECKPOINT_HEADER_BYTES or len(fees) not in (0, FIELD_BYTES):
            raise DecodeError(f"checkpoint header: {len(buffer)} bytes, expected {CHECKPOINT_HEADER_BYTES}")
        parts = _HEADER.unpack(buffer[:CHECKPOINT_HEADER_BYTES])
        for part in (*parts[:5], parts[8], parts[11], fees):
            if int.from_bytes(part, "big") >= MODULUS:
                raise DecodeError(f"checkpoint header: {hex_text(part)} is not below the field modulus")
        slot_number = int.from_bytes(parts[5], "big")
        if slot_number >> U32_BITS:
            raise DecodeError(f"checkpoint header: slot number {slot_number} does not fit 32 bits")
        return cls(
            last_archive_root=parts[0],
            block_headers_hash=parts[1],
            blobs_hash=parts[2],
            in_hash=parts[3],
            epoch_out_hash=parts[4],
            slot_number=slot_number,
            timestamp=parts[6],
            coinbase=parts[7],
            fee_recipient=parts[8],
            gas_fees=GasFees(int.from_bytes(parts[9], "big"), int.from_bytes(parts[10], "big")),
            total_mana_used=int.from_bytes(parts[11], "big"),
            accumulated_fees=int.from_bytes(fees, "big") if fees else None,
        )


def block_headers_hash(block_hashes: Sequence[bytes], separator: bytes = b"") -> bytes:
    """``blockHeadersHash`` of a checkpoint from the hashes of its blocks, in order.

    ``separator``: that of the release; empty: it has none.
    """
    return poseidon2_unbalanced_root(block_hashes, separator)


def accumulated_fees(blocks: Sequence[L2Block], release: Release) -> int | None:
    """``accumulatedFees`` of a checkpoint of these blocks; None: its release does not count them."""
    return sum(block.header.total_fees for block in blocks) if release.counts_fees else None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A run of blocks of one slot.  ``archive`` is the archive tree after the last of them."""

    archive: AppendOnlyTreeSnapshot
    header: CheckpointHeader
    blocks: tuple[L2Block, ...]
    number: int
    fee_asset_price_modifier: int

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        record = as_record(value, path)
        blocks = read_list(record, "blocks", path, maximum=BLOCKS_PER_CHECKPOINT_MAX)
        return cls(
            archive=AppendOnlyTreeSnapshot.from_json(read_value(record, "archive", path), join_path(path, "archive")),
            header=CheckpointHeader.from_json(read_value(record, "header", path), join_path(path, "header")),
            blocks=tuple([L2Block.from_json(item, element_path(path, "blocks", i)) for i, item in enumerate(blocks)]),
            number=read_number(record, "number", path),
            fee_asset_price_modifier=read_decimal(
                record, "feeAssetPriceModifier", path, bits=PRICE_MODIFIER_BITS, signed=True
            ),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "archive": self.archive.to_json(),
            "header": self.header.to_json(),
            "blocks": [block.to_json() for block in self.blocks],
            "number": self.number,
            "feeAssetPriceModifier": str(self.fee_asset_price_modifier),
        }

    @property
    def total_mana_used(self) -> int:
        """Value that ``totalManaUsed`` of the checkpoint's header must have: the sum over the blocks."""
        return sum(block.header.total_mana_used for block in self.blocks)


@dataclass(frozen=True, slots=True)
class L1PublishedData:
    """The L1 block that carries the checkpoint.  ``block_hash`` is an L1 hash, not a field element."""

    block_number: int
    timestamp: int
    block_hash: bytes

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        record = as_record(value, path)
        return cls(
            block_number=read_decimal(record, "blockNumber", path),
            timestamp=read_decimal(record, "timestamp", path),
            block_hash=read_bytes(record, "blockHash", path, FIELD_BYTES),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "blockNumber": str(self.block_number),
            "timestamp": str(self.timestamp),
            "blockHash": hex_text(self.block_hash),
        }


@dataclass(frozen=True, slots=True)
class CommitteeAttestation:
    """One committee member: address (20 bytes) and signature r 32 | s 32 | v 1, all zero when it did not sign."""

    address: bytes
    signature: bytes

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        record = dict(as_record(value, path))
        text = record.get("signature")
        if isinstance(text, str) and len(text) == _SHORT_SIGNATURE_CHARACTERS:
            record["signature"] = f"{text[:-1]}0{text[-1]}"
        return cls(read_eth_address(record, "address", path), read_bytes(record, "signature", path, SIGNATURE_BYTES))

    def to_json(self) -> dict[str, Any]:
        text = hex_text(self.signature)
        if self.signature[-1] < _TWO_DIGITS:
            text = text[:-2] + text[-1]
        return {"address": hex_text(self.address), "signature": text}


@dataclass(frozen=True, slots=True)
class PublishedCheckpoint:
    """A checkpoint with its place on L1 and its attestations."""

    checkpoint: Checkpoint
    l1: L1PublishedData
    attestations: tuple[CommitteeAttestation, ...]

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        record = as_record(value, path)
        attestations = read_list(record, "attestations", path, maximum=COMMITTEE_MEMBERS_MAX)
        return cls(
            checkpoint=Checkpoint.from_json(read_value(record, "checkpoint", path), join_path(path, "checkpoint")),
            l1=L1PublishedData.from_json(read_value(record, "l1", path), join_path(path, "l1")),
            attestations=tuple(
                CommitteeAttestation.from_json(item, element_path(path, "attestations", i))
                for i, item in enumerate(attestations)
            ),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "checkpoint": self.checkpoint.to_json(),
            "l1": self.l1.to_json(),
            "attestations": [attestation.to_json() for attestation in self.attestations],
        }
