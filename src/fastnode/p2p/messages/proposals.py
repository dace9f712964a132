"""Proposed blocks and checkpoints, and attestations, as they are gossiped.

    signature             r 32 | s 32 | v as u32 (27 or 28)
    domain                nothing; from release 5.x on chain of L1 as u32 | rollup contract 20
    txs in it             u32 0, or u32 1 | list of transactions | signature of the proposer | domain
    block proposal        block header 440 | u32 index in the checkpoint | inHash 32 | archive root 32 | signature |
                          domain | list of hashes | txs in it
    checkpoint proposal   checkpoint header 316 (348 in 5.x) | archive root 32 | fee asset price modifier (int256) |
                          signature | domain | u32 0, or u32 1 | block header 440 | u32 index | signature |
                          list of hashes | txs in it
    attestation           checkpoint header | archive root 32 | modifier 32 | domain | attester's signature | proposer's

What is signed in 4.x: u32 0 | block header | index | inHash | archive root | list of hashes; u32 3 | checkpoint
header | archive root | modifier; u32 4 | list of transactions; an attestation as on L1.  From 5.x on the same without
the number in front, as a message of a type of its own for the domain (EIP-712).  Facts of the network, section 3; the
forms of 5.x are those of its public source of 2026-07-21, and were not tried with a published node.

What is behind a message is not looked at, a flag is true unless it is 0, and a block may end before the flag of its
transactions, as published nodes read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from fastnode.p2p.messages.request_forms import HASH_BYTES, take_txs, write_hashes, write_txs
from fastnode.protocol.checkpoint import CheckpointHeader
from fastnode.protocol.ethereum import (
    SigningDomain,
    attested_digest,
    keccak_256,
    payload_digest,
    recover_signer,
    signed_digest,
    typed_digest,
    with_recovery_byte,
)
from fastnode.protocol.header import HEADER_BYTES, BlockHeader
from fastnode.protocol.reader import ByteReader
from fastnode.protocol.releases import Release
from fastnode.records import dataclass

__all__ = [
    "BlockProposal",
    "CheckpointAttestation",
    "CheckpointProposal",
    "SignedTxs",
    "checkpoint_header_bytes",
    "has_plain_recovery",
    "signed_txs_digest",
    "wire_signature",
]

_SIGNATURE_BYTES: Final = 68
_ROLLUP_BYTES: Final = 20
#: Hashes of one proposal, as published nodes read them.
_HASHES_MAX: Final = 1 << 16


class _Kind(NamedTuple):
    """Kind of a signed message: its number in 4.x, its type from 5.x on."""

    number: int
    type: bytes


_BLOCK: Final = _Kind(0, b"BlockProposal")
_CHECKPOINT: Final = _Kind(3, b"CheckpointProposal")
_TXS: Final = _Kind(4, b"SignedTxs")


def wire_signature(signature: bytes) -> bytes:
    """``signature``: r 32 | s 32 | v 1."""
    return signature[:64] + _u32(signature[64])


def has_plain_recovery(signature: bytes) -> bool:
    """True if a signature of 68 bytes ends with the plain recovery id, 0 or 1."""
    return int.from_bytes(signature[64:], "big") in (0, 1)


def signed_txs_digest(txs: Sequence[bytes]) -> bytes:
    """Digest (32 bytes) that a block's proposer of 4.x signs for transactions that go with it, in their binary form."""
    return keccak_256(_u32(_TXS.number) + write_txs(txs))


def checkpoint_header_bytes(release: Release) -> int:
    """Bytes of the header of a checkpoint."""
    return CheckpointHeader.sizes()[release.counts_fees]


def _content(kind: _Kind, content: bytes, domain: SigningDomain | None) -> bytes:
    """Bytes that are hashed for the signature."""
    return content if domain is not None else _u32(kind.number) + content


def _digest(kind: _Kind, signed: bytes, domain: SigningDomain | None) -> bytes:
    return signed_digest(keccak_256(signed)) if domain is None else typed_digest(kind.type, signed, domain)


def _read_signer(digest: bytes, signature: bytes, *, takes_plain: bool) -> bytes | None:
    """The address (20 bytes) that has signed a digest, None if none has.  ``signature``: 68 bytes."""
    recovery = int.from_bytes(signature[64:], "big")
    if recovery not in (27, 28) and not (takes_plain and recovery in (0, 1)):
        return None
    return recover_signer(digest, with_recovery_byte(signature[:64] + bytes([recovery])))


def _signer(kind: _Kind, signed: bytes, signature: bytes, domain: SigningDomain | None) -> bytes | None:
    return _read_signer(_digest(kind, signed, domain), signature, takes_plain=domain is not None)


def _take_domain(reader: ByteReader, release: Release) -> SigningDomain | None:
    if not release.messages.are_for_rollup:
        return None
    return SigningDomain(reader.unsigned(4), reader.take(_ROLLUP_BYTES))


def _write_domain(domain: SigningDomain | None) -> bytes:
    return b"" if domain is None else _u32(domain.chain_id) + domain.rollup


