"""Progress of catching up: one line that renews itself on a terminal, a log line every few seconds elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any, Final, TextIO

from fastnode.log import log_facts

__all__ = ["TOLD_BLOCKS_MAX", "CatchUpProgress", "level_of_blocks"]

logger = logging.getLogger("fastnode.following")

LOG_INTERVAL_S: Final = 5.0
TERMINAL_INTERVAL_S: Final = 0.5
#: A gap as long as this begins a new measurement.
QUIET_S: Final = 2.0
#: So many new blocks are logged one by one; of more only the progress is.
TOLD_BLOCKS_MAX: Final = 16
#: Shorter than any line of the log, so that one written over it leaves nothing of it.
WIDTH: Final = 56


def level_of_blocks(lag: int) -> int:
    """The level of the lines about single blocks, when a look at the source finds so many new ones."""
    return logging.INFO if lag <= TOLD_BLOCKS_MAX else logging.DEBUG


class CatchUpProgress:
    """``note`` it after every record; says nothing as long as the chain is followed block by block.

    ``terminal`` None: standard error, if that is one.  ``unit``: what is counted.  After ``quiet_s`` without a note a
    new measurement begins.
    """

    def __init__(self, terminal: TextIO | None = None, *, unit: str = "block", quiet_s: float = QUIET_S) -> None:
        self._unit = unit
        self._quiet_s = quiet_s
        #: Units a second since this measurement began, and seconds until the end; None while nothing is measured.
        self.rate: float | None = None
        self.eta_s: int | None = None
        self._terminal = terminal or (sys.stderr if sys.stderr.isatty() else None)
        self._interval_s = LOG_INTERVAL_S if self._terminal is None else TERMINAL_INTERVAL_S
        self._started_at = self._noted_at = self._next_at = 0.0
        self._start = 0
        self._is_shown = False

    def begin(self, tip: int) -> None:
        """Measure from here what is noted from now on."""
        self._started_at = self._noted_at = time.monotonic()
        self._start = tip
        self._next_at = self._started_at + self._interval_s
        self.rate = self.eta_s = None

    def note(self, tip: int, source_tip: int, **facts: int) -> None:
        """``facts`` are logged beside it."""
        now = time.monotonic()
        if now - self._noted_at > self._quiet_s:
            self.begin(tip)
        self._noted_at = now
        if source_tip <= tip:
            self.rate = self.eta_s = None
            self._wipe()
            return
        elapsed = now - self._started_at
        self.rate = (tip - self._start) / elapsed if elapsed > 0 else None
        self.eta_s = round((source_tip - tip) / self.rate) if self.rate else None
        if now >= self._next_at:
            self._next_at = now + self._interval_s
            self._show(tip, source_tip, self.rate or 0.0, self.eta_s, facts)

    def describe(self) -> dict[str, Any] | None:
        """Rate and time left for status reports; None while nothing is behind."""
        return None if self.rate is None else {f"{self._unit}sPerSecond": round(self.rate, 1), "etaSeconds": self.eta_s}

    def _show(self, tip: int, source_tip: int, rate: float, eta_s: int | None, facts: dict[str, int]) -> None:
        lag = source_tip - tip
        if self._terminal is None:
            speed = {f"{self._unit}s_per_s": round(rate, 1)}
            logger.info("catching up", extra=log_facts(tip=tip, of=source_tip, lag=lag, **facts, **speed, eta_s=eta_s))
            return
        eta = "" if eta_s is None else f", {eta_s // 60}:{eta_s % 60:02} left"
        text = f"{self._unit} {tip} of {source_tip}, {rate:.0f}/s{eta}"
        # The cursor goes back to the start of the line: the next line of the log is written over this one.
        self._terminal.write(f"\r{text[:WIDTH]:{WIDTH}}\r")
        self._terminal.flush()
        self._is_shown = True

    def _wipe(self) -> None:
        if self._is_shown and self._terminal is not None:
            self._terminal.write("\r" + " " * WIDTH + "\r")
            self._terminal.flush()
            self._is_shown = False
