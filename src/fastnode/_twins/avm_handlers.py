"""The handlers of the instructions of the public virtual machine, by the instruction's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fastnode._twins.avm_call import End, NestedCall

__all__ = ["HANDLERS", "Action", "named"]

#: Effect of an instruction on its call, when it does not simply go on.
Action = End | NestedCall | None

HANDLERS: Final[dict[str, Callable[..., Action]]] = {}


def named(name: str) -> Callable[[Callable[..., Action]], Callable[..., Action]]:
    """Register a handler: it gets the running call, its resolved addresses and its immediates."""

    def register(handler: Callable[..., Action]) -> Callable[..., Action]:
        HANDLERS[name] = handler
        return handler

    return register
