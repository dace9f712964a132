"""The memory of one trace, counted while it grows: what is recorded, and the JSON that is made of it.

    room = TraceRoom(text_bytes_max=context.bytes_left, memory=context.allowance)
    room.add(text=2_000, memory=1_500)       # False: there is no room, and the trace is truncated
    room.close()                             # gives the memory back

A text is needed twice, in pieces and joined, so it counts twice against the memory.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final, Protocol, Self

from fastnode.errors import NodeBusy

__all__ = ["MEMORY_BYTES_MAX", "TEXT_BYTES_MAX", "Memory", "TraceRoom"]

#: JSON of one answer with traces.
TEXT_BYTES_MAX: Final = 16 << 20
#: Objects that a trace consists of, beside that JSON.
MEMORY_BYTES_MAX: Final = 24 << 20
#: Memory is taken from the budget in pieces of this size.
_PIECE_BYTES: Final = 1 << 20


class Memory(Protocol):
    """The share of a request in the memory budget of the node."""

    def take(self, count: int) -> None:
        """NodeBusy if there is too little."""

    def release(self, count: int) -> None:
        """Give back part of what was taken."""


class TraceRoom:
    """Used by one thread.  Once there was too little room, nothing more is recorded (``is_full``)."""

    def __init__(self, text_bytes_max: int = TEXT_BYTES_MAX, memory: Memory | None = None) -> None:
        self._text_left = min(TEXT_BYTES_MAX, text_bytes_max)
        self._memory_left = MEMORY_BYTES_MAX
        self._memory = memory
        self._taken = 0
        self._used = 0
        self.is_full = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def add(self, text: int = 0, memory: int = 0) -> bool:
        """Count bytes of JSON and of memory; False, and nothing is counted from then on, if that is too much."""
        if self.is_full or text > self._text_left or memory > self._memory_left or not self._take(2 * text + memory):
            self.is_full = True
            return False
        self._text_left -= text
        self._memory_left -= memory
        return True

    def mark(self) -> tuple[int, int, int]:
        """State to come back to with :meth:`settle`."""
        return self._text_left, self._memory_left, self._used

    def settle(self, mark: tuple[int, int, int], text: int) -> None:
        """So much JSON is left of all that was counted since ``mark``: a trace is written, and another may follow."""
        text_left, self._memory_left, used = mark
        self._text_left, self._used = max(0, text_left - text), used + 2 * text
        self.is_full = False

    def _take(self, count: int) -> bool:
        self._used += count
        missing = self._used - self._taken
        if self._memory is None or missing <= 0:
            return True
        piece = -(-missing // _PIECE_BYTES) * _PIECE_BYTES
        try:
            self._memory.take(piece)
        except NodeBusy:
            return False
        self._taken += piece
        return True

    def close(self) -> None:
        """Give the memory back: the answer is counted as any is.  May be called more than once."""
        if self._memory is not None:
            self._memory.release(self._taken)
        self._taken = self._used = 0
