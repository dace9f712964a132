"""Payment for the calls of a connection, when clients have budgets."""

from collections.abc import Callable
from typing import Any, Protocol

class _Client(Protocol):
    def pay(self, method: str) -> bool:
        """Charge for a call.  False, and nothing is charged, if the client may not make it."""

class _Rules(Protocol):
    @property
    def version(self) -> int: ...

class Payer:
    """Payer for the calls of one connection.

    ``identify`` is given a whole head, up to the empty line, and says whose it is, and the head without what names the
    client in its target; None: that is left to the strict path.  What it says holds until ``rules`` publishes again.
    Methods that are ``left_out`` are neither answered nor charged here; a body above ``body_bytes_max``, of which more
    is charged than its calls, is left to the strict path.
    """

    def __init__(
        self,
        identify: Callable[[bytes], tuple[_Client, bytes] | None],
        rules: _Rules,
        left_out: frozenset[str],
        body_bytes_max: int,
    ) -> None: ...
    @property
    def client(self) -> Any:
        """The client whose head was read last."""
