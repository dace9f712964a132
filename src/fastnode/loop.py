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
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final

__all__ = ["Loop", "Setbacks"]

logger = logging.getLogger("fastnode.loop")

#: Pauses after the first and after many exceptions, in seconds: a source that behaves again is soon read again.
FIRST_S: Final = 0.25
LONGEST_S: Final = 5.0
_DOUBLINGS_MAX: Final = 16


class Setbacks:
    """Exceptions that nobody expected, of work that is repeated.  ``what`` says what is not done because of them.

    Each is logged with its traceback when it is another one than before, or when the work has gone well in between.
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
        on_error: Callable[[], None] = lambda: None,
        first_s: float = FIRST_S,
        longest_s: float = LONGEST_S,
    ) -> None:
        self._name = name
        self._step = step
        self._what = what
        self._on_error = on_error
        self._setbacks = Setbacks(what, first_s=first_s, longest_s=longest_s)
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        #: A thread is not alive yet while it is being started; its first step may ask before ``start`` returns.
        self._is_started = False

    def start(self) -> None:
        """Once, and not after an interruption."""
        if not self._stopping.is_set():
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
            self._is_started = True

    def wake(self) -> None:
        """Begin the next step now; one that is under way is followed by another.  A growing pause is not cut short."""
        self._woken.set()

    def interrupt(self) -> None:
        self._stopping.set()
        self._woken.set()

    def close(self) -> None:
        """May be called more than once."""
        self.interrupt()
        self.join(None)

    def join(self, timeout_s: float | None) -> None:
        """Wait for its end, after :meth:`interrupt`."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def trouble(self) -> str | None:
        """Reason why the work is not done; None while it is done, or not asked for."""
        thread = self._thread
        if thread is None or not self._is_started or self._stopping.is_set():
            return None
        return self._setbacks.reason if thread.is_alive() else f"{self._what}: its thread has ended"

    def _run(self) -> None:
        self._is_started = True
        while not self._stopping.is_set():
            self._woken.clear()
            try:
                pause = self._step()
                self._setbacks.end()
            except BaseException as error:  # noqa: BLE001 - logged and counted; nobody else would hear of it
                self._back_off(error)
            else:
                if not self._stopping.is_set():
                    self._woken.wait(pause)

    def _back_off(self, error: BaseException) -> None:
        if self._stopping.is_set():
            return
        pause = self._setbacks.note(error)
        try:
            self._on_error()
        except Exception:
            logger.exception(self._what)
        self._stopping.wait(pause)
