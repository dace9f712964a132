"""Proposed blocks and checkpoints, and attestations, as they are gossiped.

    signature             r 32 | s 32 | v as u32 (27 or 28)
    txs in it             u32 0, or u32 1 | list of transactions | signature of the proposer
    block proposal        block header 440 | u32 index in the checkpoint | inHash 32 | archive root 32 | signature |
                          list of hashes | txs in it
    checkpoint proposal   checkpoint header 316 | archive root 32 | fee asset price modifier (int256) | signature |
                          u32 0, or u32 1 | block header 440 | u32 index | signature | list of hashes | txs in it
    attestation           checkpoint header 316 | archive root 32 | modifier 32 | attester's signature | proposer's

What is signed: u32 0 | block header | index | inHash | archive root | list of hashes; u32 3 | checkpoint header |
archive root | modifier; u32 4 | list of transactions; an attestation as on L1.  Facts of the network, section 3.

What is behind a message is not looked at, a flag is true unless it is 0, and a block may end before the flag of its
transactions, as published nodes read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

from fastnode.p2p.messages.request_forms import HASH_BYTES, take_txs, write_hashes, write_txs
from fastnode.protocol.checkpoint import CHECKPOINT_HEADER_BYTES, CheckpointHeader
from fastnode.protocol.ethereum import keccak_256, payload_digest, recover_signer, signed_digest
from fastnode.protocol.header import HEADER_BYTES, BlockHeader
from fastnode.protocol.reader import ByteReader
from fastnode.records import dataclass

__all__ = [
    "BlockProposal",
    "CheckpointAttestation",
    "CheckpointProposal",
    "SignedTxs",
    "read_signer",
    "signed_txs_digest",
    "wire_signature",
]

_SIGNATURE_BYTES: Final = 68
_BLOCK, _CHECKPOINT, _TXS = 0, 3, 4
#: Hashes of one proposal, as published nodes read them.
_HASHES_MAX: Final = 1 << 16


def wire_signature(signature: bytes) -> bytes:
    """``signature``: r 32 | s 32 | v 1."""
    return signature[:64] + _u32(signature[64])


def signed_txs_digest(txs: Sequence[bytes]) -> bytes:
    """Digest (32 bytes) that a block's proposer signs for transactions that go with it, in their binary form."""
    return keccak_256(_u32(_TXS) + write_txs(txs))


def read_signer(message: bytes, signature: bytes) -> bytes | None:
    """The address (20 bytes) that has signed a message, None if none has.  ``signature``: 68 bytes."""
    recovery = int.from_bytes(signature[64:], "big")
    if recovery not in (27, 28):
        return None
    return recover_signer(signed_digest(keccak_256(message)), signature[:64] + bytes([recovery]))


@dataclass(frozen=True, slots=True)
class SignedTxs:
    """Transactions that go with a block, in their binary form.  ``signature``: 68 bytes."""

    txs: tuple[bytes, ...]
    signature: bytes

    @classmethod
    def read_if_there(cls, reader: ByteReader) -> Self | None:
        """None also where the message ends before the flag."""
        if reader.is_at_end or not reader.unsigned(4):
            return None
        return cls(tuple(take_txs(reader)), reader.take(_SIGNATURE_BYTES))

    def signer(self) -> bytes | None:
        return read_signer(_u32(_TXS) + write_txs(self.txs), self.signature)

    def to_buffer(self) -> bytes:
        return _u32(1) + write_txs(self.txs) + self.signature


@dataclass(frozen=True, slots=True)
class BlockProposal:
    header: BlockHeader
    #: In the checkpoint.
    index: int
    in_hash: bytes
    archive_root: bytes
    tx_hashes: tuple[bytes, ...]
    signature: bytes
    txs: SignedTxs | None
    signed: bytes

    @classmethod
    def from_buffer(cls, buffer: bytes) -> Self:
        """DecodeError for anything else."""
        reader = ByteReader(buffer, "block proposal")
        header = BlockHeader.from_buffer(reader.take(HEADER_BYTES))
        index, in_hash, archive_root = reader.unsigned(4), reader.field(), reader.field()
        signature = reader.take(_SIGNATURE_BYTES)
        hashes = _take_hashes(reader)
        txs = SignedTxs.read_if_there(reader)
        signed = _u32(_BLOCK) + buffer[: HEADER_BYTES + 4 + 2 * HASH_BYTES] + write_hashes(hashes)
        return cls(header, index, in_hash, archive_root, hashes, signature, txs, signed)

    @classmethod
    def of(
        cls,
        header: BlockHeader,
        index: int,
        in_hash: bytes,
        archive_root: bytes,
        tx_hashes: Sequence[bytes],
        signature: bytes,
        txs: SignedTxs | None = None,
    ) -> Self:
        """``signature``: r 32 | s 32 | v 1."""
        hashes = tuple(tx_hashes)
        signed = _u32(_BLOCK) + header.to_buffer() + _u32(index) + in_hash + archive_root + write_hashes(hashes)
        return cls(header, index, in_hash, archive_root, hashes, wire_signature(signature), txs, signed)

    def to_buffer(self) -> bytes:
        return b"".join(
            (
                self.header.to_buffer(),
                _u32(self.index),
                self.in_hash,
                self.archive_root,
                self.signature,
                write_hashes(self.tx_hashes),
                _u32(0) if self.txs is None else self.txs.to_buffer(),
            )
        )

    @property
    def slot(self) -> int:
        return self.header.global_variables.slot_number

    def signer(self) -> bytes | None:
        """Address of who has proposed it; None if its signature is none, or that of its transactions another's."""
        signer = read_signer(self.signed, self.signature)
        return None if self.txs is not None and self.txs.signer() != signer else signer


