"""Connected clients: how many connections each network address has.

An IPv6 host usually has a whole /64 to choose addresses from, so such a network counts as one address.
"""

from __future__ import annotations

import socket
from collections import Counter
from typing import Any, Final

__all__ = ["ConnectionCounts", "network_of"]

#: The part of an IPv6 address that names a network: 64 bits.
IPV6_NETWORK_BYTES: Final = 8
#: Prefix of an IPv4 address on a socket that listens for both (RFC 4291, section 2.5.5.2).
IPV4_MAPPED_PREFIX: Final = bytes(10) + b"\xff\xff"


def network_of(peer_name: Any) -> bytes | None:
    """The address that a socket's peer counts as: the 4 bytes of an IPv4 address, the first 8 of an IPv6 address.

    ``peer_name`` is that of the transport.  None for what has no address, such as a socket in the file system.
    """
    if not isinstance(peer_name, tuple) or not peer_name:
        return None
    host = peer_name[0]
    try:
        if ":" not in host:
            return socket.inet_pton(socket.AF_INET, host)
        address = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])  # without the name of an interface
    except OSError:
        return None
    if address.startswith(IPV4_MAPPED_PREFIX):
        return address[len(IPV4_MAPPED_PREFIX) :]
    return address[:IPV6_NETWORK_BYTES]


class ConnectionCounts:
    """Connections by network, up to ``connections_max`` each; 0: any number, and nothing is counted."""

    def __init__(self, connections_max: int) -> None:
        self._connections_max = connections_max
        self._counts: Counter[bytes] = Counter()

    @property
    def elsewhere(self) -> int:
        """Connections that other processes have, which count against the limit of all."""
        return 0

    def __len__(self) -> int:
        """Networks that are connected."""
        return len(self._counts)

    def enter(self, network: bytes | None) -> bool:
        """Count one more; False, and not counted, if that would be too many."""
        if network is None or self._connections_max == 0:
            return True
        if self._counts[network] >= self._connections_max:
            return False
        self._counts[network] += 1
        return True

    def leave(self, network: bytes | None) -> None:
        """Take back one :meth:`enter` that was True."""
        if network is None or self._connections_max == 0:
            return
        if self._counts[network] > 1:
            self._counts[network] -= 1
        else:
            del self._counts[network]
