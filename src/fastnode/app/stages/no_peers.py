"""Ways to peers of a node that is not on the peer-to-peer network: there are none, and nothing of it is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastnode.app.ground.way_out import WayOut

if TYPE_CHECKING:
    from fastnode.app.stages.gossip import Gossip
    from fastnode.app.stages.source import Source
    from fastnode.mempool.handover import TxSink
    from fastnode.sources.follower import ProposalSource

__all__ = ["NoPeers"]


class NoPeers:
    #: Doors to peers; None: there are no peers.
    gossip: Gossip | None = None
    #: Source of blocks that peers have proposed; None: there are no peers.
    proposals: ProposalSource | None = None

    def __init__(self, source: Source) -> None:
        #: Sink to which the pool hands transactions on; None: nobody takes them.
        self.pool_sink: TxSink | None = source.sink
        #: The same of a fleet.
        self.fleet_sink: TxSink | None = source.other_nodes
        self._no_way_out = source.no_way_out

    def way_out(self) -> WayOut:
        """Way of a transaction out of this node, where neither a fleet nor another node takes it."""
        return WayOut(self._no_way_out)
