"""Deadlines for the client of a connection: to send, to take its answers, to go.  Times are the loop's.

What is waited for has one deadline from its beginning on, so that trickling bytes does not extend it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fastnode.http.limits import Limits
from fastnode.http.reader import ReadState

__all__ = ["Patience"]

#: A client that takes its answers more slowly than this in the time to write is cut off.
PROGRESS_BYTES_MIN: Final = 64 * 1024
#: Longest time of sending after the last answer before the client is cut off.
LINGER_S: Final = 2.0
#: Connections are kept a little longer than announced, so that a client that reuses one at the last
#: moment never meets a closing socket.
IDLE_SLACK_S: Final = 2.0

_NEVER: Final = float("inf")
#: Stands for the writing where else stands what is read.
_WRITING: Final = (ReadState.ENDED, -1)


class Patience:
    """``deadline``: when to look whether the client has done what is waited for."""

    __slots__ = ("_awaited", "_limits", "_unsent_then", "_write_deadline", "_written_then", "deadline")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.deadline = _NEVER
        #: Reason of the deadline: the part that is read, and of which request.
        self._awaited: tuple[ReadState, int] | None = None
        # When the writing was looked at last: what was not sent, what had been written; and when it will be next.
        self._unsent_then = self._written_then = 0
        self._write_deadline = _NEVER

    def end(self) -> None:
        """It is not the client that is waited for."""
        self.deadline = _NEVER
        self._awaited = None

    def wait_for_data(self, state: ReadState, begun_count: int, now: Callable[[], float]) -> None:
        """``begun_count`` requests have begun to arrive, and the last one has come so far."""
        awaited = (state, begun_count)
        if awaited == self._awaited:
            return
        self._awaited = awaited
        limits = self._limits
        if state is ReadState.IDLE:
            seconds = limits.idle_time_s + IDLE_SLACK_S
        elif state is ReadState.HEAD:
            seconds = limits.head_time_s
        elif state is ReadState.BODY:
            seconds = limits.body_time_s
        else:
            seconds = 0.0
        self.deadline = now() + seconds

    def note_answered(self, begun_count: int, at: float) -> None:
        """``begun_count`` requests have begun to arrive, and the last one was answered at that time."""
        self._awaited = (ReadState.IDLE, begun_count)
        self.deadline = at + self._limits.idle_time_s + IDLE_SLACK_S

    def is_for_taking(self) -> bool:
        """True if the deadline is for taking answers."""
        return self._awaited is _WRITING

    def wait_for_taking(self, now: float, unsent: int, written: int) -> None:
        """Begin a period in which the client has to take something of ``unsent`` bytes, and of what is written beside
        the ``written`` that there were."""
        self._awaited = _WRITING
        self._unsent_then, self._written_then = unsent, written
        self._write_deadline = self.deadline = now + self._limits.write_time_s

    def is_taking(self, now: float, unsent: int, written: int) -> bool:
        """False for a client that has hardly taken anything since the period began, once that is over."""
        if now < self._write_deadline:
            return True
        if self._unsent_then + written - self._written_then - unsent < PROGRESS_BYTES_MIN:
            return False
        self.wait_for_taking(now, unsent, written)
        return True

    def linger(self, now: float) -> None:
        """The client has its last answer, and a moment to go."""
        self.deadline = now + LINGER_S
