"""Outcomes of the newest slots, and of all since the start: for status reports, metrics and troubles."""

from __future__ import annotations

import enum
import threading
import time
from collections import Counter, deque
from typing import Any, Final

from fastnode.records import dataclass

__all__ = ["SlotOutcome", "SlotRecord"]

#: Slots that are kept one by one.
KEPT_MAX: Final = 64
#: Slots in a row after which missing them is trouble.
MISSED_MAX: Final = 2


class SlotOutcome(enum.StrEnum):
    PROPOSED = "proposed"
    #: It was this node's, and its checkpoint is not on L1.
    MISSED = "missed"
    #: Another node of the same validator has it.
    YIELDED = "yielded"
    #: There was nothing to build a checkpoint of.
    EMPTY = "empty"
    #: The proposer is another validator.
    OTHERS = "others"
    #: A fisherman has built a checkpoint that L1 would take, and sent nothing.
    BUILT = "built"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slot:
    slot: int
    outcome: SlotOutcome
    reason: str | None
    checkpoint: int | None
    blocks: int
    txs: int
    seconds: float
    at: float

    def describe(self) -> dict[str, Any]:
        return {
            "slot": self.slot,
            "outcome": str(self.outcome),
            "reason": self.reason,
            "checkpoint": self.checkpoint,
            "blocks": self.blocks,
            "txs": self.txs,
            "seconds": round(self.seconds, 3),
            "at": int(self.at),
        }


class SlotRecord:
    """Written by the proposer's thread, read by any.  Slots that passed unnoticed are noted after later ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: deque[_Slot] = deque(maxlen=KEPT_MAX)
        self.counts: Counter[str] = Counter()
        self.blocks = self.txs = 0
        self._missed_in_a_row = 0

    def note(
        self,
        slot: int,
        outcome: SlotOutcome,
        reason: str | None = None,
        *,
        checkpoint: int | None = None,
        blocks: int = 0,
        txs: int = 0,
        seconds: float = 0.0,
    ) -> None:
        """``seconds``: from the first look at the slot until its end was known."""
        entry = _Slot(
            slot=slot,
            outcome=outcome,
            reason=reason,
            checkpoint=checkpoint,
            blocks=blocks,
            txs=txs,
            seconds=seconds,
            at=time.time(),
        )
        with self._lock:
            is_late = bool(self._newest) and slot < self._newest[-1].slot
            self._insert(entry)
            self.counts[str(outcome)] += 1
            if outcome is SlotOutcome.PROPOSED:
                self.blocks += blocks
                self.txs += txs
            if is_late:
                # It counts where the later ones were missed too.
                self._missed_in_a_row += outcome is SlotOutcome.MISSED and self._missed_in_a_row > 0
            elif outcome is SlotOutcome.MISSED:
                self._missed_in_a_row += 1
            elif outcome is not SlotOutcome.OTHERS:
                self._missed_in_a_row = 0

    def _insert(self, entry: _Slot) -> None:
        if len(self._newest) == KEPT_MAX and entry.slot < self._newest[0].slot:
            return
        later = []
        while self._newest and self._newest[-1].slot > entry.slot:
            later.append(self._newest.pop())
        self._newest.append(entry)
        self._newest.extend(reversed(later))

    @property
    def trouble(self) -> str | None:
        """Reason that the last slots of this node were missed; None while they are not."""
        with self._lock:
            if self._missed_in_a_row < MISSED_MAX:
                return None
            newest = next(item for item in reversed(self._newest) if item.outcome is SlotOutcome.MISSED)
            return f"the last {self._missed_in_a_row} slots were missed; slot {newest.slot}: {newest.reason}"

    def describe(self) -> dict[str, Any]:
        with self._lock:
            return {
                "slots": {str(outcome): self.counts[str(outcome)] for outcome in SlotOutcome},
                "blocks": self.blocks,
                "txs": self.txs,
                "newest": [item.describe() for item in reversed(self._newest)],
            }
