"""Messages of release 5.x as their signers make them, written down byte by byte beside the code that reads them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from coincurve import PrivateKey

from fastnode.p2p.messages.proposals import BlockProposal, CheckpointAttestation, CheckpointProposal
from fastnode.protocol.checkpoint import CheckpointHeader
from fastnode.protocol.ethereum import SigningDomain, keccak_256
from fastnode.protocol.header import BlockHeader

KEY: Final = PrivateKey((7).to_bytes(32, "big"))
OTHER: Final = PrivateKey((8).to_bytes(32, "big"))


def address_of(key: PrivateKey) -> bytes:
    return keccak_256(key.public_key.format(compressed=False)[1:])[-20:]


ADDRESS: Final = address_of(KEY)


def u32(value: int) -> bytes:
    return value.to_bytes(4, "big")


def listed(items: tuple[bytes, ...]) -> bytes:
    return u32(len(items)) + b"".join(items)


def typed(kind: bytes, payload: bytes, domain: SigningDomain) -> bytes:
    """EIP-712, spelled out."""
    fields = b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
    separator = keccak_256(
        keccak_256(fields)
        + keccak_256(b"Aztec Rollup")
        + keccak_256(b"1")
        + domain.chain_id.to_bytes(32, "big")
        + bytes(12)
        + domain.rollup
    )
    content = keccak_256(keccak_256(kind + b"(bytes32 payloadHash)") + keccak_256(payload))
    return keccak_256(b"\x19\x01" + separator + content)


@dataclass(frozen=True)
class Speaker:
    """Somebody with a key.  ``plain``: signatures end with the recovery id itself; ``domain``: of the rollup."""

    domain: SigningDomain
    key: PrivateKey = KEY
    plain: bool = False

    @property
    def in_wire(self) -> bytes:
        return u32(self.domain.chain_id) + self.domain.rollup

    def sign(self, kind: bytes, payload: bytes) -> bytes:
        made = self.key.sign_recoverable(typed(kind, payload, self.domain), hasher=None)
        return bytes(made[:64]) + u32(made[64] + (0 if self.plain else 27))

    def txs(self, txs: tuple[bytes, ...]) -> bytes:
        """Transactions that go with a block."""
        return u32(1) + listed(txs) + self.sign(b"SignedTxs", listed(txs)) + self.in_wire

    def block(
        self,
        header: BlockHeader,
        index: int,
        in_hash: bytes,
        archive_root: bytes,
        hashes: tuple[bytes, ...],
        tail: bytes = bytes(4),
    ) -> bytes:
        content = header.to_buffer() + u32(index) + in_hash + archive_root
        signature = self.sign(b"BlockProposal", content + listed(hashes))
        return content + signature + self.in_wire + listed(hashes) + tail

    def checkpoint(
        self, header: CheckpointHeader, archive_root: bytes, modifier: int = 0, last: bytes = bytes(4)
    ) -> bytes:
        content = header.to_buffer() + archive_root + modifier.to_bytes(32, "big", signed=True)
        return content + self.sign(b"CheckpointProposal", content) + self.in_wire + last

    def last_block(
        self,
        header: BlockHeader,
        index: int,
        checkpoint: CheckpointHeader,
        archive_root: bytes,
        hashes: tuple[bytes, ...],
        tail: bytes = bytes(4),
    ) -> bytes:
        content = header.to_buffer() + u32(index) + checkpoint.in_hash + archive_root + listed(hashes)
        signature = self.sign(b"BlockProposal", content)
        return u32(1) + header.to_buffer() + u32(index) + signature + listed(hashes) + tail

    def attestation(
        self, header: CheckpointHeader, archive_root: bytes, modifier: int = 0, proposer: Speaker | None = None
    ) -> bytes:
        signed = modifier.to_bytes(32, "big", signed=True)
        content = header.to_buffer() + archive_root + signed
        named = (proposer or self).sign(b"CheckpointProposal", content)
        own = self.sign(b"CheckpointAttestation", archive_root + signed + header.hash())
        return content + self.in_wire + own + named


def block_txs_request(
    archive_root: bytes, hashes: tuple[bytes, ...], wanted: set[int], by_hash: tuple[bytes, ...] = ()
) -> bytes:
    bits = bytearray((len(hashes) + 7) // 8)
    for place in wanted:
        bits[place // 8] |= 1 << place % 8
    commitment = hashlib.sha256(b"".join(hashes)).digest()
    return archive_root + u32(len(hashes)) + bytes(bits) + commitment + listed(by_hash)


Message = BlockProposal | CheckpointProposal | CheckpointAttestation
