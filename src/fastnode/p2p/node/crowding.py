"""Crowded addresses, which have many places: identities cost nothing, addresses do.

An IPv4 address counts with its /24, one of IPv6 with its /48, of which subscribers have one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from typing import Final

from fastnode.values.client_network import most_crowded

__all__ = ["Crowd", "network_of"]

_PREFIXES: Final = {4: 24, 6: 48}


def network_of(host: str) -> str:
    """The network of an address; a text that is none is one of its own."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    address = address if mapped is None else mapped
    return str(ip_network((address, _PREFIXES[address.version]), strict=False))


class Crowd:
    """Places by address and by network."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._addresses: Counter[str] = Counter()
        self._networks: Counter[str] = Counter()
        for host in hosts:
            self._addresses[host] += 1
            self._networks[network_of(host)] += 1

    def size(self, host: str) -> tuple[int, int]:
        """Places of its network, and of itself."""
        return self._networks[network_of(host)], self._addresses[host]

    def makes_room_for(self, host: str) -> bool:
        """True if the most crowded network gives up a place for one of ``host``, as clients of the server do."""
        return most_crowded(self._networks, network_of(host)) is not None

    def leave(self, host: str) -> None:
        """One place less."""
        self._addresses[host] -= 1
        self._networks[network_of(host)] -= 1