@dataclass(frozen=True, slots=True)
class CheckpointProposal:
    header: CheckpointHeader
    archive_root: bytes
    fee_asset_price_modifier: int
    signature: bytes
    #: The last block of the checkpoint, unless it was announced before.
    last_block: BlockProposal | None
    signed: bytes

    @classmethod
    def from_buffer(cls, buffer: bytes) -> Self:
        """DecodeError for anything else."""
        reader = ByteReader(buffer, "checkpoint proposal")
        header = CheckpointHeader.from_buffer(reader.take(CHECKPOINT_HEADER_BYTES))
        archive_root = reader.field()
        modifier = int.from_bytes(reader.take(HASH_BYTES), "big", signed=True)
        signature = reader.take(_SIGNATURE_BYTES)
        last = _take_last_block(reader, header, archive_root) if reader.unsigned(4) else None
        signed = _u32(_CHECKPOINT) + buffer[: CHECKPOINT_HEADER_BYTES + 2 * HASH_BYTES]
        return cls(header, archive_root, modifier, signature, last, signed)

    @classmethod
    def of(cls, header: CheckpointHeader, archive_root: bytes, fee_asset_price_modifier: int, signature: bytes) -> Self:
        """Proposal of blocks that were all announced before.  ``signature``: r 32 | s 32 | v 1."""
        modifier = fee_asset_price_modifier.to_bytes(HASH_BYTES, "big", signed=True)
        signed = _u32(_CHECKPOINT) + header.to_buffer() + archive_root + modifier
        return cls(header, archive_root, fee_asset_price_modifier, wire_signature(signature), None, signed)

    def to_buffer(self) -> bytes:
        return self.signed[len(_u32(_CHECKPOINT)) :] + self.signature + self._last_block_buffer()

    def _last_block_buffer(self) -> bytes:
        last = self.last_block
        if last is None:
            return _u32(0)
        txs = _u32(0) if last.txs is None else last.txs.to_buffer()
        head = _u32(1) + last.header.to_buffer() + _u32(last.index) + last.signature
        return head + write_hashes(last.tx_hashes) + txs

    @property
    def slot(self) -> int:
        return self.header.slot_number

    def signer(self) -> bytes | None:
        """Address of who has proposed it; None if a signature is none, or that of its last block another's."""
        signer = read_signer(self.signed, self.signature)
        return None if self.last_block is not None and self.last_block.signer() != signer else signer


def _take_last_block(reader: ByteReader, header: CheckpointHeader, archive_root: bytes) -> BlockProposal:
    raw = reader.take(HEADER_BYTES)
    block = BlockHeader.from_buffer(raw)
    index, signature = reader.unsigned(4), reader.take(_SIGNATURE_BYTES)
    hashes = _take_hashes(reader)
    txs = SignedTxs.read_if_there(reader)
    signed = _u32(_BLOCK) + raw + _u32(index) + header.in_hash + archive_root + write_hashes(hashes)
    return BlockProposal(block, index, header.in_hash, archive_root, hashes, signature, txs, signed)


@dataclass(frozen=True, slots=True)
class CheckpointAttestation:
    header: CheckpointHeader
    archive_root: bytes
    fee_asset_price_modifier: int
    signature: bytes
    proposer_signature: bytes

    @classmethod
    def from_buffer(cls, buffer: bytes) -> Self:
        """DecodeError for anything else."""
        reader = ByteReader(buffer, "attestation")
        return cls(
            CheckpointHeader.from_buffer(reader.take(CHECKPOINT_HEADER_BYTES)),
            reader.field(),
            int.from_bytes(reader.take(HASH_BYTES), "big", signed=True),
            reader.take(_SIGNATURE_BYTES),
            reader.take(_SIGNATURE_BYTES),
        )

    def to_buffer(self) -> bytes:
        modifier = self.fee_asset_price_modifier.to_bytes(HASH_BYTES, "big", signed=True)
        return self.header.to_buffer() + self.archive_root + modifier + self.signature + self.proposer_signature

    @property
    def digest(self) -> bytes:
        """Digest that the attester has signed."""
        return payload_digest(self.header, self.archive_root, self.fee_asset_price_modifier)

    @property
    def slot(self) -> int:
        return self.header.slot_number

    def signer(self) -> bytes | None:
        """Address of the attester; None if the signature is none."""
        recovery = int.from_bytes(self.signature[64:], "big")
        if recovery not in (27, 28):
            return None
        return recover_signer(signed_digest(self.digest), self.signature[:64] + bytes([recovery]))

    def proposer(self) -> bytes | None:
        """Address of who has proposed what is attested; None if that signature is none."""
        modifier = self.fee_asset_price_modifier.to_bytes(HASH_BYTES, "big", signed=True)
        signed = _u32(_CHECKPOINT) + self.header.to_buffer() + self.archive_root + modifier
        return read_signer(signed, self.proposer_signature)


def _take_hashes(reader: ByteReader) -> tuple[bytes, ...]:
    return tuple(reader.field() for _ in range(reader.count(4, _HASHES_MAX, "hashes")))


def _u32(value: int) -> bytes:
    return value.to_bytes(4, "big")
