"""The newest slot that this node has signed something for, kept over restarts.

A validator that signs two proposals of one slot is slashed.  A node that was killed between its signature and the end
of the slot would build another block when it is back: it leaves the slot alone instead.
"""

from __future__ import annotations

from pathlib import Path

from fastnode.errors import SlotLost
from fastnode.files import replace_file

__all__ = ["SlotGuard"]


class SlotGuard:
    """``path`` None: nothing is kept.  Used by one thread."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.newest = _read(path)

    def enter(self, slot: int) -> None:
        """Durable when it returns.  SlotLost when the slot was entered before, or that cannot be written down."""
        if slot <= self.newest:
            raise SlotLost("this node has begun it before a restart: what was signed then is not signed again")
        if self._path is not None:
            try:
                replace_file(self._path, b"%d\n" % slot)
            except OSError as error:
                raise SlotLost(f"the slot cannot be written down in {self._path}: {error.strerror}") from None
        self.newest = slot


def _read(path: Path | None) -> int:
    """-1: none."""
    try:
        return -1 if path is None else int(path.read_text())
    except FileNotFoundError:
        return -1
    except ValueError:
        # Half a line is not left by a crash; somebody has changed the file.
        return -1
