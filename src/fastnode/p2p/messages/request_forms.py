"""Parts of requests and answers: numbers are big-endian, lists behind their u32 count.

    StatusMessage   u32 length | V | u32 latest block | u32 length | its hash as 0x text | u32 finalized block
    tx              request: list of hashes; answer: list of transactions
    block_txs       request: archive root 32 | list of hashes | bits
                    answer: archive root 32 | list of transactions | bits
                    from 5.x on
                    request: archive root 32 | bits | SHA-256 over the hashes of all of the block 32 | list of hashes
                    answer: list of transactions | bits (none: the block is not known, or its hashes are others)
    auth            request: StatusMessage | challenge 32
                    answer: StatusMessage | signature r 32, s 32, v u32, of "Aztec Validator Challenge:" and the
                    challenge as 0x text; nothing for who is not answered
    bits            u32 count | ceil(count / 8) bytes; bit i is mask 1 << i % 8 of byte i / 8

Everything here is from somebody else: DecodeError says what does not fit.  Where a message ends is not looked at, and a
flag is true unless it is 0: so do published nodes read, which forward such a message, and who has it from them must not
pay for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, Self

from fastnode.errors import DecodeError
from fastnode.protocol.reader import ByteReader
from fastnode.protocol.releases import Release
from fastnode.protocol.tx import CLASS_LOG_BYTES, proof_bytes
from fastnode.records import dataclass

__all__ = [
    "AuthRequest",
    "AuthResponse",
    "BlockTxsRequest",
    "BlockTxsResponse",
    "StatusMessage",
    "commitment_to",
    "read_hashes",
    "read_tx",
    "read_txs",
    "write_hashes",
    "write_txs",
]

HASH_BYTES: Final = 32
#: Lengths of V and of a block hash as text.
_TEXT_BYTES_MAX: Final = 200
#: Transactions of a block that a message may name: a request has 64 KiB.
TXS_MAX: Final = 2048
#: Transactions that a proposal may list, and so bits of a request that an honest node makes of it.
_BITS_MAX: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class StatusMessage:
    """State of a peer's chain.  Only ``version`` decides anything."""

    version: str
    latest_block: int = 0
    latest_block_hash: str = ""
    finalized_block: int = 0

    def to_buffer(self) -> bytes:
        version, block_hash = self.version.encode(), self.latest_block_hash.encode()
        return b"".join(
            (
                _u32(len(version)),
                version,
                _u32(self.latest_block),
                _u32(len(block_hash)),
                block_hash,
                _u32(self.finalized_block),
            )
        )

    @classmethod
    def from_buffer(cls, buffer: bytes) -> Self:
        reader = ByteReader(buffer, "status")
        return cls.take(reader)

    @classmethod
    def take(cls, reader: ByteReader) -> Self:
        """From where it stands in front of other things."""
        return cls(_text(reader), reader.unsigned(4), _text(reader), reader.unsigned(4))


def _text(reader: ByteReader) -> str:
    try:
        return reader.take(reader.count(4, _TEXT_BYTES_MAX, "bytes of text")).decode("ascii")
    except UnicodeDecodeError:
        raise DecodeError("status: a text is not ASCII") from None


@dataclass(frozen=True, slots=True)
class AuthRequest:
    """Challenge to prove that one has a validator's key."""

    status: StatusMessage
    challenge: bytes

    @property
    def signed(self) -> bytes:
        """Bytes that the answer is a signature of: a personal message over their hash."""
        return b"Aztec Validator Challenge:0x" + self.challenge.hex().encode()

    @classmethod
    def from_buffer(cls, buffer: bytes) -> Self:
        reader = ByteReader(buffer, "auth request")
        return cls(StatusMessage.take(reader), reader.take(HASH_BYTES))


@dataclass(frozen=True, slots=True)
class AuthResponse:
    status: StatusMessage
    signature: bytes

    def to_buffer(self) -> bytes:
        return self.status.to_buffer() + self.signature


# ---- lists ---------------------------------------------------------------------------------------


def write_hashes(hashes: Sequence[bytes]) -> bytes:
    return _u32(len(hashes)) + b"".join(hashes)


def read_hashes(buffer: bytes) -> list[bytes]:
    return _hashes(ByteReader(buffer, "tx request"))


def _hashes(reader: ByteReader) -> list[bytes]:
    return [reader.take(HASH_BYTES) for _ in range(reader.count(4, TXS_MAX, "hashes"))]


def write_txs(txs: Sequence[bytes]) -> bytes:
    """``txs`` in their binary form."""
    return _u32(len(txs)) + b"".join(txs)


