"""The event loop for outgoing requests, in a thread of its own.

The loop that serves clients must not wait behind the answers of other nodes, and ingestion, which does wait
for them, is a plain thread.  So every outgoing request runs here, and callers in other threads wait for it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import aiohttp
import uvloop

from fastnode import __version__
from fastnode.errors import UpstreamUnavailable

__all__ = ["NetworkThread"]

T = TypeVar("T")

#: Connections to all upstreams together.
CONNECTIONS_MAX: Final = 32
#: Closing waits this long for connections to say goodbye.
CLOSE_TIME_S: Final = 2.0


class NetworkThread:
    """Runs coroutines for other threads.  ``start`` once; ``close`` ends what is still running.

    ``session`` may be used by those coroutines only.
    """

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fastnode-network", daemon=True)
        self._session: aiohttp.ClientSession | None = None
        self._lock = threading.Lock()
        self._running: set[concurrent.futures.Future[Any]] = set()
        self._is_closed = False

    def start(self) -> None:
        self._thread.start()
        self.run(self._open())

    @property
    def session(self) -> aiohttp.ClientSession:
        assert self._session is not None
        return self._session

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``; UpstreamUnavailable when the thread is closed before it is done."""
        with self._lock:
            if self._is_closed:
                work.close()
                raise UpstreamUnavailable("the node is stopping")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._running.add(future)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise UpstreamUnavailable("the node is stopping") from None
        finally:
            with self._lock:
                self._running.discard(future)
            # An exception's traceback holds this frame: without the future in it there is no cycle, and what the
            # callers' frames hold (views of the databases) goes as soon as the exception does.
            del future

    def close(self) -> None:
        """May be called from any thread, and more than once."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            running = tuple(self._running)
        for future in running:
            future.cancel()
        if self._thread.ident is None:
            self._loop.close()
            return
        closing = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        closing.result(CLOSE_TIME_S * 2)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _open(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS_MAX),
            headers={"User-Agent": f"fastnode/{__version__}"},
            # Every request brings its own deadline.
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def _close(self) -> None:
        if self._session is not None:
            await self._session.close()
        # The transports of closed connections go with the next turns of the loop.
        await asyncio.sleep(0)
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.wait_for(asyncio.gather(*others, return_exceptions=True), CLOSE_TIME_S)
