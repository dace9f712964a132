"""Whole simple requests of one read: found in place, answered from results that are kept or made at once.

A request is simple if it is

    POST / HTTP/1.1, with a Host and a Content-Length, without anything that changes the framing, the coding of the
        body or the connection; names and values of headers of plain characters
    {"jsonrpc": "2.0", "method": <text>, "params": [...], "id": <text, small integer or null>}, the members in any
        order with any blanks, each at most once, ``method`` and ``id`` present, no escapes outside of ``params``;
        or an array of those

and whole.  Anything else is left to the strict path (http/connection.py), byte by byte as it came; a simple request
means the same there.  What is inside of ``params`` is read by usual_params, or if it is short by a parser of JSON.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from fastnode._ext.wire.cached_responses import CachedResponses
from fastnode._ext.wire.call_meter import CallMeter
from fastnode._ext.wire.calls import Calls, Outcomes
from fastnode._ext.wire.payer import Payer

_T = TypeVar("_T")

class Published(Generic[_T]):
    """A value that is replaced by one thread and read by others; ``version`` says whether it has been."""

    def __init__(self, value: _T) -> None: ...
    @property
    def value(self) -> _T: ...
    @property
    def version(self) -> int: ...
    def publish(self, value: _T) -> None: ...
    def __call__(self) -> _T: ...

class SimpleRequests:
    """Reads the bursts of all connections of a server, one after another.

    Requests above ``head_bytes_max``, ``headers_max``, ``body_bytes_max`` or ``depth_max`` (arrays and objects inside
    each other, counted generously), and batches above ``batch_calls_max`` calls are not simple, nor are very long
    parameters of an unusual form.  A body of more than ``coded_bytes_min`` bytes for a client that names codings is
    sent in the one that ``choose_coding`` gives for them (None: plain): here if that is gzip, where results that are
    kept are compressed once for all, unless more than 256 KiB have to be compressed anew; by the caller otherwise.

    An absent result is null, or no member with ``omits_absent``.

    ``results`` has the methods, and what is kept or made of them.  ``source`` gives what is answered from, the view:
    a :class:`Published`, or a callable.  ``renew`` is called with the view before it is answered from, if it may be
    another one than before.
    """

    def __init__(
        self,
        *,
        head_bytes_max: int,
        headers_max: int,
        body_bytes_max: int,
        depth_max: int,
        batch_calls_max: int,
        coded_bytes_min: int,
        omits_absent: bool,
        results: CachedResponses,
        source: Callable[[], object],
        renew: Callable[..., None],
        choose_coding: Callable[[bytes], str | None],
    ) -> None: ...

    #: False: the owner of the data should take it elsewhere.
    is_open: bool

    #: True: a request that names a page (``Origin``) is not simple.
    leaves_origin: bool

    #: Payer of the connection whose data comes next; None: calls are free.  A call is charged when its outcome is made.
    payer: Payer | None

    def set_head(self, before_length: bytes, before_packed_length: bytes, behind_length: bytes) -> None:
        """The head of an answer, plain or in gzip, around the digits of its Content-Length."""

    def set_meters(self, calls: CallMeter | None, add_batch: Callable[[int], object] | None) -> None:
        """Meters: ``calls`` counts every call that is answered, ``add_batch`` the calls of a batch.  To be called
        again when methods have been added."""

    def begin(self) -> Any:
        """The view that the next burst is answered from."""

    def answer(
        self, data: bytes, start: int, bytes_max: int, view: object = None, until_ns: int = 0
    ) -> bytes | list[bytes] | None:
        """The answers to the requests of ``data`` from ``start`` on, up to the first that has to be answered elsewhere.

        A list of pieces if a result is large; None if the first one has to be at once.  Stops too when the answers are
        above ``bytes_max``, and between two calls when it is later than ``until_ns`` of the monotonic clock (0: never).
        Without a view only cached responses are given.  ValueError for a start outside of the data.  Afterwards:
        """

    #: The first byte of ``data`` that is not answered, the requests before it that are, and the bytes of their answers.
    @property
    def position(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def size(self) -> int: ...

    #: If the request at ``position`` is simple and is not answered: its calls, all of which are JSON unless they are
    #: unread, and the outcomes that they have: those of the first ones, whose calls are charged and not counted.
    #: All of them have one if only the coding is missing.  None otherwise.  They hold on to the view: None is to be put
    #: there by who takes them.
    calls: Calls | None
    outcomes: Outcomes | None

    #: Then also its end, and what codings it accepts (None: not said).
    @property
    def end(self) -> int: ...
    @property
    def accepted(self) -> bytes | None: ...
