"""How the two clients send a request: over one kept connection, or through aiohttp."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from fastnode.client.calls import Call, Options, answers_of, batches_of, body_of, is_passing, pause_before
from fastnode.errors import CallRejected, ClientError, NoAnswer
from fastnode.extras import advice_for

if TYPE_CHECKING:
    import aiohttp

__all__ = ["AsyncTransport", "SyncTransport"]

T = TypeVar("T")


class SyncTransport:
    """One connection that is kept and opened again when it is gone; threads take turns."""

    def __init__(self, options: Options) -> None:
        self._options = options
        parts = urlsplit(options.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        assert parts.hostname is not None
        self._connection = kind(parts.hostname, parts.port, timeout=options.timeout_s)
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._lock = threading.Lock()

    def close(self) -> None:
        self._connection.close()

    def answers(self, calls: Sequence[Call[T]]) -> list[T | CallRejected]:
        found: list[T | CallRejected] = []
        for batch in batches_of(calls):
            status, content = self._exchange(batch)
            found += answers_of(batch, self._options.url, status, content)
        return found

    def _exchange(self, calls: Sequence[Call[Any]]) -> tuple[int, bytes]:
        """Status and body of the first answer that is not a passing refusal, or of the last try."""
        body, attempt = body_of(calls), 0
        while True:
            attempt += 1
            retry_after, failure = None, None
            try:
                with self._lock:
                    status, content, retry_after = self._post(
                        body, may_be_repeated=all(c.may_be_repeated for c in calls)
                    )
                if not is_passing(status):
                    return status, content
            except (OSError, http.client.HTTPException) as error:
                failure = NoAnswer(f"no answer from {self._options.url}: {error or type(error).__name__}")
            pause = pause_before(attempt, self._options, calls, retry_after)
            if pause is None:
                if failure is not None:
                    raise failure
                return status, content
            time.sleep(pause)

    def _post(self, body: bytes, *, may_be_repeated: bool) -> tuple[int, bytes, str | None]:
        connection = self._connection
        is_kept = connection.sock is not None
        try:
            return self._post_once(body)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            # The node may have closed a connection that rested, before it saw the request.
            if not is_kept or not may_be_repeated:
                raise
            return self._post_once(body)

    def _post_once(self, body: bytes) -> tuple[int, bytes, str | None]:
        connection = self._connection
        try:
            connection.request("POST", self._target, body, self._options.headers)
            response = connection.getresponse()
            content = response.read()
        except BaseException:
            connection.close()
            raise
        if response.getheader("Content-Encoding") == "gzip":
            content = gzip.decompress(content)
        return response.status, content, response.getheader("Retry-After")


class AsyncTransport:
    """A session of aiohttp, opened when it is needed first."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def answers(self, calls: Sequence[Call[T]]) -> list[T | CallRejected]:
        found: list[T | CallRejected] = []
        for batch in batches_of(calls):
            status, content = await self._exchange(batch)
            found += answers_of(batch, self._options.url, status, content)
        return found

    async def _exchange(self, calls: Sequence[Call[Any]]) -> tuple[int, bytes]:
        try:
            import aiohttp
        except ModuleNotFoundError as error:
            raise ClientError(advice_for(error) or str(error)) from error

        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self._options.timeout_s)
            self._session = aiohttp.ClientSession(headers=self._options.headers, timeout=timeout)
        body, attempt = body_of(calls), 0
        while True:
            attempt += 1
            retry_after, failure = None, None
            try:
                async with self._session.post(self._options.url, data=body) as response:
                    status, content = response.status, await response.read()
                    retry_after = response.headers.get("Retry-After")
                if not is_passing(status):
                    return status, content
            except (aiohttp.ClientError, TimeoutError) as error:
                failure = NoAnswer(f"no answer from {self._options.url}: {error or type(error).__name__}")
            pause = pause_before(attempt, self._options, calls, retry_after)
            if pause is None:
                if failure is not None:
                    raise failure
                return status, content
            await asyncio.sleep(pause)
