"""Sink of the pool's transactions when the node is on the peer-to-peer network: to peers, and to upstreams too.

A transaction is published once.  While no peer takes it, it waits in the pool.  One that is anchored at a block that
has just come waits for a moment, so that peers have that block too; what has left the pool meanwhile, or is in a block,
is not published: that block may be taken back, and peers would hold it against this node.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from fastnode.errors import PeerUnavailable, UpstreamUndecided
from fastnode.mempool.handover import Given
from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.messages.tx_forms import tx_buffer_of_json

if TYPE_CHECKING:
    from fastnode.mempool.forwarding import UpstreamTxSink
    from fastnode.p2p.node.network import PeerNetwork

__all__ = ["GossipSink"]

logger = logging.getLogger(__name__)


class GossipSink:
    """A ``TxSink``.  ``network`` is given once it runs; ``upstreams``: other nodes that take transactions first."""

    def __init__(self, upstreams: UpstreamTxSink | None = None) -> None:
        self._upstreams = upstreams
        self.network: PeerNetwork | None = None
        #: Time that a transaction in its binary form must wait before peers may have it, in seconds.
        self.settling_s: Callable[[bytes], float] = lambda tx: 0.0

    @property
    def has_peer(self) -> bool:
        """True if a peer is connected that can be told of a transaction."""
        return self.network is not None and bool(self.network.snapshot.peers)

    def forward(self, tx_json: bytes, is_wanted: Callable[[], bool] = lambda: True, /) -> bool:
        """True if an upstream or a peer has the transaction.  Refused when an upstream refuses: peers would too; where
        upstreams are undecided, UpstreamUndecided if no peer has it."""
        try:
            given = Given.UNTAKEN if self._upstreams is None else self._upstreams.give(tx_json)
        except UpstreamUndecided:
            if not self._publish(tx_json, is_wanted, is_taken=False):
                raise
            return True
        if given is Given.KNOWN:
            return True  # it may be in a block that peers have
        return self._publish(tx_json, is_wanted, is_taken=given is Given.TAKEN)

    def _publish(self, tx_json: bytes, is_wanted: Callable[[], bool], *, is_taken: bool) -> bool:
        """True if a peer has it too, or ``is_taken``."""
        network = self.network
        if network is None:
            return is_taken
        try:
            tx = tx_buffer_of_json(tx_json)
            time.sleep(self.settling_s(tx))
            if not is_wanted():
                return is_taken
            count = network.publish(Topic.TX, tx)
        except PeerUnavailable as error:
            logger.debug("a transaction is not published: %s", error)
            return is_taken
        # None: it was published before, or has come from a peer.
        return is_taken or count is None or count > 0
