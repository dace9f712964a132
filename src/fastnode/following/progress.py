"""How far catching up is: a line every few seconds."""

from __future__ import annotations

import logging
import time
from typing import Final

from fastnode.observability.logs import fields

__all__ = ["CatchUpProgress"]

logger = logging.getLogger("fastnode.following")

LINE_INTERVAL_S: Final = 5.0
#: A gap as long as this begins a new measurement.
QUIET_S: Final = 2.0


class CatchUpProgress:
    """``note`` it after every record; says nothing as long as the chain is followed block by block."""

    def __init__(self) -> None:
        self._started_at = self._noted_at = self._next_line_at = 0.0
        self._start = 0

    def note(self, tip: int, source_tip: int) -> None:
        now = time.monotonic()
        if now - self._noted_at > QUIET_S:
            self._started_at, self._start = now, tip
            self._next_line_at = now + LINE_INTERVAL_S
        self._noted_at = now
        if now < self._next_line_at or source_tip <= tip:
            return
        self._next_line_at = now + LINE_INTERVAL_S
        rate = (tip - self._start) / (now - self._started_at)
        lag = source_tip - tip
        eta_s = round(lag / rate) if rate > 0 else None
        facts = fields(tip=tip, of=source_tip, lag=lag, blocks_per_s=round(rate, 1), eta_s=eta_s)
        logger.info("catching up", extra=facts)
