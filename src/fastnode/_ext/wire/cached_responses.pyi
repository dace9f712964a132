"""Results of calls: kept until the chain changes, or made at once by a direct handler."""

from collections.abc import Callable
from typing import Any

from fastnode._ext.wire.calls import Calls, Outcomes
from fastnode._ext.wire.packed import Packed

class CachedResponses:
    """The methods of a server by name.

    Results are kept until :meth:`forget`: those without parameters for good, the others by the text of their
    parameters within ``bytes_max``, where those go first that have not been asked for the longest time.  What a
    handler makes is kept when it is asked for a second time.  A result of more than ``result_bytes_max`` bytes is not
    given.

    ``find_block`` gives the number of the block of a view with a hash, or None.
    """

    def __init__(
        self,
        *,
        bytes_max: int,
        result_bytes_max: int,
        find_block: Callable[..., int | None],
    ) -> None: ...
    def add_method(
        self,
        name: str,
        *,
        keeps: bool,
        shape: bytes | None,
        handler: Callable[..., bytes | None] | None,
        items_max: int,
        read: Callable[[Any, list[Any]], bytes | None] | None,
    ) -> None:
        """A method whose results are kept, or that ``handler(view, *values)`` answers when its parameters have the
        form ``shape`` (see usual_params); an empty shape is for calls without parameters.

        A ``handler.prepare(calls)``, if there is one, is given the arguments of as many as 32 calls of a batch, before
        the first of them whose result is not kept, so that it can work out side by side what they need.

        ``read(view, params)`` answers other params of at most 1 KiB, given as values of JSON, of a method whose results
        are kept; None: nothing here does.
        """

    def forget(self, tip: int) -> None:
        """Drop all results; ``tip`` is the newest block."""

    def keep(self, name: str, params: bytes | None, result: bytes) -> None:
        """A result of a call with params of this text, an array (None: none given); empty: nothing was found."""

    def pack(self, result: bytes, is_kept: bool) -> Packed:
        """A result compressed: once for all that is kept."""

    def find_packed(self, result: bytes) -> Packed | None:
        """The compressed form of a result, if it is kept."""

    def keep_packed(self, result: bytes, packed: Packed) -> None:
        """A result that was compressed elsewhere.  It counts with its text, as it may be kept for this alone."""

    def go_on(self, calls: Calls, outcomes: Outcomes, until_ns: int) -> None:
        """:meth:`Calls.fill`, of which this is the part that knows the methods."""

    #: Calls of methods whose results are kept: those whose result was there, and the others.
    @property
    def hit_count(self) -> int: ...
    @property
    def miss_count(self) -> int: ...
    @property
    def kept_bytes(self) -> int:
        """About what the results take that are kept by their params."""