def read_txs(buffer: bytes, release: Release) -> list[bytes]:
    """Transactions in their binary form; where each ends is all that is looked at."""
    return take_txs(ByteReader(buffer, "txs"), release)


def read_tx(buffer: bytes, release: Release) -> bytes:
    """The transaction that stands in front, in its binary form."""
    return _take_tx(ByteReader(buffer, "tx"), release)


def take_txs(reader: ByteReader, release: Release) -> list[bytes]:
    return [_take_tx(reader, release) for _ in range(reader.count(4, TXS_MAX, "transactions"))]


def _take_tx(reader: ByteReader, release: Release) -> bytes:
    """See Tx.from_buffer, whose form this is."""
    tx_hash, flag = reader.field(), reader.take(1)
    size = release.tx_layout.data_bytes(public=flag != b"\0")
    parts = [tx_hash, flag, reader.take(size - 1), reader.take(4)]
    parts.append(reader.take(proof_bytes(int.from_bytes(parts[-1], "big"), release, "tx")))
    count = reader.take(1)
    parts += [count, reader.take(count[0] * CLASS_LOG_BYTES)]
    count = reader.take(1)
    parts.append(count)
    for _ in range(count[0]):
        fields = reader.take(4)
        parts += [fields, reader.take((int.from_bytes(fields, "big") + 1) * HASH_BYTES)]
    return b"".join(parts)


def _write_bits(bits: Sequence[bool]) -> bytes:
    packed = bytearray((len(bits) + 7) // 8)
    for index, bit in enumerate(bits):
        if bit:
            packed[index // 8] |= 1 << index % 8
    return _u32(len(bits)) + bytes(packed)


def _read_bits(reader: ByteReader) -> tuple[bool, ...]:
    count = reader.count(4, _BITS_MAX, "bits")
    packed = reader.take((count + 7) // 8)
    return tuple(bool(packed[index // 8] & 1 << index % 8) for index in range(count))


# ---- transactions of a block ---------------------------------------------------------------------


def commitment_to(tx_hashes: Iterable[bytes]) -> bytes:
    """Hash (32 bytes) by which two nodes know that they mean the same transactions of a block."""
    return hashlib.sha256(b"".join(tx_hashes)).digest()


@dataclass(frozen=True, slots=True)
class BlockTxsRequest:
    """``wanted``: by their places in the block; ``hashes`` for who does not know the block.  ``commitment``: to all
    transactions of the block, from 5.x on; else empty."""

    archive_root: bytes
    hashes: tuple[bytes, ...]
    wanted: tuple[bool, ...]
    commitment: bytes = b""

    @classmethod
    def of(cls, archive_root: bytes, hashes: Sequence[bytes], missing: Iterable[bytes], release: Release) -> Self:
        """For what is missing of a block's transactions."""
        lacking = set(missing)
        wanted = tuple(tx_hash in lacking for tx_hash in hashes)
        if not release.messages.commits_to_txs:
            return cls(archive_root, (), wanted)
        by_hash = tuple(tx_hash for tx_hash in dict.fromkeys(hashes) if tx_hash in lacking)
        return cls(archive_root, by_hash, wanted, commitment_to(hashes))

    def to_buffer(self) -> bytes:
        if self.commitment:
            return self.archive_root + _write_bits(self.wanted) + self.commitment + write_hashes(self.hashes)
        return self.archive_root + write_hashes(self.hashes) + _write_bits(self.wanted)

    @classmethod
    def from_buffer(cls, buffer: bytes, release: Release) -> Self:
        reader = ByteReader(buffer, "block_txs request")
        archive_root = reader.take(HASH_BYTES)
        if not release.messages.commits_to_txs:
            return cls(archive_root, tuple(_hashes(reader)), _read_bits(reader))
        wanted, commitment = _read_bits(reader), reader.take(HASH_BYTES)
        return cls(archive_root, tuple(_hashes(reader)), wanted, commitment)


@dataclass(frozen=True, slots=True)
class BlockTxsResponse:
    """``held``: which of the block's transactions the peer has.  ``archive_root``: of the block; empty from 5.x on,
    where the answer does not say it."""

    archive_root: bytes
    txs: tuple[bytes, ...]
    held: tuple[bool, ...]

    def to_buffer(self) -> bytes:
        return self.archive_root + write_txs(self.txs) + _write_bits(self.held)

    @classmethod
    def from_buffer(cls, buffer: bytes, release: Release) -> Self:
        reader = ByteReader(buffer, "block_txs")
        archive_root = b"" if release.messages.commits_to_txs else reader.take(HASH_BYTES)
        return cls(archive_root, tuple(take_txs(reader, release)), _read_bits(reader))


def _u32(value: int) -> bytes:
    return value.to_bytes(4, "big")
