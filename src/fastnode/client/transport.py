"""Transports of the two clients: one sends in the thread that asks, the other through aiohttp."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fastnode.client.calls import Call, Options, answers_of, batches_of, body_of, is_passing, pause_before
from fastnode.errors import CallRejected, ClientError, NoAnswer, UpstreamFault, UpstreamUnavailable
from fastnode.extras import advice_for
from fastnode.outgoing.network import ClientLimits, Network

if TYPE_CHECKING:
    import aiohttp

__all__ = ["AsyncTransport", "SyncTransport"]

T = TypeVar("T")

#: More than any node answers with its default limits.
_ANSWER_BYTES_MAX: Final = 1 << 30


class SyncTransport:
    """Connections that are kept and opened again when they are gone; threads may share it."""

    def __init__(self, options: Options) -> None:
        self._options = options
        time_s = options.timeout_s
        self._limits = ClientLimits(request_time_s=time_s, connect_time_s=time_s, response_bytes_max=_ANSWER_BYTES_MAX)
        self._network = Network()

    def close(self) -> None:
        self._network.close()
        self._network = Network()

    def answers(self, calls: Sequence[Call[T]]) -> list[T | CallRejected]:
        found: list[T | CallRejected] = []
        for batch in batches_of(calls):
            status, content = self._exchange(batch)
            found += answers_of(batch, self._options.url, status, content)
        return found

    def _exchange(self, calls: Sequence[Call[Any]]) -> tuple[int, bytes]:
        """Status and body of the first answer that is not a passing refusal, or of the last try."""
        url, body, attempt = self._options.url, body_of(calls), 0
        is_repeatable = all(call.may_be_repeated for call in calls)
        while True:
            attempt += 1
            retry_after, failure = None, None
            try:
                answer = self._network.post(url, body, self._limits, self._options.headers, is_repeatable=is_repeatable)
                if not is_passing(answer.status):
                    return answer.status, answer.body
                retry_after = answer.headers.get("retry-after")
            except (UpstreamUnavailable, UpstreamFault) as error:
                failure = NoAnswer(f"no answer from {url}: {error}")
            pause = pause_before(attempt, self._options, calls, retry_after)
            if pause is None:
                if failure is not None:
                    raise failure
                return answer.status, answer.body
            time.sleep(pause)


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

    @property
    def session(self) -> aiohttp.ClientSession:
        """ClientError when the extra is not installed."""
        try:
            import aiohttp
        except ModuleNotFoundError as error:
            raise ClientError(advice_for(error) or str(error)) from error

        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self._options.timeout_s)
            self._session = aiohttp.ClientSession(headers=self._options.headers, timeout=timeout)
        return self._session

    async def _exchange(self, calls: Sequence[Call[Any]]) -> tuple[int, bytes]:
        session = self.session
        import aiohttp

        body, attempt = body_of(calls), 0
        while True:
            attempt += 1
            retry_after, failure = None, None
            try:
                async with session.post(self._options.url, data=body, allow_redirects=False) as response:
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
