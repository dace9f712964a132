"""Proposals and attestations of the newest slots that were heard and handed on, for those who ask what was said.

A slot has the few checkpoints and blocks at a position that are handed on, and one attestation of each member of its
committee, the first; transactions that came with a block are left out.  The oldest slot goes when there are too many,
too many bytes, or no memory for them.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from dataclasses import field, replace
from typing import Any, Final

import orjson

from fastnode.errors import PeerFault
from fastnode.p2p.messages.proposals import BlockProposal, CheckpointAttestation, CheckpointProposal
from fastnode.p2p.transport.limits import Budget, PeerMemory
from fastnode.protocol.ethereum import with_recovery_byte
from fastnode.protocol.fields import hex_text
from fastnode.records import dataclass

__all__ = ["BYTES_MAX", "SLOTS_MAX", "HeardMessages"]

SLOTS_MAX: Final = 64
BYTES_MAX: Final = 8 << 20
#: Blocks and checkpoints of a slot that one answer may have, as clients of 5.x read it.
_PROPOSALS_MAX: Final = 256
#: Bytes of the objects around a message, at most.
_OVERHEAD_BYTES: Final = 2048

_Message = BlockProposal | CheckpointProposal | CheckpointAttestation


@dataclass(slots=True)
class _Slot:
    """Proposals in their binary form, blocks with their places in the checkpoint; attestations by their signers."""

    blocks: list[tuple[int, bytes]] = field(default_factory=list)
    checkpoints: list[bytes] = field(default_factory=list)
    attestations: dict[bytes, CheckpointAttestation] = field(default_factory=dict)
    held_bytes: int = 0


class HeardMessages:
    """Usable from any thread."""

    def __init__(self, budget: Budget) -> None:
        self._slots: dict[int, _Slot] = {}
        self._lock = threading.Lock()
        self._memory = PeerMemory(budget)

    @property
    def held_bytes(self) -> int:
        return self._memory.held_bytes

    def keep(self, message: _Message, signer: bytes) -> None:
        """A message that was judged right, and is new."""
        with self._lock:
            self._put(self._slots.setdefault(message.slot, _Slot()), message, signer)
            while not self._hold():
                del self._slots[min(self._slots)]

    def _hold(self) -> bool:
        """True if what is there may stay."""
        size = sum(slot.held_bytes for slot in self._slots.values())
        if len(self._slots) > SLOTS_MAX or size > BYTES_MAX:
            return False
        try:
            self._memory.hold(size)
        except PeerFault:
            return False
        return True

    def _put(self, slot: _Slot, message: _Message, signer: bytes) -> None:
        if isinstance(message, CheckpointAttestation):
            if signer not in slot.attestations:
                slot.attestations[signer] = message
                slot.held_bytes += len(message.to_buffer()) + _OVERHEAD_BYTES
            return
        if len(slot.blocks if isinstance(message, BlockProposal) else slot.checkpoints) >= _PROPOSALS_MAX:
            return
        if isinstance(message, BlockProposal):
            buffer = replace(message, txs=None).to_buffer()
            slot.blocks.append((message.index, buffer))
        else:
            buffer = replace(message, last_block=None).to_buffer()
            slot.checkpoints.append(buffer)
        slot.held_bytes += len(buffer) + _OVERHEAD_BYTES

    def of(self, slot: int, payload_hash: bytes | None) -> tuple[bytes, bytes]:
        """Attestations and proposals of a slot as JSON.  ``payload_hash``: only attestations to the checkpoint whose
        signed payload has this hash."""
        with self._lock:
            found = self._slots.get(slot) or _Slot()
            blocks, checkpoints = sorted(found.blocks), sorted(found.checkpoints)
            attestations = [found.attestations[signer] for signer in sorted(found.attestations)]
        proposals = {
            "blockProposals": [_base64(buffer) for _, buffer in blocks],
            "checkpointProposals": list(map(_base64, checkpoints)),
        }
        return orjson.dumps(list(_described(attestations, payload_hash))), orjson.dumps(proposals)

    def close(self) -> None:
        with self._lock:
            self._slots.clear()
            self._memory.release()


def _described(attestations: list[CheckpointAttestation], payload_hash: bytes | None) -> Iterator[dict[str, Any]]:
    for attestation in attestations:
        domain = attestation.domain
        if domain is None or (payload_hash is not None and attestation.identity != payload_hash):
            continue
        yield {
            "payload": {
                "header": attestation.header.to_json(),
                "archive": hex_text(attestation.archive_root),
                "feeAssetPriceModifier": str(attestation.fee_asset_price_modifier),
                "signatureContext": {"chainId": domain.chain_id, "rollupAddress": hex_text(domain.rollup)},
            },
            "signature": _signature(attestation.signature),
            "proposerSignature": _signature(attestation.proposer_signature),
        }


def _base64(buffer: bytes) -> str:
    return base64.b64encode(buffer).decode()


def _signature(signature: bytes) -> str:
    """A signature of 68 bytes as JSON has it."""
    return hex_text(with_recovery_byte(signature[:64] + signature[-1:]))
