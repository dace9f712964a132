"""Attestations of other nodes, as they come from peers, for the proposer that waits for them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fastnode.p2p.messages.proposals import CheckpointAttestation

__all__ = ["AttestationPool"]

#: Proposals whose attestations are kept: one proposer makes at most two for a slot.
_PROPOSALS_MAX: Final = 16


class AttestationPool:
    """Usable from any thread.  Who has attested is judged before, so there are no more than a committee has members."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._signatures: OrderedDict[bytes, dict[bytes, bytes]] = OrderedDict()  # by what is signed, then by signer

    def add(self, attestation: CheckpointAttestation) -> None:
        attester = attestation.signer()
        if attester is None:
            return
        signature = attestation.signature
        with self._changed:
            known = self._signatures.setdefault(attestation.digest, {})
            known.setdefault(attester, signature[:64] + signature[-1:])
            while len(self._signatures) > _PROPOSALS_MAX:
                self._signatures.popitem(last=False)
            self._changed.notify_all()

    def of(self, digest: bytes) -> dict[bytes, bytes]:
        """Signatures (r 32 | s 32 | v 1) by their signers."""
        with self._changed:
            return dict(self._signatures.get(digest, {}))

    def wait(self, timeout_s: float) -> None:
        """Until one more has come, or the time is over."""
        with self._changed:
            self._changed.wait(timeout_s)
