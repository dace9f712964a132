"""fastnode: a fast node for the Aztec network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastnode.client import AsyncClient, AsyncClient5, Client, Client5

__all__ = ["AsyncClient", "AsyncClient5", "Client", "Client5"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """The clients are imported when they are asked for: a node does not need them."""
    if name in __all__:
        from fastnode import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
