"""Verdicts of a node about a transaction's proof.

    valid      it was verified and holds
    invalid    it was verified and does not hold
    unknown    this node cannot verify it, now or at all; another node may be able to

A transaction whose proof is unknown is never called invalid: it is handed to a node that can judge it, or it is
refused with the reason.
"""

from __future__ import annotations

import enum
from typing import Final, Protocol, Self

from fastnode.protocol.tx import Tx
from fastnode.records import dataclass

__all__ = ["VALID", "Judgement", "ProofVerifier", "Verdict"]


class Judgement(enum.Enum):
    """Verdict about a proof."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """``reason`` is the sentence that clients read; empty for a valid proof alone."""

    judgement: Judgement
    reason: str = ""

    @classmethod
    def invalid(cls, reason: str) -> Self:
        return cls(Judgement.INVALID, reason)

    @classmethod
    def unknown(cls, reason: str) -> Self:
        return cls(Judgement.UNKNOWN, reason)


#: The proof holds, or the network asks for none.
VALID: Final = Verdict(Judgement.VALID)


class ProofVerifier(Protocol):
    """Judges the proofs of transactions.  Usable from several threads at a time."""

    @property
    def limitation(self) -> str | None:
        """Reason why no proof at all can be judged, for the log, the status and readiness; None if proofs can be."""

    def judge(self, tx: Tx, client: str = "") -> Verdict:
        """The verdict on one transaction.  May block for as long as a proof takes; called in a worker thread.

        ``client``: who asks, so that each has its turn; empty for the node itself.

        A fault of the verifier itself (no process, no memory, no time left) is an unknown proof, never an
        exception and never an invalid one.
        """
