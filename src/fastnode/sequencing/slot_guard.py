"""The newest slot that this node has signed something for, kept over restarts.

    <number> <CRC-32 of the number's digits, hexadecimal>      one line; an older node left the number alone

A validator that signs two proposals of one slot is slashed.  A node that was killed between its signature and the end
of the slot would build another block when it is back: it leaves the slot alone instead.  So it does without a file
with a slot that had begun before it started: the file may have gone with the directory in which it was.
"""

from __future__ import annotations

import errno
import re
import zlib
from pathlib import Path
from typing import Final

from fastnode.errors import DataDirectoryError, SlotLost
from fastnode.files import replace_file
from fastnode.loop import CLOCK, Clock
from fastnode.storage.database import has_room

__all__ = ["SlotGuard"]

_LINE: Final = re.compile(rb"([0-9]{1,20})(?: ([0-9a-f]{8}))?\n")


class SlotGuard:
    """``path`` None: nothing is kept.  Used by one thread.  DataDirectoryError: the file does not say which slot."""

    def __init__(self, path: Path | None, *, clock: Clock = CLOCK) -> None:
        self._path = path
        self._clock = clock
        self._began_at = clock.monotonic()
        self._refusal: OSError | None = None
        self.newest = _read(path)

    @property
    def fault(self) -> str | None:
        """Reason that nothing is signed: the last slot could not be written down, and the disk is as it was then."""
        refusal = self._refusal
        if refusal is None or self._path is None:
            return None
        if refusal.errno == errno.ENOSPC and has_room(self._path.parent):
            self._refusal = None
            return None
        return f"nothing is signed, as {self._path} cannot be written: {refusal.strerror}"

    def enter(self, slot: int, elapsed_s: float) -> None:
        """Durable when it returns.  SlotLost when the slot was entered before, or may have been, or that cannot be
        written down.  ``elapsed_s``: since the slot's first messages could be signed."""
        if slot <= self.newest:
            raise SlotLost("this node has begun it before a restart: what was signed then is not signed again")
        if self._path is not None and self.newest < 0 and elapsed_s > self._clock.monotonic() - self._began_at:
            raise SlotLost(
                "it had begun before this node, which has no record of what it has signed: it may have signed for it "
                "before its data were removed"
            )
        if self._path is not None:
            try:
                digits = b"%d" % slot
                replace_file(self._path, b"%s %08x\n" % (digits, zlib.crc32(digits)))
                self._refusal = None
            except OSError as error:
                self._refusal = error
                raise SlotLost(f"the slot cannot be written down in {self._path}: {error.strerror}") from None
        self.newest = slot


def _read(path: Path | None) -> int:
    """-1: none."""
    try:
        found = None if path is None else _LINE.fullmatch(path.read_bytes())
    except FileNotFoundError:
        return -1
    except OSError as error:
        raise DataDirectoryError(f"{path} cannot be read: {error.strerror}") from None
    if path is None:
        return -1
    # Half a line is not left by a crash.  To go on as if nothing had been signed may cost the validator its stake.
    if found is None or (found[2] is not None and int(found[2], 16) != zlib.crc32(found[1])):
        raise DataDirectoryError(
            f"{path} is damaged: it does not say for which slot this node has signed last. Remove it when that slot is "
            "over: a slot that is over cannot be signed for again"
        )
    return int(found[1])
