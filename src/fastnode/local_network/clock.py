"""The time of a local network: the clock on the wall, moved or held by the developer.

A block is in the slot that the clock is in, and always in a later one than the block before it: time never goes
back, and several blocks a second are possible.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, Self

from fastnode.errors import ValueRefused
from fastnode.records import dataclass

__all__ = ["ChainClock", "ChainTime", "SlotTime"]

#: Largest time that is accepted: in the year 9892, as later ones have no date of four digits.
TIMESTAMP_MAX: Final = 250_000_000_000
#: Slots are stored as u32.  So many stay free for the blocks that follow the largest time.
_SLOT_MAX: Final = (1 << 32) - 1
_SLOTS_RESERVED: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class SlotTime:
    """Slots of one length since the genesis time; all in whole seconds."""

    genesis_time: int
    slot_duration: int

    def slot_at(self, timestamp: int) -> int:
        """The slot that the time is in; 0 before the first."""
        return max(0, timestamp - self.genesis_time) // self.slot_duration

    def slot_from(self, timestamp: int) -> int:
        """The first slot that does not begin before the time."""
        return -(-max(0, timestamp - self.genesis_time) // self.slot_duration)

    def start_of(self, slot: int) -> int:
        return self.genesis_time + slot * self.slot_duration

    @property
    def latest(self) -> int:
        """The largest time that the clock may be set to."""
        return min(TIMESTAMP_MAX, self.start_of(_SLOT_MAX - _SLOTS_RESERVED))


@dataclass(slots=True)
class ChainTime:
    """Changes of the clock, as they are stored and restored."""

    #: Seconds that the clock is ahead of the wall.
    offset: int = 0
    #: The next block's time, if it was set; rounded up to a slot.
    next_timestamp: int | None = None
    #: Seconds between blocks instead of the clock.
    interval: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {"offset": self.offset, "nextTimestamp": self.next_timestamp, "interval": self.interval}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """ValueError for times that no clock is set to."""
        found = cls(record.get("offset", 0), record.get("nextTimestamp"), record.get("interval"))
        for name, value, lowest in (
            ("offset", found.offset, -TIMESTAMP_MAX),
            ("nextTimestamp", found.next_timestamp, 0),
            ("interval", found.interval, 0),
        ):
            if value is None and name != "offset":
                continue
            if type(value) is not int or not lowest <= value <= TIMESTAMP_MAX:
                raise ValueError(f"time.{name} must be a whole number from {lowest} to {TIMESTAMP_MAX}, got {value!r}")
        return found


class ChainClock:
    """Says which slot the next block is in.  ``tip`` gives (slot, timestamp) of the newest block, 0 in both for none.

    Changed by one thread at a time; may be read by any.
    """

    def __init__(
        self, slots: SlotTime, tip: Callable[[], tuple[int, int]], *, wall: Callable[[], float] = time.time
    ) -> None:
        self.slots = slots
        self.time = ChainTime()
        self._tip = tip
        self._wall = wall

    def now(self) -> int:
        """Never before the newest block."""
        return max(int(self._wall()) + self.time.offset, self._tip()[1])

    def next_slot(self) -> int:
        """The slot of a block that is built now: at least 1, and after that of the newest block."""
        slot, timestamp = self._tip()
        changes = self.time
        if changes.next_timestamp is not None:
            wanted = self.slots.slot_from(changes.next_timestamp)
        elif changes.interval is not None and slot:
            wanted = self.slots.slot_from(timestamp + changes.interval)
        else:
            wanted = self.slots.slot_at(int(self._wall()) + changes.offset)
        return max(min(wanted, self.slots.slot_at(self.slots.latest)), slot + 1, 1)

    def next_timestamp(self) -> int:
        return self.slots.start_of(self.next_slot())

    def follow(self, timestamp: int) -> None:
        """Move on to the time of another clock, if that is ahead."""
        self.time.offset = max(self.time.offset, timestamp - int(self._wall()))

    def on_block(self, timestamp: int) -> None:
        """A block was built: a time that was set for it has been used, and the clock goes on from there."""
        if self.time.next_timestamp is not None:
            self.time.next_timestamp = None
            self.follow(timestamp)

    # ---- changes -----------------------------------------------------------------------------

    def advance(self, seconds: int) -> int:
        """Move the clock on; returns how far it is ahead of the wall now.  ValueRefused for what goes back."""
        if seconds < 0:
            raise ValueRefused("Invalid params: seconds must not be negative: the time of a chain never goes back")
        self._require_reachable(self.now() + seconds)
        # From where the chain is: blocks may have run ahead of the clock.
        self.set(self.now() + seconds)
        return self.time.offset

    def set(self, timestamp: int) -> None:
        """Let it be this time now."""
        self._require_later(timestamp, self._tip()[1])
        self.time.offset = timestamp - int(self._wall())
        self.time.next_timestamp = None

    def set_next(self, timestamp: int) -> None:
        """Let the next block be of this time, or of the slot that begins next after it."""
        self._require_later(timestamp, self._tip()[1] + 1)
        self.time.next_timestamp = timestamp

    def set_interval(self, seconds: int | None) -> None:
        """Let each block be so many seconds after the one before it; None: let the clock decide again."""
        if seconds is not None:
            self._require_reachable(self._tip()[1] + seconds)
        self.time.interval = seconds

    def _require_later(self, timestamp: int, minimum: int) -> None:
        self._require_reachable(timestamp)
        if timestamp < minimum:
            raise ValueRefused(f"Timestamp error: {timestamp} is lower than previous block's timestamp")

    def _require_reachable(self, timestamp: int) -> None:
        if timestamp > self.slots.latest:
            raise ValueRefused(
                f"Timestamp error: {timestamp} is above {self.slots.latest}, the latest time of this network"
            )
