"""Who pays for the calls of a connection, in plain Python: the readable form of the payer kernel.

The stub ``fastnode/_ext/wire/payer.pyi`` says what everything does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Payer"]


class Payer:
    def __init__(
        self,
        identify: Callable[[bytes], tuple[Any, bytes] | None],
        rules: Any,
        left_out: frozenset[str],
        body_bytes_max: int,
    ) -> None:
        self._identify, self._left_out = identify, left_out
        self.body_bytes_max = body_bytes_max
        self._client: Any = None
        self._paid: list[float] = []

    def identified(self, head: bytes) -> bytes | None:
        """A head without what names the client in its target; None if its sender is not known."""
        found = self._identify(head)
        if found is None:
            return None
        self._client, plain = found
        self._paid = []
        return plain

    def pay(self, method: str) -> bool:
        """Whether the client may make a call, and has paid for it."""
        cost = None if method in self._left_out else self._client.prepay(method)
        if cost is not None:
            self._paid.append(cost)
        return cost is not None

    def refund(self) -> None:
        while self._paid:
            self._client.refund(self._paid.pop())
