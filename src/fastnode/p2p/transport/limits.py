"""Bounds of everything that a peer can make this node hold or do.

The network's own numbers say where they come from; the others are this node's.
"""

from __future__ import annotations

from typing import Final, Protocol

from fastnode.errors import PeerFault
from fastnode.records import dataclass

__all__ = ["Budget", "Limits", "PeerMemory"]

KIB: Final = 1024
MIB: Final = 1024 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one connection unless a field says otherwise."""

    #: From the TCP connection until the streams can be used.
    handshake_time_s: float = 10.0
    #: That a peer has opened and that are open at a time; the reference allows 1000.
    inbound_streams_max: int = 128
    #: That this node has opened.
    outbound_streams_max: int = 128
    #: Bytes that one side of a stream may send unread (yamux).
    window_bytes: int = 256 * KIB
    #: Longest frame that is taken; the reference sends at most 64 KiB.
    frame_bytes_max: int = 256 * KIB
    #: Longest frame that is sent (reference).
    frame_bytes_sent_max: int = 64 * KIB
    #: Bytes that have come and are not used yet, over all streams.
    received_bytes_max: int = 24 * MIB
    #: Bytes that are to go out and the peer does not take.
    unsent_bytes_max: int = 24 * MIB
    #: Time for which a peer may take nothing of what waits for it, in seconds.
    write_time_s: float = 30.0
    #: A peer that says nothing for so long is gone; both sides ping every 30 s (yamux).
    silence_time_s: float = 90.0
    ping_interval_s: float = 30.0
    #: Frames that are taken in a second, as small as they may be: a message of 10 MiB has 160.
    frames_per_s_max: int = 10_000
    #: Pings that are answered in a second.
    pings_per_s_max: int = 10
    #: Time for a stream to say what it is for, and to ask, in seconds.
    request_time_s: float = 10.0
    #: Largest message of gossip: a proposal of 10 MiB and what is around it.
    rpc_bytes_max: int = 10 * MIB + 64 * KIB
    #: Messages of gossip that are looked at in a second; more wait at the peer.
    rpcs_per_s_max: int = 500
    #: Items of each kind in a message of gossip.
    rpc_items_max: int = 500
    #: Ids in a message of gossip (gossipsub 1.1).
    rpc_ids_max: int = 5000


class Budget(Protocol):
    """Memory that all of a node shares."""

    def take(self, count: int) -> None:
        """FastnodeError, and nothing is taken, if that would be too much."""

    def give_back(self, count: int) -> None: ...


class PeerMemory:
    """Memory held by one connection, or by gossip, taken from the budget of the node."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.held_bytes = 0

    def hold(self, count: int) -> None:
        """From now on ``count`` bytes in all; PeerFault if the node has no room for them."""
        more = count - self.held_bytes
        if more > 0:
            try:
                self._budget.take(more)
            except Exception as error:
                raise PeerFault(f"there is no memory for what the peer sends: {error}") from error
        elif more < 0:
            self._budget.give_back(-more)
        self.held_bytes = count

    def release(self) -> None:
        self.hold(0)
