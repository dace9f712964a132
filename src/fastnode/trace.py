"""Trace of the request that a line of the log, or a request to another node, belongs to.

A client or gateway names its request in ``traceparent`` (W3C Trace Context: ``00-`` trace id, 32 hex digits, ``-`` span
id, 16, ``-`` flags, 2) or in ``x-request-id``.  While such a request is worked on, here or in a thread, :func:`current`
is its :class:`Trace`; lines of the log carry its ids, and requests to other nodes its ``traceparent``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple, Protocol

__all__ = ["NAMES", "OpenSpan", "Spans", "Trace", "current", "entered", "read"]

_PARENT: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_REQUEST_ID: Final = re.compile(rb"[\x21-\x7e]{1,128}")
_NO_VERSION: Final = b"ff"
_VERSION: Final = b"00"


class Trace(NamedTuple):
    """``span_id`` is the one that what is done here is a child of; empty texts: not given."""

    trace_id: str = ""
    span_id: str = ""
    flags: str = "00"
    request_id: str = ""

    @property
    def parent(self) -> str | None:
        """``traceparent`` for requests to others; None: there is no trace."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}" if self.trace_id else None

    def facts(self) -> dict[str, str]:
        """For a line of the log."""
        named = {"trace_id": self.trace_id, "request_id": self.request_id}
        return {name: value for name, value in named.items() if value}


class OpenSpan(Protocol):
    """A piece of work that is being measured."""

    trace: Trace

    def end(self, status: int) -> None:
        """With the HTTP status of the answer."""


class Spans(Protocol):
    """Receiver of measured work."""

    def begin(self, trace: Trace, body: bytes) -> OpenSpan:
        """A call to this node; ``body`` is what came."""


#: The headers in which a request says which it is.
NAMES: Final = frozenset((b"traceparent", b"x-request-id"))

_CURRENT: ContextVar[Trace | None] = ContextVar("trace", default=None)


def current() -> Trace | None:
    """Trace of the request that is worked on; None: it has no name, or there is none."""
    return _CURRENT.get()


@contextmanager
def entered(trace: Trace) -> Iterator[None]:
    """While ``trace`` is the current one."""
    token = _CURRENT.set(trace)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def read(headers: Mapping[bytes, bytes]) -> Trace:
    """Trace that a request names in its headers; what cannot be read was not said."""
    request_id = headers.get(b"x-request-id", b"")
    name = request_id.decode("ascii") if _REQUEST_ID.fullmatch(request_id) else ""
    found = _PARENT.fullmatch(headers.get(b"traceparent", b"").strip())
    if found is None or found[1] == _NO_VERSION or (found[1] == _VERSION and found[5]):
        return Trace(request_id=name)
    if not found[2].strip(b"0") or not found[3].strip(b"0"):
        return Trace(request_id=name)
    return Trace(found[2].decode(), found[3].decode(), found[4].decode(), name)
