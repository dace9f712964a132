"""Doors of the pool and of the chain to peers: they are there before the network, which needs pool and chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

# The first of what the extra brings, so that what is missing is said in terms of it.
import cryptography  # noqa: F401

from fastnode.app.ground.way_out import WayOut
from fastnode.app.stages.no_peers import NoPeers
from fastnode.p2p.judging.proposed_blocks import ProposedBlocks
from fastnode.p2p.node.gossip_sink import GossipSink

if TYPE_CHECKING:
    from fastnode.app.stages.foundation import Foundation
    from fastnode.app.stages.source import Source

__all__ = ["Gossip"]


class Gossip(NoPeers):
    def __init__(self, foundation: Foundation, source: Source) -> None:
        super().__init__(source)
        #: Sink to which the pool, or the fleet, hands transactions on.
        self.sink = self.pool_sink = self.fleet_sink = GossipSink(source.beside_peers)
        #: Blocks that peers have proposed, on their way into the chain.
        self.proposed = self.proposals = ProposedBlocks(foundation.control.wake)
        self.gossip = self

    def way_out(self) -> WayOut:
        return WayOut(None, lambda: self.sink.has_peer)
