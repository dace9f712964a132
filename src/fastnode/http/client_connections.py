"""Connected clients: how many connections each network address has.

An IPv6 host usually has a whole /64 to choose addresses from, so such a network counts as one address.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

__all__ = ["ConnectionCounts"]


class ConnectionCounts:
    """Connections by network, up to ``connections_max`` each; 0: any number."""

    def __init__(self, connections_max: int) -> None:
        self._connections_max = connections_max
        self._counts: Counter[bytes] = Counter()

    @property
    def elsewhere(self) -> int:
        """Connections that other processes have, which count against the limit of all."""
        return 0

    @property
    def by_network(self) -> Mapping[bytes, int]:
        """Connections of this process by network."""
        return self._counts

    def __len__(self) -> int:
        """Networks that are connected."""
        return len(self._counts)

    def enter(self, network: bytes | None) -> bool:
        """Count one more; False, and not counted, if that would be too many."""
        if network is None:
            return True
        if self._connections_max and self._counts[network] >= self._connections_max:
            return False
        self._counts[network] += 1
        return True

    def leave(self, network: bytes | None) -> None:
        """Take back one :meth:`enter` that was True."""
        if network is None:
            return
        if self._counts[network] > 1:
            self._counts[network] -= 1
        else:
            del self._counts[network]
