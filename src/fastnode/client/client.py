"""The two clients: every method of a node as a method of theirs, and calls in batches."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self, TypeVar
from weakref import WeakSet

from fastnode.client.calls import Call, Options, raise_rejection
from fastnode.client.methods import AsyncMethods, SyncMethods
from fastnode.client.methods5 import AsyncMethods5, SyncMethods5
from fastnode.client.subscriptions import AsyncSubscription, Subscription, Topic, wanted_of
from fastnode.client.transport import AsyncTransport, SyncTransport
from fastnode.errors import CallRejected

__all__ = ["AsyncClient", "AsyncClient5", "Client", "Client5"]

T = TypeVar("T")


class _Caller:
    """Makes calls from plain code."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        api_key: str | None = None,
        timeout_s: float = 30.0,
        retries: int = 2,
    ) -> None:
        self._options = Options.of(url, api_key, timeout_s, retries)
        self._transport = SyncTransport(self._options)

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

    def subscribe(
        self,
        topic: Topic,
        *,
        contract_address: str | bytes | None = None,
        tag: str | bytes | None = None,
        names: bool | None = None,
        tags: Sequence[str | bytes] | None = None,
        tx_hashes: Sequence[str | bytes] | None = None,
        from_block: int | None = None,
        cursors: Sequence[str] = (),
    ) -> Subscription:
        """Events of the node from now on, from a block on, or behind the newest of ``cursors``; without end, each once
        and in order, also over disconnects and restarts of the node.

        A connection of its own, not closed with the client.  Topics and what each takes: docs/push.md.  CallRejected
        for parameters that make no sense, NoAnswer for a node that cannot be reached or tells no events.
        """
        values = {
            "contractAddress": contract_address,
            "tag": tag,
            "names": names,
            "tags": tags,
            "txHashes": tx_hashes,
        }
        wanted = wanted_of(topic, values, from_block, cursors)
        return Subscription(wanted, self._options)


class Client(_Caller, SyncMethods):
    """A node, asked from plain code; threads may share it.

    ``url`` may lack its scheme.  ``api_key`` is a client's key on the public port, or that of the admin port.
    Calls that find no answer, or a busy node, are tried ``retries`` more times, but for those of the admin port.
    CallRejected for an error of the node, NoAnswer when there is none; a result of None means that nothing is found.
    """


class Client5(_Caller, SyncMethods5):
    """Likewise with the methods of releases 5.x and 6.x, for a node whose chain is of one of them."""


class _AsyncCaller:
    """Makes calls from asyncio."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        api_key: str | None = None,
        timeout_s: float = 30.0,
        retries: int = 2,
    ) -> None:
        self._options = Options.of(url, api_key, timeout_s, retries)
        self._transport = AsyncTransport(self._options)
        self._subscriptions: WeakSet[AsyncSubscription] = WeakSet()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        for subscription in tuple(self._subscriptions):
            await subscription.close()
        await self._transport.close()

    async def call(self, call: Call[T]) -> T:
        return raise_rejection(await self._transport.answers([call]))[0]

    async def batch(self, calls: Sequence[Call[T]]) -> list[T]:
        return raise_rejection(await self.try_batch(calls))

    async def try_batch(self, calls: Sequence[Call[T]]) -> list[T | CallRejected]:
        return await self._transport.answers(calls)

    async def subscribe(
        self,
        topic: Topic,
        *,
        contract_address: str | bytes | None = None,
        tag: str | bytes | None = None,
        names: bool | None = None,
        tags: Sequence[str | bytes] | None = None,
        tx_hashes: Sequence[str | bytes] | None = None,
        from_block: int | None = None,
        cursors: Sequence[str] = (),
    ) -> AsyncSubscription:
        """Likewise; it ends with the client at the latest."""
        values = {
            "contractAddress": contract_address,
            "tag": tag,
            "names": names,
            "tags": tags,
            "txHashes": tx_hashes,
        }
        wanted = wanted_of(topic, values, from_block, cursors)
        subscription = AsyncSubscription(wanted, self._options, self._transport.session)
        self._subscriptions.add(subscription)
        return await subscription.begin()


class AsyncClient(_AsyncCaller, AsyncMethods):
    """A node, asked from asyncio; otherwise as :class:`Client`.  It belongs to one event loop."""


class AsyncClient5(_AsyncCaller, AsyncMethods5):
    """Likewise with the methods of releases 5.x and 6.x."""
