"""Room for the answers of other servers: less for one that waits, or is used, beside many others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

from fastnode.errors import AnswerTooLarge
from fastnode.records import dataclass

__all__ = ["AnswerRoom", "LargeOnesByTurns", "ahead_of_use", "room_here"]

T = TypeVar("T")

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class AnswerRoom:
    """For one answer of several at a time, as it comes, and with its values."""

    response_bytes_max: int
    memory_bytes_max: int


#: Room for an answer that is fetched ahead of its use; two wait at a time.
_AHEAD: Final = AnswerRoom(8 * _MIB, 16 * _MIB)
#: Room for an answer of a usual size, nine full blobs say; sixteen are used at a time.
_USUAL: Final = AnswerRoom(5 * _MIB // 2, 11 * _MIB // 2)
_ROOM: ContextVar[AnswerRoom | None] = ContextVar("_ROOM", default=None)


def room_here() -> AnswerRoom | None:
    """Room for answers to the caller; None: as much as the client may take."""
    return _ROOM.get()


@contextmanager
def ahead_of_use() -> Iterator[None]:
    """Limit answers meanwhile, as they wait for their use beside others: AnswerTooLarge unless one is of a usual size.
    So of answers that are as large as they may be there is one at a time."""
    with _within(_AHEAD):
        yield


@contextmanager
def _within(room: AnswerRoom | None) -> Iterator[None]:
    token = _ROOM.set(room)
    try:
        yield
    finally:
        _ROOM.reset(token)


class LargeOnesByTurns:
    """Answers of a usual size are asked for and used by many threads at a time, larger ones by one.

    Usable from any thread.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()

    def run(self, work: Callable[[], T]) -> T:
        """Result of ``work``, which is to be done with its answers when it returns.  It begins anew if one of them is
        larger than usual."""
        try:
            with _within(_USUAL):
                return work()
        except AnswerTooLarge:
            pass
        with self._turn, _within(None):
            return work()