@dataclass(frozen=True, slots=True)
class SignedTxs:
    """Transactions that go with a block, in their binary form.  ``signature``: 68 bytes."""

    txs: tuple[bytes, ...]
    signature: bytes
    domain: SigningDomain | None = None

    @classmethod
    def read_if_there(cls, reader: ByteReader, release: Release) -> Self | None:
        """None also where the message ends before the flag."""
        if reader.is_at_end or not reader.unsigned(4):
            return None
        txs = tuple(take_txs(reader, release))
        return cls(txs, reader.take(_SIGNATURE_BYTES), _take_domain(reader, release))

    @property
    def digest(self) -> bytes:
        """Digest that the proposer signs."""
        return _digest(_TXS, _content(_TXS, write_txs(self.txs), self.domain), self.domain)

    def signer(self) -> bytes | None:
        return _read_signer(self.digest, self.signature, takes_plain=self.domain is not None)

    def to_buffer(self) -> bytes:
        return _u32(1) + write_txs(self.txs) + self.signature + _write_domain(self.domain)


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
    #: Chain and rollup that it says it is for; None in 4.x, where it does not say.
    domain: SigningDomain | None = None

    @classmethod
    def from_buffer(cls, buffer: bytes, release: Release) -> Self:
        """DecodeError for anything else."""
        reader = ByteReader(buffer, "block proposal")
        header = BlockHeader.from_buffer(reader.take(HEADER_BYTES))
        index, in_hash, archive_root = reader.unsigned(4), reader.field(), reader.field()
        signature = reader.take(_SIGNATURE_BYTES)
        domain = _take_domain(reader, release)
        hashes = _take_hashes(reader)
        txs = SignedTxs.read_if_there(reader, release)
        signed = _content(_BLOCK, buffer[: HEADER_BYTES + 4 + 2 * HASH_BYTES] + write_hashes(hashes), domain)
        return cls(header, index, in_hash, archive_root, hashes, signature, txs, signed, domain)

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
        domain: SigningDomain | None = None,
    ) -> Self:
        """``signature``: r 32 | s 32 | v 1."""
        hashes = tuple(tx_hashes)
        content = header.to_buffer() + _u32(index) + in_hash + archive_root + write_hashes(hashes)
        signed = _content(_BLOCK, content, domain)
        return cls(header, index, in_hash, archive_root, hashes, wire_signature(signature), txs, signed, domain)

    def to_buffer(self) -> bytes:
        return b"".join(
            (
                self.header.to_buffer(),
                _u32(self.index),
                self.in_hash,
                self.archive_root,
                self.signature,
                _write_domain(self.domain),
                write_hashes(self.tx_hashes),
                _u32(0) if self.txs is None else self.txs.to_buffer(),
            )
        )

    @property
    def slot(self) -> int:
        return self.header.global_variables.slot_number

    @property
    def identity(self) -> bytes:
        """Bytes by which two proposals for one position are the same: the archive root; from 5.x on all that is
        signed."""
        return self.archive_root if self.domain is None else keccak_256(self.signed)

    @property
    def signatures(self) -> tuple[bytes, ...]:
        """Each that it has, 68 bytes."""
        return (self.signature,) if self.txs is None else (self.signature, self.txs.signature)

    @property
    def digest(self) -> bytes:
        """Digest that the proposer signs."""
        return _digest(_BLOCK, self.signed, self.domain)

    def signer(self) -> bytes | None:
        """Address of who has proposed it; None if its signature is none, or that of its transactions another's, or for
        another rollup."""
        signer = _signer(_BLOCK, self.signed, self.signature, self.domain)
        if self.txs is None:
            return signer
        return signer if self.txs.domain == self.domain and self.txs.signer() == signer else None


@dataclass(frozen=True, slots=True)
class CheckpointProposal:
    header: CheckpointHeader
    archive_root: bytes
    fee_asset_price_modifier: int
    signature: bytes
    #: The last block of the checkpoint, unless it was announced before.
    last_block: BlockProposal | None
    signed: bytes
    domain: SigningDomain | None = None

    @classmethod
    def from_buffer(cls, buffer: bytes, release: Release) -> Self:
        """DecodeError for anything else."""
        reader = ByteReader(buffer, "checkpoint proposal")
        header_bytes = checkpoint_header_bytes(release)
        header = CheckpointHeader.from_buffer(reader.take(header_bytes))
        archive_root = reader.field()
        modifier = int.from_bytes(reader.take(HASH_BYTES), "big", signed=True)
        signature = reader.take(_SIGNATURE_BYTES)
        domain = _take_domain(reader, release)
        last = None
        if reader.unsigned(4):
            last = _take_last_block(reader, header, archive_root, domain, release)
        signed = _content(_CHECKPOINT, buffer[: header_bytes + 2 * HASH_BYTES], domain)
        return cls(header, archive_root, modifier, signature, last, signed, domain)

    @classmethod
    def of(
        cls,
        header: CheckpointHeader,
        archive_root: bytes,
        fee_asset_price_modifier: int,
        signature: bytes,
        domain: SigningDomain | None = None,
    ) -> Self:
        """Proposal of blocks that were all announced before.  ``signature``: r 32 | s 32 | v 1."""
        content = _checkpoint_content(header, archive_root, fee_asset_price_modifier)
        signed = _content(_CHECKPOINT, content, domain)
        signature = wire_signature(signature)
        return cls(header, archive_root, fee_asset_price_modifier, signature, None, signed, domain)

    def to_buffer(self) -> bytes:
        content = _checkpoint_content(self.header, self.archive_root, self.fee_asset_price_modifier)
        return content + self.signature + _write_domain(self.domain) + self._last_block_buffer()

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

    @property
    def identity(self) -> bytes:
        """See :attr:`BlockProposal.identity`; that of the attestations to it."""
        return _checkpoint_identity(self)

    @property
    def signatures(self) -> tuple[bytes, ...]:
        """Each that it has, 68 bytes."""
        return (self.signature, *(() if self.last_block is None else self.last_block.signatures))

    @property
    def digest(self) -> bytes:
        """Digest that the proposer signs."""
        return _digest(_CHECKPOINT, self.signed, self.domain)

    def signer(self) -> bytes | None:
        """Address of who has proposed it; None if a signature is none, or that of its last block another's."""
        signer = _signer(_CHECKPOINT, self.signed, self.signature, self.domain)
        return None if self.last_block is not None and self.last_block.signer() != signer else signer


