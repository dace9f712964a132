"""Waits of a starting node: shown by the probes at once, logged every ten seconds."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias, TypeVar

from fastnode.app.ground.service_manager import notify
from fastnode.log import log_facts
from fastnode.status_page.starting import StartReport

__all__ = ["Interruption", "StartWait"]

logger = logging.getLogger("fastnode.app")

T = TypeVar("T")

LINE_INTERVAL_S: Final = 10.0
#: A service manager gives up on a start that does not ask for more time.
_MORE_TIME: Final = f"EXTEND_TIMEOUT_USEC={int(3 * LINE_INTERVAL_S * 1e6)}"


#: How much of how much is done; None: that is unknown.
Progress: TypeAlias = Callable[[], tuple[int, int] | None]


def _unknown() -> None:
    return None


class Interruption:
    """Ends what a thread waits for.  Usable from any thread."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._actions: list[Callable[[], object]] = []

    def is_set(self) -> bool:
        return self._event.is_set()

    def set(self) -> None:
        self._event.set()
        for action in tuple(self._actions):
            action()

    @contextmanager
    def calls(self, action: Callable[[], object]) -> Iterator[None]:
        """Inside this context an interruption calls ``action``."""
        self._actions.append(action)
        try:
            if self.is_set():
                action()
            yield
        finally:
            self._actions.remove(action)


def _never() -> bool:
    return False


class StartWait:
    """``what`` is set by the part of the start that waits; it follows the words "waits for".

    ``stage`` counts the stages that are complete, ``progress`` is how much of how much the part that waits has done.
    """

    def __init__(self) -> None:
        self.what: Callable[[], str] = lambda: "its databases"
        #: True while the part that waits logs each change itself, as its wait may take days.
        self.is_quiet: Callable[[], bool] = _never
        self.progress: Progress = _unknown
        self.stage = 0
        self.interruption = Interruption()
        self._since = time.monotonic()

    def reason(self) -> str:
        return self.what()

    def report(self) -> StartReport:
        """State of the start for people."""
        return StartReport(self.stage, self.reason(), self._seconds(), self.progress())

    def elapsed_s(self) -> float:
        """Time since the node began to start."""
        return time.monotonic() - self._since

    def _seconds(self) -> int:
        return round(self.elapsed_s())

    @contextmanager
    def waiting_for(
        self, what: Callable[[], str], is_quiet: Callable[[], bool] = _never, progress: Progress = _unknown
    ) -> Iterator[None]:
        before = self.what, self.is_quiet, self.progress
        self.what, self.is_quiet, self.progress = what, is_quiet, progress
        try:
            yield
        finally:
            self.what, self.is_quiet, self.progress = before

    async def in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        """Run what may wait for long.  When cancelled, interrupt it and return only after it has ended."""
        task = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self.interruption.set()
            await asyncio.gather(task, return_exceptions=True)
            raise

    async def tell(self) -> None:
        """Log a line every ten seconds, unless the wait is quiet; never returns."""
        while True:
            await asyncio.sleep(LINE_INTERVAL_S)
            what, seconds = self.reason(), self._seconds()
            if not self.is_quiet():
                logger.info("still starting", extra=log_facts(waiting_for=what, seconds=seconds))
            notify(f"{_MORE_TIME}\nSTATUS=waiting for {what}".encode("ascii", "replace").decode())
