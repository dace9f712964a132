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
    from fastnode.app.stages.source import Source

__all__ = ["Gossip", "open_gossip"]


@dataclass(frozen=True, slots=True)
class Gossip:
    #: Sink to which the pool hands transactions on.
    sink: GossipSink
    #: Blocks that peers have proposed, on their way into the chain.
    proposed: ProposedBlocks


def open_gossip(foundation: Foundation, source: Source) -> Gossip:
    return Gossip(GossipSink(source.beside_peers), ProposedBlocks(foundation.control.wake))
