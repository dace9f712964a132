"""Turns on the event loop: no connection holds it for longer than a slice while others wait.

    data arrives -> the loop is not crowded: answer, for a slice at most -> all answered
                 -> crowded, or the slice is over: wait for a turn       -> go on, for a slice at most -> ...

A turn is a function that goes on where the connection stopped.  Turns are given by use (http/fair_queue.py), for a
round's time; then the loop looks for new data, and new data queues with the others.  So a client that asks for little
is answered within about two rounds, for any requests of others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

from fastnode import interpreter
from fastnode.http.fair_queue import FairQueue, Groups
from fastnode.kernels import clock, loop_time

__all__ = ["BUFFER_BYTES", "ROUND_NS", "SLICE_NS", "SMALL_BUFFER_BYTES", "TAKEN_NS_PER_BYTE", "Turns"]

SLICE_NS: Final = 1_000_000
#: In what time all that wait have their turn, about: the more there are, the shorter is a slice, down to the least one,
#: as a turn costs some tens of microseconds beside.
ALL_TURNS_NS: Final = 16_000_000
LEAST_SLICE_NS: Final = 250_000
ROUND_NS: Final = 2_000_000
#: Bytes that are read from a connection at a time: usually, and while others wait.  The loop reads from all that have
#: sent something before it looks at anything else.
BUFFER_BYTES: Final = 64 * 1024
SMALL_BUFFER_BYTES: Final = 4 * 1024
#: Rough cost of a byte of a body: taken over from the system, collected, joined, and freed in the end.
TAKEN_NS_PER_BYTE: Final = 4

Turn: TypeAlias = Callable[[], None]


class Turns:
    """The turns of one event loop; to be used in it alone."""

    def __init__(self, *, slice_ns: int = SLICE_NS, round_ns: int = ROUND_NS) -> None:
        self.time = loop_time.LoopTime(slice_ns, round_ns, self._end_round_later)
        self._slice_ns_max = slice_ns
        #: None: no connection has asked for them.
        self._buffers: tuple[bytearray, bytearray] | None = None
        self._waiting: FairQueue[Turn] = FairQueue()
        #: Groups of parties that share the turns of one address.
        self.groups = Groups()
        self._is_scheduled = False
        self._is_running = False
        #: Give the next party its turn, and note what it waits for again.
        self._served: loop_time.Share | None = None
        self._again: list[Turn] = []

    @property
    def buffers(self) -> tuple[bytearray, bytearray]:
        """A large and a small one of all connections of the loop, each for the moment of a read."""
        if self._buffers is None:
            self._buffers = bytearray(BUFFER_BYTES), bytearray(SMALL_BUFFER_BYTES)
        return self._buffers

    @property
    def waiting_count(self) -> int:
        """Turns that are waited for."""
        return len(self._waiting)

    def wait(self, share: loop_time.Share, turn: Turn, expected_ns: int = 0) -> None:
        """Call ``turn`` when it is this party's turn; it charges what it uses.

        Several turns of one party are ``expected_ns`` apart, which are charged to it now, and to be taken back then.
        """
        if share is self._served:  # its own turn is not charged yet
            self._again.append(turn)
            return
        self._waiting.push(share, turn, expected_ns)
        if not self._is_running:
            self.time.is_crowded = True
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    async def next(self, share: loop_time.Share) -> None:
        """Return when it is this party's turn; a slice is charged."""
        turn = asyncio.get_running_loop().create_future()

        def give() -> None:
            if not turn.done():
                turn.set_result(None)
                self.time.charge(share, self.time.slice_ns)

        self.wait(share, give)
        await turn

    def _run(self) -> None:
        """One round."""
        loop_time_ = self.time
        call_soon = asyncio.get_running_loop().call_soon
        interpreter.LOOP.hold()
        call_soon(interpreter.LOOP.hold)  # for what goes on in tasks that have had their turn
        self._is_running = True
        loop_time_.begin_round()
        if len(self._waiting) * self._slice_ns_max > ALL_TURNS_NS:
            least = min(LEAST_SLICE_NS, self._slice_ns_max)
            loop_time_.slice_ns = max(least, ALL_TURNS_NS // len(self._waiting))
        else:
            loop_time_.slice_ns = self._slice_ns_max
        try:
            while self._waiting and loop_time_.spent_ns < loop_time_.round_ns:
                loop_time_.is_crowded = False
                self._give_turn()
        finally:
            self._is_running = False
            self._is_scheduled = loop_time_.is_crowded = len(self._waiting) > 0
            interpreter.LOOP.let_go()
            call_soon(interpreter.LOOP.let_go)
            interpreter.LOOP.end_round(is_crowded=self._is_scheduled)
            if self._is_scheduled:
                call_soon(self._run)
            else:
                loop_time_.slice_ns = self._slice_ns_max

    def _give_turn(self) -> None:
        self._served, turn = self._waiting.pop()
        share = self._served
        try:
            turn()
        finally:
            self._served = None
            for turn in self._again:
                self._waiting.push(share, turn)
            self._again.clear()

    def _end_round_later(self) -> None:
        """Before the loop looks for new data again, which it does when it has answered all that it found.

        Its own clock does not tell: that of uvloop goes on while the loop works.
        """
        asyncio.get_running_loop().call_soon(self._end_round)

    def _end_round(self) -> None:
        self.time.begin_round()
        self.time.is_crowded = len(self._waiting) > 0

    def elapsed_s(self, since_ns: int) -> float:
        """Seconds since a moment of the clock that the kernels read."""
        return (clock.now_ns() - since_ns) / 1e9
