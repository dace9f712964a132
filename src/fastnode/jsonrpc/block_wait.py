"""A short wait for blocks that other nodes have already.

A wallet reads a block hash from one node of a pool and asks another one that is a moment behind.  Instead of
the error for a reorg it gets its answer as soon as the block is here.
"""

from __future__ import annotations

import asyncio
from typing import Final

from fastnode.view import Committed, View

__all__ = ["BlockWait"]

#: Requests that may wait at a time; further ones get the error at once.
WAITERS_MAX: Final = 1024


class BlockWait:
    """Belongs to the event loop that it is made in; only :meth:`on_committed` may be called from other threads."""

    def __init__(self, time_s: float, *, waiters_max: int = WAITERS_MAX) -> None:
        self.time_s = time_s
        self._waiters_max = waiters_max
        self._waiters: dict[bytes, set[asyncio.Future[bool]]] = {}
        self._count = 0
        self._loop = asyncio.get_running_loop()

    @property
    def waiting_count(self) -> int:
        return self._count

    def on_committed(self, committed: Committed) -> None:
        """To be called after every commit."""
        if self._count:
            self._loop.call_soon_threadsafe(self._wake, committed.view)

    async def wait(self, block_hash: bytes, seconds: float) -> bool:
        """True if the block came in time."""
        if seconds <= 0 or self._count >= self._waiters_max:
            return False
        future: asyncio.Future[bool] = self._loop.create_future()
        waiters = self._waiters.setdefault(block_hash, set())
        waiters.add(future)
        self._count += 1
        try:
            return await asyncio.wait_for(future, seconds)
        except TimeoutError:
            return False
        finally:
            self._count -= 1
            waiters.discard(future)
            if not waiters:
                self._waiters.pop(block_hash, None)

    def _wake(self, view: View) -> None:
        for block_hash in [known for known in self._waiters if view.chain.block_number_by_hash(known) is not None]:
            for future in self._waiters.pop(block_hash):
                if not future.done():
                    future.set_result(True)
