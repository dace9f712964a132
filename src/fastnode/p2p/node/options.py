"""Options of a node in the network: the settings P2P_*, read and checked."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import NamedTuple

from fastnode.p2p.discovery.options import DiscoveryOptions
from fastnode.p2p.gossip.wire import GossipOptions
from fastnode.p2p.transport.limits import Limits
from fastnode.protocol.releases import FOUR, Release
from fastnode.records import dataclass

__all__ = ["PeerOptions", "StaticPeer"]


class StaticPeer(NamedTuple):
    """A peer that is dialled again and again.  ``peer_id`` None: any."""

    host: str
    port: int
    peer_id: str | None = None
    #: Always in gossip, whatever its score (P2P_PREFERRED_PEERS).
    is_direct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerOptions:
    """``listen_port`` 0: any free port.  ``protected``: ids of peers that are neither pruned nor counted."""

    listen_host: str = "0.0.0.0"
    listen_port: int = 40400
    #: Address in the node record; None: as other nodes see it, if they do.
    announced_ip: str | None = None
    announced_port: int | None = None
    #: Release of the chain, by which messages are read and written.
    release: Release = FOUR
    #: Version of the client, as the record says it; None: that of the release.
    client: str | None = None
    #: Directory for this node's record, and the peers and back-offs it knows; None: nothing is kept.
    folder: Path | None = None
    #: None: only those peers are dialled that are named, or remembered.
    discovery: DiscoveryOptions | None = None
    static_peers: tuple[StaticPeer, ...] = ()
    protected: frozenset[str] = frozenset()
    max_peers: int = 100
    check_interval_s: float = 30.0
    penalty_points: tuple[int, int, int] = (2, 10, 50)
    request_timeout_s: float = 10.0
    dial_timeout_s: float = 5.0
    checks_status: bool = True
    takes_transactions: bool = True
    counts_colocation: bool = True
    block_proposals_per_slot: int = 0
    gossip: GossipOptions = field(default_factory=GossipOptions)
    limits: Limits = field(default_factory=Limits)
