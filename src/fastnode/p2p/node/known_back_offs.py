"""Until when which peer may not be grafted, from one run to the next: ``p2p-back-offs`` in the data directory.

Who has pruned this node remembers it: a GRAFT before the time is held against it, and the time begins again.  One line
each: seconds since 1970, a peer id, a topic.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from fastnode.files import put_file

__all__ = ["BACK_OFFS_FILE", "KnownBackOffs"]

logger = logging.getLogger(__name__)

#: In the data directory.
BACK_OFFS_FILE: Final = "p2p-back-offs"

#: Lines for a hundred peers in all topics.
_LINES_MAX: Final = 400
_FILE_BYTES_MAX: Final = 256 << 10


class KnownBackOffs:
    """Back-offs of topics and peers, in seconds that remain.  ``folder`` None: nothing is kept."""

    def __init__(self, folder: Path | None, now: Callable[[], float] = time.time) -> None:
        self._file = None if folder is None else folder / BACK_OFFS_FILE
        self._now = now
        self._written: frozenset[tuple[str, str]] = frozenset()

    def load(self) -> dict[tuple[str, str], float]:
        """Back-offs in the file that are not over; lines that make no sense are left out."""
        if self._file is None or not self._file.exists():
            return {}
        found, now = dict[tuple[str, str], float](), self._now()
        try:
            with self._file.open(encoding="ascii") as opened:
                lines = opened.read(_FILE_BYTES_MAX).splitlines()
        except (OSError, ValueError) as error:
            logger.warning("%s cannot be read: %s", self._file, error)
            return found
        for line in lines[:_LINES_MAX]:
            parts = line.split(" ")
            if len(parts) == 3 and parts[0].isdigit() and int(parts[0]) > now:
                found[parts[2], parts[1]] = int(parts[0]) - now
        return found

    def save(self, remaining_s: Mapping[tuple[str, str], float]) -> None:
        """No-op while they are those that were written last.

        For event loops: no disk is waited for.  What a power cut takes costs no more than grafts that are refused.
        """
        if self._file is None or self._written == remaining_s.keys():
            return
        longest = sorted(remaining_s.items(), key=lambda item: -item[1])[:_LINES_MAX]
        now = self._now()
        # Rounded up, so that none ends too early.
        text = "".join(f"{int(now + seconds) + 1} {peer} {topic}\n" for (topic, peer), seconds in longest)
        try:
            put_file(self._file, text.encode("ascii"), is_synced=False)
            self._written = frozenset(remaining_s)
        except OSError as error:
            logger.warning("%s cannot be written: %s", self._file, error)
