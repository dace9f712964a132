"""When to try again what L1 did not allow.

A pass that failed would fail again, and ask the provider again each time: blobs that no place has, logs that come late,
a malformed checkpoint.  So it is repeated when L1 or the stored chain has moved, and otherwise with growing pauses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from fastnode.records import dataclass

__all__ = ["PassRetries", "forget_frames"]

PAUSE_MAX_S: Final = 8.0


@dataclass(slots=True)
class _Failure:
    error: Exception
    situation: Hashable
    pause_s: float
    again_at: float


class PassRetries:
    """``first_s``: the first pause in seconds, doubled each time; ``clock``: any that goes on."""

    def __init__(self, first_s: float, clock: Callable[[], float]) -> None:
        self._first_s = first_s
        self._clock = clock
        self._failure: _Failure | None = None

    def check(self, situation: Hashable) -> None:
        """Raise the last error again while the pass must not be repeated."""
        failure = self._failure
        if failure is not None and failure.situation == situation and self._clock() < failure.again_at:
            raise failure.error

    def on_failure(self, error: Exception, situation: Hashable) -> None:
        """Begin a pause; none for an error that :meth:`check` has repeated, or that was noted already."""
        before, now = self._failure, self._clock()
        pause = self._first_s
        if before is not None and before.situation == situation:
            if before.error is error and now < before.again_at:
                return
            pause = min(2 * before.pause_s, PAUSE_MAX_S)
        self._failure = _Failure(error, situation, pause, now + pause)

    def on_success(self) -> None:
        self._failure = None

    @property
    def error(self) -> Exception | None:
        """The last one, unless a pass was made since."""
        return None if self._failure is None else self._failure.error


def forget_frames(error: BaseException | None) -> None:
    """Keep an error without the frames that it passed: they hold views, and these the databases open."""
    while error is not None and error.__traceback__ is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
