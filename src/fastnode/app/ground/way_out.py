"""Way out of this node for a client's transaction: the one answer for what is said of it at the start, by node_isReady,
node_sendTx, a receipt, fastnode_getSyncStatus, the probes and the status page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

__all__ = ["NO_NETWORK", "NO_PEER", "NO_UPSTREAM", "WayOut"]

#: Reason that a node that serves what it has, and nothing else, takes no transaction.
NO_NETWORK: Final = (
    "this node follows no other node and makes no blocks, so no block will ever have it: give --upstream-url URL, or "
    "--p2p-enabled"
)
#: Reason that a node whose chain comes from L1 alone takes none.
NO_UPSTREAM: Final = (
    "this node follows L1 alone and has no node to forward a transaction to: give --upstream-url URL, or --p2p-enabled"
)
#: Reason that a node that has only peers to give it to takes none for now.
NO_PEER: Final = "no peer is connected that a transaction could be given to; try again later"


class WayOut:
    """``closed``: why there is none whatever happens; None: there may be one.  ``has_peer``: whether a peer is
    connected; None where others than peers take transactions."""

    def __init__(self, closed: str | None, has_peer: Callable[[], bool] | None = None) -> None:
        self._closed = closed
        self._has_peer = has_peer
        self._faults: list[Callable[[], Mapping[str, str | None]]] = []

    @property
    def is_closed(self) -> bool:
        """True if no transaction can go anywhere from here, whatever happens."""
        return self._closed is not None

    def watch(self, *faults: Callable[[], Mapping[str, str | None]]) -> None:
        """Add sources of faults: what keeps each part from its work, None for nothing."""
        self._faults += faults

    def blocked_by(self) -> str | None:
        """Reason that a transaction cannot go anywhere from here; None if it can.  Usable from any thread."""
        if self._closed is not None:
            return self._closed
        fault = next((fault for part in self._faults for fault in part().values() if fault is not None), None)
        if fault is not None:
            return fault
        return NO_PEER if self._has_peer is not None and not self._has_peer() else None
