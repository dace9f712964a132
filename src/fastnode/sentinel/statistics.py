"""Statistics of a validator from the history of its statuses.

status of the proposer       checkpoint-mined, checkpoint-proposed, checkpoint-missed, blocks-missed
status of all others         attestation-sent, attestation-missed; nothing without a checkpoint
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from fastnode.records import dataclass

__all__ = ["History", "SlotTime", "Status", "count_missed", "describe_validator"]


class Status(enum.StrEnum):
    CHECKPOINT_MINED = "checkpoint-mined"
    CHECKPOINT_PROPOSED = "checkpoint-proposed"
    CHECKPOINT_MISSED = "checkpoint-missed"
    BLOCKS_MISSED = "blocks-missed"
    ATTESTATION_SENT = "attestation-sent"
    ATTESTATION_MISSED = "attestation-missed"


_PROPOSED = frozenset((Status.CHECKPOINT_MINED, Status.CHECKPOINT_PROPOSED))
_NOT_PROPOSED = frozenset((Status.CHECKPOINT_MISSED, Status.BLOCKS_MISSED))
_SENT = frozenset((Status.ATTESTATION_SENT,))
_NOT_SENT = frozenset((Status.ATTESTATION_MISSED,))

#: Slots, ascending, and what a validator did in each.
History = Sequence[tuple[int, Status]]


@dataclass(frozen=True, slots=True)
class SlotTime:
    """``genesis``: the timestamp of slot 0 in seconds; ``duration``: seconds per slot."""

    genesis: int
    duration: int

    def of(self, slot: int) -> int:
        return self.genesis + slot * self.duration

    def slot_at(self, timestamp: float) -> int:
        """The slot of a moment; below 0 before the first."""
        return int((timestamp - self.genesis) // self.duration)


def describe_validator(address: bytes, history: History, time: SlotTime) -> dict[str, Any]:
    """ValidatorStats of wire/types: counts, rates, streaks and last deeds over ``history``."""
    return {
        "address": f"0x{address.hex()}",
        **_last("lastProposal", history, _PROPOSED.__contains__, time),
        **_last("lastAttestation", history, _SENT.__contains__, time),
        "totalSlots": len(history),
        "missedProposals": _missed(history, _PROPOSED, _NOT_PROPOSED),
        "missedAttestations": _missed(history, _SENT, _NOT_SENT),
        "history": [{"slot": slot, "status": str(status)} for slot, status in history],
    }


def count_missed(history: History) -> tuple[int, int]:
    """Duties missed, and duties in all: proposals and attestations together."""
    missed = sum(status in _NOT_PROPOSED or status in _NOT_SENT for _, status in history)
    return missed, len(history)


def _last(name: str, history: History, is_one: Callable[[Status], bool], time: SlotTime) -> dict[str, Any]:
    slot = next((slot for slot, status in reversed(history) if is_one(status)), None)
    if slot is None:
        return {}
    timestamp = time.of(slot)
    date = datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return {name: {"timestamp": str(timestamp), "slot": slot, "date": date}}


def _missed(history: History, done: frozenset[Status], missed: frozenset[Status]) -> dict[str, Any]:
    duties = [status in missed for _, status in history if status in done or status in missed]
    count, total = sum(duties), len(duties)
    streak = next((length for length, was_missed in enumerate(reversed(duties)) if not was_missed), total)
    rate = {"rate": count / total} if total else {}
    return {"currentStreak": streak, **rate, "count": count, "total": total}
