"""Whole simple requests of one read: found in place, answered from results that are ready.

The readable form of everything here is ``fastnode/_twins/simple_request.py``.  A request is simple if it is

    POST / HTTP/1.1, with a Host and a Content-Length, without anything that changes the framing, the coding of the
        body or the connection; names and values of headers of plain characters
    {"jsonrpc": <text>, "method": <text>, "params": [...], "id": <text, small integer or null>}, the members in any
        order with any blanks, each at most once, ``method`` and ``id`` present, no escapes outside of ``params``;
        or an array of those, if the results of all of them are ready

and whole.  Anything else is left to the strict path (rpc/http.py), byte by byte as it came; a simple request means the
same there.  What is inside of ``params`` is not read, only where it ends *if* it is JSON.
"""

from collections.abc import Callable

class SimpleRequests:
    """Reads the bursts of all connections of a server, one after another.

    Requests above ``head_bytes_max``, ``headers_max``, ``body_bytes_max`` or ``depth_max`` (arrays and objects inside
    each other, counted generously), and batches above ``batch_calls_max`` calls or ``response_bytes_max`` bytes of
    results, are not simple.  A body of more than ``coded_bytes_min`` bytes for a client that
    names codings is not answered here.
    """

    def __init__(
        self,
        *,
        head_bytes_max: int,
        headers_max: int,
        body_bytes_max: int,
        depth_max: int,
        batch_calls_max: int,
        response_bytes_max: int,
        coded_bytes_min: int,
    ) -> None: ...
    def set_head(self, before_length: bytes, behind_length: bytes) -> None:
        """The head of an answer, around the digits of its Content-Length."""

    def set_results(
        self,
        results: dict[str, bytes],
        finish: Callable[[str, int, None], object] | None,
        add_batch: Callable[[int], object] | None,
    ) -> None:
        """Results as JSON by method, for calls without parameters; the dict may change later.

        ``finish`` is told of every call answered: the method, when it began (CLOCK_MONOTONIC, ns), and None;
        ``add_batch`` of the calls of a batch, before them.
        """

    def answer(self, data: bytes, start: int, bytes_max: int) -> bytes | None:
        """The answers to the requests of ``data`` from ``start`` on, up to the first that has to be answered elsewhere.

        None if that is the first one at once.  Stops too when the answers are above ``bytes_max``.
        ValueError for a start outside of the data.  Afterwards:
        """

    #: The first byte of ``data`` that is not answered, and the requests before it that are.
    @property
    def position(self) -> int: ...
    @property
    def count(self) -> int: ...

    #: If the request at ``position`` is simple, but its result is not ready: its method; None otherwise.  Then also its
    #: end, the text of its params (None: not given) and of its id, and what codings it accepts (None: not said).
    @property
    def method(self) -> str | None: ...
    @property
    def end(self) -> int: ...
    @property
    def params(self) -> bytes | None: ...
    @property
    def id_text(self) -> bytes: ...
    @property
    def accepted(self) -> bytes | None: ...
