"""Slots that passed without an attempt to propose: L1 was silent, the node was paused, or an earlier slot lasted long.

Passed slots in which this node was the proposer are recorded as missed, with the reason.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

from fastnode.log import log_facts
from fastnode.sequencing.record import SlotOutcome, SlotRecord
from fastnode.sequencing.turns import is_hatch_open, read_proposers
from fastnode.sources.l1.rollup import RollupFacts

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.sources.l1.endpoints import L1Endpoint
    from fastnode.sources.l1.service import L1Reader

__all__ = ["PassedSlots"]

logger = logging.getLogger(__name__)

#: Slots of one range that are recorded one by one, and reasons that are retained.  Earlier slots are logged together.
SLOTS_MAX: Final = 1_024


class PassedSlots:
    """Slots without an attempt, until the own ones among them are recorded.  Used by the proposer's thread.

    ``validators``: addresses whose keys sign; ``chain``: the current view.
    """

    def __init__(
        self,
        reader: L1Reader,
        validators: Callable[[], Collection[bytes]],
        chain: Callable[[], ChainView],
        record: SlotRecord,
    ) -> None:
        self._reader = reader
        self._validators = validators
        self._chain = chain
        self._record = record
        #: Ranges that are not recorded yet, oldest first.
        self._ranges: deque[range] = deque()
        #: The last reason for no attempt, by slot.
        self._reasons: dict[int, str] = {}

    def note_reason(self, slot: int, reason: str) -> None:
        """Retain the reason that no attempt is made at this slot now."""
        self._reasons[slot] = reason
        while len(self._reasons) > SLOTS_MAX:
            del self._reasons[next(iter(self._reasons))]

    def add(self, slots: range) -> None:
        """Add slots that passed since the last attempt, which was at the slot before them."""
        self._ranges.append(slots)

    def record_oldest(self) -> None:
        """Record the own slots of the oldest range.

        UpstreamError, DecodeError, SlotLost, DatabaseError: nothing is recorded; call it again.
        """
        if not self._ranges:
            return
        slots = self._ranges[0]
        own = self._own(slots[-SLOTS_MAX:])
        chain = self._chain()
        published = {slot for slot in own if chain.checkpoint_number_by_slot(slot) is not None}
        self._ranges.popleft()
        for slot in own:
            if slot in published:
                self._note(slot, SlotOutcome.YIELDED, "another node of its proposer published its checkpoint")
            else:
                busy = f"this node was busy with slot {slots[0] - 1} until it was over"
                self._note(slot, SlotOutcome.MISSED, self._reasons.get(slot, busy))
        if len(slots) > SLOTS_MAX:
            shown = log_facts(slots=len(slots) - SLOTS_MAX, first=slots[0])
            logger.warning("slots passed without an attempt", extra=shown)
        self._reasons = {slot: reason for slot, reason in self._reasons.items() if slot > slots[-1]}

    def _note(self, slot: int, outcome: SlotOutcome, reason: str) -> None:
        self._record.note(slot, outcome, reason)
        level = logging.WARNING if outcome is SlotOutcome.MISSED else logging.INFO
        logger.log(level, "slot", extra=log_facts(slot=slot, outcome=str(outcome), reason=reason))

    def _own(self, slots: Sequence[int]) -> list[int]:
        """Return the slots in which this node was to propose.  UpstreamError, DecodeError."""
        facts, _ = self._reader.seen()
        validators = set(self._validators())

        def read(endpoint: L1Endpoint) -> list[int]:
            proposers = read_proposers(endpoint, facts, slots)
            own = [slot for slot, proposer in proposers.items() if proposer is None or proposer in validators]
            return _without_open_hatch(endpoint, facts, own)

        return self._reader.run(read)


def _without_open_hatch(endpoint: L1Endpoint, facts: RollupFacts, slots: Sequence[int]) -> list[int]:
    """Return the slots without those of epochs in which the escape hatch was open."""
    epochs = {slot // facts.epoch_duration: slot for slot in slots}
    open_epochs = {epoch for epoch, slot in epochs.items() if is_hatch_open(endpoint, facts, slot)}
    return [slot for slot in slots if slot // facts.epoch_duration not in open_epochs]
