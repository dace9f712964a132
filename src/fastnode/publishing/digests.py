"""Digests that validators sign (32 bytes): each with Ethereum's mark of a message in front (``signed_digest``).

duty                        keccak-256 of
BLOCK_PROPOSAL              u32 0 | block header 440 | u32 index | in hash | archive root | u32 count | tx hashes
CHECKPOINT_PROPOSAL         u32 3 | checkpoint header 316 | archive root | int256 price modifier
ATTESTATION                 ``payload_digest`` of protocol/ethereum.py
ATTESTATIONS_AND_SIGNERS    word 2, attestations, signers, as arguments of a call
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastnode.protocol.checkpoint import CheckpointHeader
from fastnode.protocol.ethereum import keccak_256, payload_digest
from fastnode.protocol.header import BlockHeader
from fastnode.publishing.encoding import addresses, arguments, signed_word, word
from fastnode.publishing.propose import Attestations

__all__ = ["attestation", "attestations_and_signers", "block_proposal", "checkpoint_proposal"]

_U32_BYTES: Final = 4
# Kinds of signed content; the first and the third are numbers of 4 bytes, those that reach L1 are words.
_BLOCK_PROPOSAL: Final = 0
_ATTESTATIONS_AND_SIGNERS: Final = 2
_CHECKPOINT_PROPOSAL: Final = 3


def block_proposal(
    header: BlockHeader, index: int, in_hash: bytes, archive_root: bytes, tx_hashes: Sequence[bytes]
) -> bytes:
    """``index``: the block's place in its checkpoint; ``archive_root``: after the block."""
    return keccak_256(
        _u32(_BLOCK_PROPOSAL)
        + header.to_buffer()
        + _u32(index)
        + in_hash
        + archive_root
        + _u32(len(tx_hashes))
        + b"".join(tx_hashes)
    )


def checkpoint_proposal(header: CheckpointHeader, archive_root: bytes, fee_asset_price_modifier: int = 0) -> bytes:
    return keccak_256(
        _u32(_CHECKPOINT_PROPOSAL) + header.to_buffer() + archive_root + signed_word(fee_asset_price_modifier)
    )


def attestation(header: CheckpointHeader, archive_root: bytes, fee_asset_price_modifier: int = 0) -> bytes:
    return payload_digest(header, archive_root, fee_asset_price_modifier)


def attestations_and_signers(attestations: Attestations, signers: Sequence[bytes]) -> bytes:
    """Digest that keeps others from publishing a proposer's checkpoint with other attestations."""
    return keccak_256(arguments(word(_ATTESTATIONS_AND_SIGNERS), (attestations.encode(),), (addresses(signers),)))


def _u32(value: int) -> bytes:
    return value.to_bytes(_U32_BYTES, "big")
