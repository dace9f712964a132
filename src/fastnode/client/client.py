"""The two clients: every method of a node as a method of theirs, and calls in batches."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self, TypeVar

from fastnode.client.calls import Call, Options, raise_rejection
from fastnode.client.methods import AsyncMethods, SyncMethods
from fastnode.client.transport import AsyncTransport, SyncTransport
from fastnode.errors import CallRejected

__all__ = ["AsyncClient", "Client"]

T = TypeVar("T")


class Client(SyncMethods):
    """A node, asked from plain code; threads may share it.

    ``url`` may lack its scheme.  ``api_key`` is a client's key on the public port, or that of the admin port.
    Calls that find no answer, or a busy node, are tried ``retries`` more times, but for nodeAdmin_ methods.
    CallRejected for an error of the node, NoAnswer when there is none; a result of None means that nothing is found.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        api_key: str | None = None,
        timeout_s: float = 30.0,
        retries: int = 2,
    ) -> None:
        self._transport = SyncTransport(Options.of(url, api_key, timeout_s, retries))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; it is opened again by the next call."""
        self._transport.close()

    def call(self, call: Call[T]) -> T:
        """The result of a call that was made with :mod:`fastnode.client.prepared`."""
        return raise_rejection(self._transport.answers([call]))[0]

    def batch(self, calls: Sequence[Call[T]]) -> list[T]:
        """The results of calls that are made together, in their order; the first error, if there is one, is raised."""
        return raise_rejection(self.try_batch(calls))

    def try_batch(self, calls: Sequence[Call[T]]) -> list[T | CallRejected]:
        """Likewise, with errors in their places."""
        return self._transport.answers(calls)


class AsyncClient(AsyncMethods):
    """A node, asked from asyncio; otherwise as :class:`Client`.  It belongs to one event loop."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        api_key: str | None = None,
        timeout_s: float = 30.0,
        retries: int = 2,
    ) -> None:
        self._transport = AsyncTransport(Options.of(url, api_key, timeout_s, retries))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    async def call(self, call: Call[T]) -> T:
        return raise_rejection(await self._transport.answers([call]))[0]

    async def batch(self, calls: Sequence[Call[T]]) -> list[T]:
        return raise_rejection(await self.try_batch(calls))

    async def try_batch(self, calls: Sequence[Call[T]]) -> list[T | CallRejected]:
        return await self._transport.answers(calls)
