"""The primary's writes, in their order, for the workers that follow them.

Each write goes to the followers while the database's lock is held, so all see one order; a view is announced
between the batches that made it and those that come after it.  A follower begins with a copy of the databases that is
made while all three are held, so its first batch is the first that the copy does not have.

What a block has written goes out when it is shown, in one piece: nothing of it can be seen before, and a worker that
is woken up for each batch would work beside the primary, and not after it.

What a follower has not taken yet is bounded: one that falls behind is dropped, and comes again for a new copy.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastnode.storage.database import SharedDatabase
from fastnode.storage.leveldb_copy import copy_leveldb
from fastnode.workers.contents import ContentsWriter
from fastnode.workers.frames import POOL, Change, Connection, Kind, Shown, batch_frame, frame

if TYPE_CHECKING:
    from fastnode.view import View

__all__ = ["Feed", "Follower"]

#: Bytes that may wait for one follower.  A block of a hundred transactions is about a megabyte.
BEHIND_BYTES_MAX: Final = 64 << 20

#: Bytes up to which writes that are not shown yet are sent together: many blocks, of a chain that is caught up with.
HELD_BYTES_MAX: Final = 1 << 20


class Follower:
    """A worker's connection, and what waits to be sent to it.

    What the system takes at once is sent by the thread that has it: another one would first have to get a processor
    and the interpreter.  :meth:`send_all` sends the rest, in a thread of its own.
    """

    def __init__(self, connection: Connection, *, bytes_max: int = BEHIND_BYTES_MAX) -> None:
        self._connection = connection
        self._bytes_max = bytes_max
        self._waiting: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        #: Bytes that wait.
        self.behind_bytes = 0
        #: True if it was dropped because it was behind.
        self.was_too_slow = False

    def put(self, data: bytes) -> None:
        """Never blocks."""
        with self._changed:
            if self._is_closed:
                return
            if not self.behind_bytes:
                try:
                    sent = self._connection.send_now(data)
                except OSError:
                    self._close()
                    return
                if sent == len(data):
                    return
                data = data[sent:]
            if self._waiting and self.behind_bytes + len(data) > self._bytes_max:
                self.was_too_slow = True
                self._close()
                return
            self._waiting.append(data)
            self.behind_bytes += len(data)
            self._changed.notify()

    def send_all(self) -> None:
        """Until it is closed, or the other end has gone."""
        while True:
            with self._changed:
                while not self._waiting and not self._is_closed:
                    self._changed.wait()
                if self._is_closed:
                    return
                data = b"".join(self._waiting) if len(self._waiting) > 1 else self._waiting[0]
                self._waiting.clear()
            try:
                self._connection.send(data)
            except OSError:
                self.close()
                return
            with self._changed:
                self.behind_bytes -= len(data)

    def close(self) -> None:
        with self._changed:
            self._close()

    def _close(self) -> None:
        self._is_closed = True
        self._waiting.clear()
        self._changed.notify()
        self._connection.shut_down()

    @property
    def is_closed(self) -> bool:
        return self._is_closed


class Feed:
    """Over the chain, the state and the pool, in this order; ``contents`` of the pool's transactions are written there.

    Usable from any thread.
    """

    def __init__(self, databases: Sequence[SharedDatabase], contents: ContentsWriter | None = None) -> None:
        self._databases = tuple(databases)
        self._lock = threading.Lock()
        self._followers: list[Follower] = []
        #: Tip that requests are answered from; None while the state is not at the chain's tip, or something newer was
        #: written.
        self._shown: Shown | None = None
        self._contents = contents
        #: Batches that are sent when they are shown.
        self._held: list[bytes] = []
        self._held_bytes = 0
        for place, database in enumerate(self._databases):
            database.watch_writes(lambda changes, place=place: self._on_write(place, changes))  # type: ignore[misc]

    def _on_write(self, place: int, changes: Sequence[Change]) -> None:
        """In the writing thread, which holds the database."""
        with self._lock:
            if place != POOL:
                self._shown = None
            if place == POOL and self._contents is not None:
                if not self._followers:
                    self._contents.forget(changes)
                else:
                    changes = self._contents.refer(changes)
            if not self._followers:
                return
            data = batch_frame(place, changes)
            if place == POOL:
                self._put(data)
                return
            self._held.append(data)
            self._held_bytes += len(data)
            if self._held_bytes > HELD_BYTES_MAX:
                self._put(self._let_go())

    def _let_go(self) -> bytes:
        """Take the held batches, for those that follow now."""
        data = b"".join(self._held)
        self._held.clear()
        self._held_bytes = 0
        return data

    def show(self, view: View) -> None:
        """``view`` is what new requests see, and all that it shows has been written.  In the thread that ingests."""
        tip = view.chain.tips.proposed
        shown = Shown(tip.number, tip.hash, view.state is not None, time.monotonic_ns())
        with self._lock:
            self._shown = shown
            is_block = len(self._held) > 0
            self._put((frame(Kind.BLOCK, shown.at_ns) if is_block else b"") + self._let_go() + frame(Kind.VIEW, shown))

    def tell(self, data: bytes) -> list[Follower]:
        """A frame for all followers, who are these."""
        with self._lock:
            self._put(data)
            return list(self._followers)

    def _put(self, data: bytes) -> None:
        if not data:
            return
        for follower in self._followers:
            follower.put(data)
        if any(follower.is_closed for follower in self._followers):
            self._followers = [follower for follower in self._followers if not follower.is_closed]

    def add(self, follower: Follower, target: Path) -> float:
        """Copy the databases to the new folder ``target`` and have ``follower`` follow from there, also one that has
        followed before; how many seconds nothing could be written.  DatabaseError, OSError.
        """
        target.mkdir(parents=True)
        with ExitStack() as held:
            for database in self._databases:
                held.enter_context(database.held())
            begun = time.monotonic()
            for database in self._databases:
                copy_leveldb(database.path, target / database.path.name)
            seconds = time.monotonic() - begun
            with self._lock:
                self._put(self._let_go())  # the copy has it
                follower.put(frame(Kind.COPY, target))
                if self._shown is not None:
                    follower.put(frame(Kind.VIEW, self._shown))
                if follower not in self._followers:
                    self._followers.append(follower)
        return seconds

    def remove(self, follower: Follower) -> None:
        follower.close()
        with self._lock:
            self._followers = [other for other in self._followers if other is not follower]
