"""Calls of a request, their outcomes, and the envelope around these: values that all of a request's way share.

scanner, or parser -> Calls, Outcomes (all pending) -> kernel, engine: fill -> Outcomes (none pending) -> render
"""

from collections.abc import Callable, Sequence
from typing import Any, final

from fastnode.errors import RpcError

#: Name, parameters as they were read, and the text of the id, None for a notification.  What is no call has no name,
#: and its error in the place of the parameters.
Entry = tuple[str | None, Any, bytes | None]

@final
class Calls:
    """The calls of one request, from what a parser has read; a scanner makes them from spans of the request's text.

    ValueError for none or several that are no batch.
    """

    def __init__(self, entries: Sequence[Entry], *, is_batch: bool) -> None: ...
    @property
    def is_batch(self) -> bool: ...
    @property
    def text(self) -> bytes | None:
        """The text that a scanner has found them in; None: they are from a parser."""

    def name(self, index: int) -> str | None:
        """The name of a call, as in its entry.  IndexError."""

    @property
    def unread_bytes(self) -> int:
        """Bytes of parameters of which nobody knows yet whether they are JSON, as they are long and of an unusual form.
        Nothing has been charged or run then; 0: all have been read."""

    def read(self, parse: Callable[[bytes], list[Any]]) -> None:
        """Have their values read from their texts; errors of ``parse``."""

    def fill(self, outcomes: Outcomes, view: Any, until_ns: int) -> None:
        """Make outcomes from the first that is pending on: one at least, then until it is later than ``until_ns`` of
        the monotonic clock, up to one that has to be made elsewhere.  Only a scanner's calls do, and only while the
        results that are kept are those of their view, and ``view`` is it."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Entry:
        """IndexError."""

@final
class Outcomes:
    """The outcome of each of ``count`` calls: a result, an error, or pending, as all are at first.  IndexError for a
    call that there is not."""

    def __init__(self, count: int) -> None: ...
    def set_result(self, index: int, result: bytes | None) -> None:
        """A result in JSON; None, or empty: nothing was found."""

    def set_error(self, index: int, error: RpcError, text: bytes) -> None:
        """An error, and its object in JSON."""

    def next_pending(self, start: int = 0) -> int:
        """The first from ``start`` on without an outcome; their number if all have one."""

    def size(self, index: int) -> int:
        """Bytes of a result or error; 0 while it is pending."""

    def begin_call(self, index: int) -> Exception | None:
        """Begin to make an outcome, whose time counts from here, behind what a kernel took: what the handler raised
        that has run for it there; None: none has."""

    def started_ns(self, index: int) -> int:
        """When a call began, by the clock of ``clock.now_ns``, as if it had been made without a break till now."""

    def is_charged(self, index: int) -> bool:
        """True if the kernel has charged the call."""

    #: The errors in the order in which they were set; None: there are none.
    @property
    def errors(self) -> list[RpcError] | None: ...
    def __len__(self) -> int: ...

def render(calls: Calls, outcomes: Outcomes, *, omits_absent: bool = False) -> list[bytes] | None:
    """The body of the answer in pieces, each value by itself.  None: there is nothing to say.

    {"jsonrpc":"2.0","id":<id text>,"result":<result>}      null for an absent result
    {"jsonrpc":"2.0","id":<id text>,"error":<error>}

    With ``omits_absent`` the answer to a call with an absent result has no member ``result``.  Answers to a batch are
    in brackets; a notification is not answered.  ValueError if a call has no outcome.
    """
