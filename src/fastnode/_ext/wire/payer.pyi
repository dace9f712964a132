"""Payment for the calls of a connection, when clients have budgets."""

from collections.abc import Callable
from typing import Protocol

class _Client(Protocol):
    def prepay(self, method: str) -> float | None:
        """Charge for a call; what it cost.  None, and nothing is charged, if the client may not make it."""

    def refund(self, cost: float) -> None:
        """Take back what was prepaid."""

class _Rules(Protocol):
    @property
    def version(self) -> int: ...

class Payer:
    """Payer for the calls of one connection.

    ``identify`` is given a whole head, up to the empty line, and says whose it is, and the head without what names the
    client in its target; None: that is left to the strict path.  What it says holds until ``rules`` publishes again.
    Methods that are ``left_out`` are never answered, nor are bodies above ``body_bytes_max``, of which more is charged
    than their calls.
    """

    def __init__(
        self,
        identify: Callable[[bytes], tuple[_Client, bytes] | None],
        rules: _Rules,
        left_out: frozenset[str],
        body_bytes_max: int,
    ) -> None: ...
    def refund(self) -> None:
        """Take back the payment for the request that was read last: it is left to others, who charge for it."""
