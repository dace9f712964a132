"""Pace at which a followed node is asked for something new.

A look costs the other node a tenth of a millisecond, and a new block is seen half a rest late on average.  So while
blocks come the rest is short, in proportion to how long the other node takes to answer; where none has come for some
slots it is as long as the operator allows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from fastnode.records import dataclass

__all__ = ["USUAL_SLOT_S", "PollPace"]

#: A rest lasts this many times as long as a look: a far or a busy node is asked less often.
RESTS_PER_LOOK: Final = 5
#: Weight of a new measurement in the mean.
WEIGHT: Final = 0.2
#: The chain counts as moving for so many slots after a block.
MOVING_SLOTS: Final = 3
#: Seconds of a slot in networks whose constants do not name it.
USUAL_SLOT_S: Final = 72.0


@dataclass(slots=True)
class PollPace:
    """Times in seconds; ``shortest_s`` and ``longest_s`` bound the rest, the second goes first."""

    longest_s: float = 0.5
    shortest_s: float = 0.05
    slot_s: float = USUAL_SLOT_S
    now: Callable[[], float] = time.monotonic
    look_s: float = 0.0
    #: Until when the chain counts as moving.
    moving_until: float | None = None

    def on_look(self, seconds: float, *, has_blocks: bool) -> None:
        """A look that found everything in order; one that fetched blocks says nothing about how long looks take."""
        if has_blocks or self.moving_until is None:
            self.moving_until = self.now() + MOVING_SLOTS * self.slot_s
        if not has_blocks:
            self.look_s = seconds if self.look_s == 0.0 else self.look_s + WEIGHT * (seconds - self.look_s)

    def rest_s(self) -> float:
        """Until the next look."""
        if self.moving_until is None or self.now() > self.moving_until:
            return self.longest_s
        return min(self.longest_s, max(self.shortest_s, RESTS_PER_LOOK * self.look_s))
