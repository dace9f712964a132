"""When the next block of L1 is due.

L1 makes a block every 12 seconds, and most slots have one.  A node that asks when the next one is due asks 7,200 times
a day, one that asks every second twelve times as often.  How long after its time a block can be seen depends on the
provider, and is learned: a question that came too early makes the next ones come later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["BlockSchedule"]

#: By which a question that came too early delays the next ones, in seconds; and by which one in time brings it back.
DELAY_STEP_S: Final = 0.5
RETURN_STEP_S: Final = 0.01
#: Questions after one that came too early, each later than the one before; then the slot counts as missed.
LATE_QUESTIONS_MAX: Final = 2
LATENESS_FACTOR: Final = 1.5
#: Slots without a block after which nothing is known of the times of L1.
MISSED_SLOTS_MAX: Final = 16


class BlockSchedule:
    """Times in seconds.  ``interval_s`` between two questions where blocks come at no regular times; ``clock`` gives
    seconds since 1970."""

    def __init__(self, interval_s: float, *, waits_for_blocks: bool, clock: Callable[[], float]) -> None:
        self._interval_s = interval_s
        self._waits_for_blocks = waits_for_blocks
        self._clock = clock
        self._newest = (0, 0)  # number, time
        self._is_regular = False
        self._delay_s = DELAY_STEP_S
        self._early_count = 0

    def expected_timestamp(self, slot_duration: int) -> int:
        """Timestamp of the next block, as far as those before it tell."""
        timestamp = self._newest[1]
        return timestamp + slot_duration if self._is_regular else max(timestamp, int(self._clock()))

    def note(self, number: int, timestamp: int, slot_duration: int) -> None:
        """A block was seen, perhaps the same again."""
        if (number, timestamp) == self._newest:
            return
        elapsed = timestamp - self._newest[1]
        self._is_regular = elapsed > 0 and elapsed % slot_duration == 0
        self._newest = (number, timestamp)
        # Clocks differ: what matters is how old a block is, by our clock, when it can be seen.
        age = self._clock() - timestamp
        if age < self._delay_s or age > self._delay_s + slot_duration:
            self._delay_s = age
        elif self._early_count == 0:
            self._delay_s -= RETURN_STEP_S

    def seconds_until_next(self, slot_duration: int) -> float:
        """Until the question after the one that was asked just now; no longer than a slot of L1."""
        now = self._clock()
        due = self._newest[1] + slot_duration + self._delay_s
        # Without regular times there is nothing to wait for.
        if not self._waits_for_blocks or not self._is_regular or now > due + MISSED_SLOTS_MAX * slot_duration:
            return self._interval_s
        if now < due:
            self._early_count = 0
            return min(due - now, slot_duration)
        if self._early_count == 0:
            self._delay_s += DELAY_STEP_S
        self._early_count += 1
        if self._early_count <= LATE_QUESTIONS_MAX:
            return self._interval_s * LATENESS_FACTOR**self._early_count
        return slot_duration - (now - due) % slot_duration
