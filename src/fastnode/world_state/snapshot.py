"""A frozen state of the database: point reads and seeks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from fastnode.errors import DatabaseError
from fastnode.storage.database import SharedDatabase
from fastnode.world_state.layout import THIN_KEY

__all__ = ["Snapshot"]

#: Keys remembered by :meth:`Snapshot.get_often`.
OFTEN_MAX: Final = 64


class Snapshot:
    """A LevelDB snapshot, usable from any thread until it is closed or collected.

    Making an iterator costs more than a seek, so iterators are kept for the next seek; each is used by
    one thread at a time.
    """

    __slots__ = ("_database", "_often", "_snapshot", "get", "iterators", "make_iterator")

    def __init__(self, database: SharedDatabase) -> None:
        self._snapshot: Any = None
        self._database = database.acquire()
        self._snapshot = database.snapshot()
        #: Value of a key, or None.
        self.get: Callable[[bytes], bytes | None] = self._snapshot.get
        self.make_iterator: Callable[[], Any] = self._snapshot.raw_iterator
        #: Iterators that no thread uses now.
        self.iterators: deque[Any] = deque()
        self._often: dict[bytes, bytes] = {}

    def get_often(self, key: bytes) -> bytes:
        """Like ``get`` for a key that many questions need, such as the newest edge; empty if it is not there.

        Each read of the database releases the interpreter lock; a writer that takes it makes the reader wait.
        """
        value = self._often.get(key)
        if value is None:
            value = self.get(key) or b""
            if len(self._often) >= OFTEN_MAX:
                self._often.clear()
            self._often[key] = value
        return value

    @property
    def thin(self) -> int:
        """The newest block whose history is thin."""
        return int.from_bytes(self.get_often(THIN_KEY), "big")

    def first(self, start: bytes, prefix: bytes) -> tuple[bytes, bytes] | None:
        """The first entry at or after ``start`` whose key begins with ``prefix``: (key, value)."""
        try:
            iterator = self.iterators.pop()
        except IndexError:
            iterator = self.make_iterator()
        found: tuple[bytes, bytes] | None = iterator.first(start)
        self.iterators.append(iterator)
        return found if found is not None and found[0].startswith(prefix) else None

    def scan(self, prefix: bytes) -> Any:
        """Iterate over (key, value) of all keys that begin with ``prefix``; close it, or use it in ``with``."""
        return self._snapshot.iterator(prefix=prefix)

    def scan_range(self, start: bytes, stop: bytes) -> Any:
        """Iterate over (key, value) with start <= key < stop."""
        return self._snapshot.iterator(start=start, stop=stop)

    def close(self) -> None:
        """Release the snapshot; more than once is allowed."""
        if self._snapshot is None:
            return
        for iterator in self.iterators:
            iterator.close()
        self.iterators.clear()
        snapshot, self._snapshot, self.get = self._snapshot, None, _closed
        self.make_iterator = _no_iterator
        snapshot.close()
        self._database.release()

    def __del__(self) -> None:
        self.close()


def _closed(_key: bytes) -> bytes | None:
    raise DatabaseError("this view of the world state is closed")


def _no_iterator() -> Any:
    _closed(b"")
