"""The last lines of the log, kept in memory for the status page."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from fastnode.log import one_line

__all__ = ["LINES_MAX", "LogLine", "LogTail"]

#: Lines that are kept.
LINES_MAX: Final = 200
#: Longest text of a line that is kept.
TEXT_MAX: Final = 600


class LogLine(NamedTuple):
    """``number`` counts the lines of this process from 1; ``time`` is in seconds since 1970."""

    number: int
    time: float
    level: str
    logger: str
    text: str


class LogTail(logging.Handler):
    """Takes what the log takes, without tracebacks, and forgets all but the last lines.

    Written from any thread, read from any thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[LogLine] = deque(maxlen=LINES_MAX)
        self._count = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = one_line(record)
        except (TypeError, ValueError):
            self.handleError(record)  # a message that does not fit its arguments
            return
        if record.exc_info and record.exc_info[0] is not None:  # a caller may say False
            text += f"  ({record.exc_info[0].__name__})"
        if len(text) > TEXT_MAX:
            text = text[:TEXT_MAX] + "..."
        # One thread at a time: logging holds the handler's lock.
        self._count += 1
        self._lines.append(LogLine(self._count, record.created, record.levelname.lower(), record.name, text))

    @contextmanager
    def attached(self) -> Iterator[None]:
        """While this lasts, take what every part of the node logs."""
        logger = logging.getLogger("fastnode")
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)

    def lines_after(self, number: int) -> list[LogLine]:
        """Lines after the one of this number, as far as it is still kept; oldest first."""
        self.acquire()
        try:
            return [line for line in self._lines if line.number > number]
        finally:
            self.release()
