"""Interfaces that a connection needs around it: the application behind it, the scanner before it, the server."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from fastnode.http.guard import RequestGuard
from fastnode.http.messages import Refusal, Request, Response

if TYPE_CHECKING:
    import asyncio

    from fastnode.http.allowance import Allowance, MemoryBudget
    from fastnode.http.connection import HttpConnection
    from fastnode.http.limits import Limits
    from fastnode.http.messages import ResponseWriter
    from fastnode.http.meters import Traffic
    from fastnode.http.stream import HttpStream
    from fastnode.http.turns import Turns
    from fastnode.kernels import simple_request

__all__ = ["Application", "ConnectionOwner", "Scanner"]


class Application(Protocol):
    """The application behind a connection."""

    @property
    def guard(self) -> RequestGuard | None:
        """Guard that admits clients; None: everybody."""

    def on_request(self, request: Request, allowance: Allowance) -> Response | Coroutine[Any, Any, Response]:
        """The answer to a complete request, at once or later, made within its ``allowance``.  Must not raise."""

    def on_refusal(self, refusal: Refusal) -> Response:
        """The answer to a request that is not read to its end."""


class Scanner(Protocol):
    """Answers whole requests of usual form, with the same bytes as the stream and its application would."""

    @property
    def requests(self) -> simple_request.SimpleRequests:
        """The kernel that the receiver asks."""

    def answer(
        self,
        stream: HttpStream,
        data: bytes,
        position: int,
        answers: bytes | list[bytes] | None,
        view: Any,
        until_ns: int,
    ) -> int:
        """Go on where the kernel has stopped, until enough is collected for one write; how many bytes of ``data`` are
        answered then.  ``answers`` are those that the kernel has just given, from ``position`` on."""


class ConnectionOwner(Protocol):
    """The server, as a connection needs it."""

    @property
    def limits(self) -> Limits: ...

    @property
    def application(self) -> Application: ...

    @property
    def writer(self) -> ResponseWriter: ...

    @property
    def traffic(self) -> Traffic: ...

    @property
    def turns(self) -> Turns: ...

    @property
    def budget(self) -> MemoryBudget: ...

    def register(self, connection: HttpConnection) -> None:
        """A connection has been opened.  May close it, or move its transport to another connection."""

    def forget(self, connection: HttpConnection) -> None:
        """A connection has gone."""

    def note_unread(self, connection: HttpConnection) -> None:
        """A connection holds more than the high-water mark.  May cut off this one or others."""

    def note_read(self, connection: HttpConnection) -> None:
        """The client has caught up."""

    def keep_task(self, task: asyncio.Task[Any]) -> None:
        """Hold a reference to a running task until it is done, even if its connection goes."""
