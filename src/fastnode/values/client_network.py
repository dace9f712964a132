"""The network that a client counts as, where limits are per address."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, Final, TypeVar

__all__ = ["IPV4_MAPPED_PREFIX", "IPV6_NETWORK_BYTES", "most_crowded", "network_of"]

#: The part of an IPv6 address that names a network: 64 bits.
IPV6_NETWORK_BYTES: Final = 8
#: Prefix of an IPv4 address on a socket that listens for both (RFC 4291, section 2.5.5.2).
IPV4_MAPPED_PREFIX: Final = bytes(10) + b"\xff\xff"

Owner = TypeVar("Owner")


def network_of(peer_name: Any) -> bytes | None:
    """Return what a socket's peer counts as: the 4 bytes of an IPv4 address, the first 8 of an IPv6 address.

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


def most_crowded(counts: Mapping[Owner, int], newcomer: Owner) -> Owner | None:
    """Return the owner that gives up a place for ``newcomer`` when all places are taken.

    That is the one with most places, if it keeps no fewer than the newcomer then has; None if there is none.
    ``counts``: places by owner.
    """
    crowded = max(counts, key=counts.__getitem__, default=None)
    return crowded if crowded is not None and counts[crowded] > counts.get(newcomer, 0) + 1 else None
