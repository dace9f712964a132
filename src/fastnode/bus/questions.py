"""Questions to the bus that many ask at once: few under way together, and one at a time about each thing.

Who asks while a question about the same thing is under way shares the next one: an answer is never older than the
question, and a flood of one question is one question after the other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from fastnode.errors import UpstreamUnavailable

__all__ = ["Questions"]

T = TypeVar("T")


class _Question(Generic[T]):
    __slots__ = ("answers", "error", "following", "is_over")

    def __init__(self) -> None:
        self.is_over = threading.Event()
        #: The answer, once it is there.
        self.answers: list[T] = []
        self.error: BaseException | None = None
        #: The question of those who ask while this one is under way.
        self.following: _Question[T] | None = None


class Questions(Generic[T]):
    """Usable from any thread.  ``at_once`` of them are under way; ``wait_s``: so long one waits for its turn."""

    def __init__(self, ask: Callable[[bytes], T], at_once: int, wait_s: float) -> None:
        self._ask = ask
        self._wait_s = wait_s
        self._turns = threading.BoundedSemaphore(at_once)
        self._lock = threading.Lock()
        self._running: dict[bytes, _Question[T]] = {}

    def __len__(self) -> int:
        """Things that are being asked about."""
        return len(self._running)

    def answer(self, about: bytes) -> T:
        """UpstreamUnavailable when too much is asked at once; errors of ``ask``."""
        with self._lock:
            before = self._running.get(about)
            if before is None:
                mine = self._running[about] = _Question()
                is_first = True
            else:
                is_first = before.following is None
                mine = before.following = before.following or _Question()
        if is_first:
            return self._lead(about, mine, before)
        # The one before it, a turn, and the exchange itself.
        if not mine.is_over.wait(3 * self._wait_s):
            raise UpstreamUnavailable("too many questions to the bus at once")
        if mine.error is not None:
            raise UpstreamUnavailable(str(mine.error)) from mine.error
        return mine.answers[0]

    def _lead(self, about: bytes, mine: _Question[T], before: _Question[T] | None) -> T:
        try:
            if before is not None and not before.is_over.wait(self._wait_s):
                raise UpstreamUnavailable("too many questions to the bus at once")
            if not self._turns.acquire(timeout=self._wait_s):
                raise UpstreamUnavailable("too many questions to the bus at once")
            try:
                mine.answers.append(self._ask(about))
            finally:
                self._turns.release()
            return mine.answers[0]
        except BaseException as error:
            mine.error = error
            raise
        finally:
            with self._lock:
                if before is not None and before.following is mine:
                    before.following = None
                if self._running.get(about) is mine:
                    if mine.following is None:
                        del self._running[about]
                    else:
                        self._running[about] = mine.following
            mine.is_over.set()
