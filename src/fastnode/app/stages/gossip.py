"""Doors of the pool and of the chain to peers: they are there before the network, which needs pool and chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

# The first of what the extra brings, so that what is missing is said in terms of it.
import cryptography  # noqa: F401

from fastnode.p2p.judging.proposed_blocks import ProposedBlocks
from fastnode.p2p.node.gossip_sink import GossipSink
from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.app.stages.foundation import Foundation
    from fastnode.mempool.handover import TxSink

__all__ = ["Gossip", "open_gossip"]


@dataclass(frozen=True, slots=True)
class Gossip:
    #: Sink to which the pool hands transactions on.
    sink: GossipSink
    #: Blocks that peers have proposed, on their way into the chain.
    proposed: ProposedBlocks


def open_gossip(foundation: Foundation) -> Gossip:
    origins = foundation.origins
    upstreams: TxSink | None = None if origins is None or not origins.upstreams.all else origins.tx_sink
    return Gossip(GossipSink(upstreams), ProposedBlocks(foundation.control.wake))
