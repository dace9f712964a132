"""Work that is done again and again in a thread of its own, and goes on whatever happens in it.

loop = Loop("fastnode-heartbeat", self._write, what="this node does not tell the fleet how it is")
loop.start()
loop.wake()          # the next step begins now
loop.interrupt()     # no further step
loop.close()         # the same, and waits for the step that is under way
loop.trouble         # for /readyz and /status

                        ┌────────── its pause is over, or wake() ──────────┐
                        ▼                                                  │
    start() ──────► a step ──────── returns its pause ────────────────► waiting
                        │ ▲                                                │
     it raises anything │ │ the growing pause is over                      │ interrupt(), from any state
                        ▼ │                                                ▼
                    backed off, and says so                             stopped

A step answers for what it expects of those whom it reads, and says that itself.  Everything else that it raises is a
bug, or an input that nobody has thought of: it must not end the thread, and must not look healthy.

A loop waits by a :class:`Clock`, and its owner reads the same one; tests give one that stands until they move it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final

from fastnode.errors import DatabaseUnreadable
from fastnode.log import log_facts

__all__ = ["CLOCK", "Clock", "Loop", "Setbacks"]

logger = logging.getLogger("fastnode.loop")

#: Pauses after the first and after many exceptions, in seconds: a source that behaves again is soon read again.
FIRST_S: Final = 0.25
LONGEST_S: Final = 5.0
_DOUBLINGS_MAX: Final = 16


class Clock:
    """Time in seconds, and waiting for it to pass."""

    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def wait(self, changed: threading.Condition, until: float | None) -> None:
        """Return when ``changed``, which is held, is notified or :meth:`monotonic` gives ``until``; perhaps before."""
        changed.wait(None if until is None else max(0.0, until - time.monotonic()))

    def wait_for(self, changed: threading.Condition, is_so: Callable[[], bool], seconds: float | None) -> bool:
        """As that of a condition, which is held; False: it is not so when the seconds are over."""
        until = None if seconds is None else self.monotonic() + seconds
        while not (found := is_so()) and (until is None or self.monotonic() < until):
            self.wait(changed, until)
        return found


CLOCK: Final = Clock()


class Setbacks:
    """Exceptions that nobody expected, of work that is repeated.  ``what`` says what is not done because of them.

    Each is logged with its traceback when it is another one than before, or when the work has gone well in between; a
    database that cannot be read has told of itself already, so only its reason is.
    """

    def __init__(self, what: str, *, first_s: float = FIRST_S, longest_s: float = LONGEST_S) -> None:
        self._what = what
        self._first_s = first_s
        self._longest_s = longest_s
        self._in_a_row = 0
        self._last: tuple[type[BaseException], str, int] | None = None
        #: Since the start.
        self.count = 0
        #: Work that is not done, and the kind of error that prevents it; None while it goes well.  Clients may see it,
        #: so it has nothing of the error's own text.
        self.reason: str | None = None

    def note(self, error: BaseException) -> float:
        """Returns for how long to rest, in seconds."""
        self.count += 1
        self.reason = f"{self._what}: {type(error).__name__}; the log has the cause"
        place = (type(error), *_place_of(error.__traceback__))
        if place != self._last:
            self._last = place
            if isinstance(error, DatabaseUnreadable):
                logger.error(self._what, extra=log_facts(reason=str(error)))
            else:
                logger.error(self._what, exc_info=(type(error), error, error.__traceback__))
        pause: float = min(self._first_s * 2 ** min(self._in_a_row, _DOUBLINGS_MAX), self._longest_s)
        self._in_a_row += 1
        return pause

    def end(self) -> None:
        """The work has gone well."""
        if self.reason is not None:
            self._in_a_row, self._last, self.reason = 0, None, None


def _place_of(trace: TracebackType | None) -> tuple[str, int]:
    """File and line where it was raised."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return ("", 0) if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)


class Loop:
    """``step`` returns how long to wait until the next one, in seconds; None: until it is woken.

    ``on_error`` is called in the thread after an exception, so that the next step begins with nothing half done.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], float | None],
        *,
        what: str,
        clock: Clock = CLOCK,
        on_error: Callable[[], None] = lambda: None,
        first_s: float = FIRST_S,
        longest_s: float = LONGEST_S,
    ) -> None:
        self.clock = clock
        self._name = name
        self._step = step
        self._what = what
        self._on_error = on_error
        self._setbacks = Setbacks(what, first_s=first_s, longest_s=longest_s)
        self._changed = threading.Condition()
        self._is_woken = False
        self.is_stopping = False
        self._thread: threading.Thread | None = None
        #: A thread is not alive yet while it is being started; its first step may ask before ``start`` returns.
        self._is_started = False

    def start(self) -> None:
        """Once, and not after an interruption."""
        if not self.is_stopping:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
            self._is_started = True

    def wake(self) -> None:
        """Begin the next step now; one that is under way is followed by another.  A growing pause is not cut short."""
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    def interrupt(self) -> None:
        with self._changed:
            self.is_stopping = True
            self._changed.notify_all()

    def rest(self, seconds: float, *, until_woken: bool = False) -> bool:
        """Wait within a step; False: it is to end.  A wake that ends the rest does not begin another step."""
        self._wait(seconds, for_news=until_woken)
        if until_woken:
            self._is_woken = False
        return not self.is_stopping

    def close(self) -> None:
        """May be called more than once."""
        self.interrupt()
        self.join(None)

    def join(self, timeout_s: float | None) -> None:
        """Wait for its end, after :meth:`interrupt`."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    @property
    def trouble(self) -> str | None:
        """Reason why the work is not done; None while it is done, or not asked for."""
        thread = self._thread
        if thread is None or not self._is_started or self.is_stopping:
            return None
        return self._setbacks.reason if thread.is_alive() else f"{self._what}: its thread has ended"

    def _run(self) -> None:
        self._is_started = True
        while not self.is_stopping:
            self._is_woken = False
            try:
                pause = self._step()
                self._setbacks.end()
            except BaseException as error:  # noqa: BLE001 - logged and counted; nobody else would hear of it
                self._back_off(error)
            else:
                self._wait(pause, for_news=True)

    def _wait(self, seconds: float | None, *, for_news: bool) -> None:
        with self._changed:
            self.clock.wait_for(self._changed, lambda: self.is_stopping or (for_news and self._is_woken), seconds)

    def _back_off(self, error: BaseException) -> None:
        if self.is_stopping:
            return
        pause = self._setbacks.note(error)
        try:
            self._on_error()
        except Exception:
            logger.exception(self._what)
        self.rest(pause)
