"""Limits on packets of discovery, and on the addresses that are believed."""

from __future__ import annotations

import ipaddress
from collections import Counter
from typing import Final

__all__ = ["AddressVotes", "PacketGate", "is_relayed_well"]

#: In a second: of one address, of all, and handshakes, which cost a thousand times as much as what is dropped.
_OF_ADDRESS_PER_S: Final = 100
_PER_S: Final = 500
_HANDSHAKES_PER_S: Final = 50
#: Packets that are taken from the socket in a second at all; others wait in the kernel, or are lost there.
_READ_PER_S: Final = 5000

_VOTES_NEEDED: Final = 3
_VOTE_S: Final = 600.0
_VOTERS_MAX: Final = 64


class PacketGate:
    """Counts in seconds that begin with the first packet in them.  ``limits_addresses`` False: many nodes of one
    machine are welcome."""

    def __init__(self, *, limits_addresses: bool = True) -> None:
        self._of_address_max = _OF_ADDRESS_PER_S if limits_addresses else _PER_S
        self._since = float("-inf")
        self._read = self._taken = self._handshakes = 0
        self._of_address: Counter[str] = Counter()

    def wait_s(self, now: float) -> float:
        """Time for which nothing more should be read, in seconds; 0: read on."""
        self._begin(now)
        return 0.0 if self._read < _READ_PER_S else max(0.001, self._since + 1 - now)

    def take(self, host: str, now: float) -> bool:
        """True if a packet is to be looked at; it is counted."""
        self._begin(now)
        self._read += 1
        # The limit of all comes first: so no more addresses are counted than packets are taken.
        if self._taken >= _PER_S or self._of_address[host] >= self._of_address_max:
            return False
        self._taken += 1
        self._of_address[host] += 1
        return True

    def take_handshake(self) -> bool:
        self._handshakes += 1
        return self._handshakes <= _HANDSHAKES_PER_S

    def _begin(self, now: float) -> None:
        if now - self._since >= 1:
            self._since = now
            self._read = self._taken = self._handshakes = 0
            self._of_address.clear()


def is_relayed_well(host: str, sender: str) -> bool:
    """True if ``sender`` may say that a node is at ``host``: who is outside of a network cannot know what is in it."""
    address, source = ipaddress.IPv4Address(host), ipaddress.IPv4Address(sender)
    if address.is_unspecified or address.is_multicast or address.is_reserved:
        return False
    if address.is_loopback:
        return source.is_loopback
    return address.is_global or not source.is_global


class AddressVotes:
    """Votes of other nodes on this one's address.  Each network (/24) has one, so that many nodes of one operator do
    not decide; with ``limits_addresses`` False each node has one."""

    def __init__(self, *, limits_addresses: bool = True) -> None:
        self._limits_addresses = limits_addresses
        self._votes: dict[str | bytes, tuple[str, float]] = {}

    def vote(self, node_id: bytes, voter: str, address: bytes, now: float) -> str | None:
        """The address that more than half of the votes of the last minutes are for, if it has three of them."""
        if len(address) != 4:
            return None
        seen = str(ipaddress.IPv4Address(address))
        if not is_relayed_well(seen, voter):
            return None
        key = voter.rpartition(".")[0] if self._limits_addresses else node_id
        self._votes.pop(key, None)
        self._votes[key] = (seen, now)
        for other, (_, since) in list(self._votes.items()):
            if now - since > _VOTE_S or len(self._votes) > _VOTERS_MAX:
                del self._votes[other]
        found, count = Counter(each for each, _ in self._votes.values()).most_common(1)[0]
        return found if count >= _VOTES_NEEDED and 2 * count > len(self._votes) else None