def _take_last_block(
    reader: ByteReader,
    header: CheckpointHeader,
    archive_root: bytes,
    domain: SigningDomain | None,
    release: Release,
) -> BlockProposal:
    raw = reader.take(HEADER_BYTES)
    block = BlockHeader.from_buffer(raw)
    index, signature = reader.unsigned(4), reader.take(_SIGNATURE_BYTES)
    hashes = _take_hashes(reader)
    txs = SignedTxs.read_if_there(reader, release)
    signed = _content(_BLOCK, raw + _u32(index) + header.in_hash + archive_root + write_hashes(hashes), domain)
    return BlockProposal(block, index, header.in_hash, archive_root, hashes, signature, txs, signed, domain)


@dataclass(frozen=True, slots=True)
class CheckpointAttestation:
    header: CheckpointHeader
    archive_root: bytes
    fee_asset_price_modifier: int
    signature: bytes
    proposer_signature: bytes
    domain: SigningDomain | None = None

    @classmethod
    def from_buffer(cls, buffer: bytes, release: Release) -> Self:
        """DecodeError for anything else."""
        reader = ByteReader(buffer, "attestation")
        header = CheckpointHeader.from_buffer(reader.take(checkpoint_header_bytes(release)))
        archive_root = reader.field()
        modifier = int.from_bytes(reader.take(HASH_BYTES), "big", signed=True)
        domain = _take_domain(reader, release)
        signature, proposer_signature = reader.take(_SIGNATURE_BYTES), reader.take(_SIGNATURE_BYTES)
        return cls(header, archive_root, modifier, signature, proposer_signature, domain)

    def to_buffer(self) -> bytes:
        content = _checkpoint_content(self.header, self.archive_root, self.fee_asset_price_modifier)
        return content + _write_domain(self.domain) + self.signature + self.proposer_signature

    @property
    def digest(self) -> bytes:
        """Digest of what the attester has signed."""
        return payload_digest(self.header, self.archive_root, self.fee_asset_price_modifier, self.domain)

    @property
    def slot(self) -> int:
        return self.header.slot_number

    @property
    def identity(self) -> bytes:
        """That of the proposal that it attests to."""
        return _checkpoint_identity(self)

    @property
    def signatures(self) -> tuple[bytes, ...]:
        """Each that it has, 68 bytes."""
        return self.signature, self.proposer_signature

    def signer(self) -> bytes | None:
        """Address of the attester; None if the signature is none."""
        digest = attested_digest(self.header, self.digest)
        return _read_signer(digest, self.signature, takes_plain=self.domain is not None)

    def proposer(self) -> bytes | None:
        """Address of who has proposed what is attested; None if that signature is none."""
        content = _checkpoint_content(self.header, self.archive_root, self.fee_asset_price_modifier)
        signed = _content(_CHECKPOINT, content, self.domain)
        return _signer(_CHECKPOINT, signed, self.proposer_signature, self.domain)


def _checkpoint_content(header: CheckpointHeader, archive_root: bytes, modifier: int) -> bytes:
    return header.to_buffer() + archive_root + modifier.to_bytes(HASH_BYTES, "big", signed=True)


def _checkpoint_identity(message: CheckpointProposal | CheckpointAttestation) -> bytes:
    """From 5.x on the hash of what an attester signs, before the domain: ``proposalPayloadHash`` of the interface."""
    if message.domain is None:
        return message.archive_root
    modifier = message.fee_asset_price_modifier.to_bytes(HASH_BYTES, "big", signed=True)
    return keccak_256(message.archive_root + modifier + message.header.hash())


def _take_hashes(reader: ByteReader) -> tuple[bytes, ...]:
    return tuple(reader.field() for _ in range(reader.count(4, _HASHES_MAX, "hashes")))


def _u32(value: int) -> bytes:
    return value.to_bytes(4, "big")
