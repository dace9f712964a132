"""What a proposer asks of the rooms that sign and publish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fastnode.ha.duty import DutyType
from fastnode.publishing.propose import InvalidateCall, ProposeCall
from fastnode.records import dataclass

__all__ = ["CheckpointPublisher", "Published", "SigningDoor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A transaction that L1 has; ``fee`` in wei."""

    block_number: int
    tx_hash: str
    fee: int


class SigningDoor(Protocol):
    """Keys, and what keeps them from signing twice."""

    def attesters(self) -> Sequence[bytes]:
        """Addresses whose keys are here now."""

    def coinbase_of(self, attester: bytes | None) -> bytes: ...

    def fee_recipient_of(self, attester: bytes | None) -> bytes: ...

    def sign(
        self,
        attester: bytes,
        duty: DutyType,
        message: bytes,
        *,
        slot: int,
        block_number: int = 0,
        block_index: int | None = None,
    ) -> bytes:
        """r 32 | s 32 | v 1 over a message of 32 bytes.

        DutyError when another node has, or may have, signed this duty; HaDatabaseError and SigningError when it cannot
        be signed now.
        """


class CheckpointPublisher(Protocol):
    def warm_up(self) -> None: ...

    def ready(self, attester: bytes | None) -> None:
        """SlotLost when no account could pay for a transaction of this validator now."""

    def unsigned(self) -> bytes:
        """In place of the proposer's signature where there is no committee."""

    def propose(
        self,
        call: ProposeCall,
        blobs: Sequence[bytes],
        *,
        slot: int,
        checkpoint: int,
        attester: bytes | None,
        at: int,
        not_after: int,
        invalidation: InvalidateCall | None = None,
        proven: int = 0,
    ) -> Published:
        """Returns when L1 has the checkpoint; SlotLost, with the reason, when it will not have it.

        Times are those of L1.  ``at``: the next block's; ``not_after``: what is not in a block by then is cancelled;
        ``proven``: the newest proven checkpoint.
        """

    def invalidate(self, call: InvalidateCall) -> Published: ...
