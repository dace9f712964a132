"""Source of new blocks: none, other nodes and L1, or this node itself, which is a local network.

Each says what the time of the chain is, what gas costs, who takes transactions and who knows more than this node.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fastnode.app.ground.effects import connect_building, connect_polling
from fastnode.app.ground.part import Part
from fastnode.fees.sources import ChainFees, FeeSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastnode.app.ground.views import Views
    from fastnode.app.stages.foundation import Foundation
    from fastnode.app.stages.ingestion import Runs
    from fastnode.app.stages.origins import Origins
    from fastnode.archiver.ingest import Ingestor
    from fastnode.config.allow_list import AllowedElement
    from fastnode.config.configuration import NodeConfiguration
    from fastnode.local_network.network import LocalNetwork
    from fastnode.mempool.handover import TxSink
    from fastnode.mempool.network import NetworkValues
    from fastnode.mempool.service import Mempool
    from fastnode.mempool.simulation import PublicSimulator
    from fastnode.sources.follower import Follower, ProposalSource
    from fastnode.sources.publication import Publication

__all__ = ["FollowedChain", "LocalChain", "Source", "source_of"]


class Source(Part):
    """No source: the stored chain is served, or that of a file."""

    def __init__(self, views: Views) -> None:
        self.views = views
        self.fees: FeeSource = ChainFees()
        #: Other nodes that take transactions; None: there are none.
        self.sink: TxSink | None = None
        #: Follower of other nodes and L1; None: nothing is followed.
        self.follower: Follower | None = None
        #: Another node that simulates; None: there is none.
        self.simulator: PublicSimulator | None = None
        #: Public calls in setup that are allowed beside those of the protocol and of the operator.
        self.allow_list: Sequence[AllowedElement] = ()

    @property
    def runs(self) -> Runs | None:
        """Brings blocks in the thread that ingests; None: nothing does."""
        return self.follower

    def now(self) -> float:
        """The time of the chain, in seconds: by the clock, which is never before the newest block."""
        view = self.views.newest
        info = None if view is None else view.chain.block_info(view.chain.tip_number)
        return max(time.time(), 0 if info is None else info.timestamp)

    def network_values(self) -> NetworkValues | None:
        """Values of the network as L1 or another node has named them; None: none has."""
        return None

    def feed(
        self, ingestor: Ingestor, mempool: Mempool, publication: Publication, proposals: ProposalSource | None
    ) -> None:
        """Make what brings blocks, and gives the pool what comes with them.  ``proposals``: of peers."""

    def configure(self, configuration: NodeConfiguration) -> None:
        """Go by the configuration."""

    def interrupt(self) -> None:
        """End what waits, after the control was told to stop.  May wait itself."""


class FollowedChain(Source):
    """Other nodes, L1 or both."""

    def __init__(self, views: Views, foundation: Foundation, origins: Origins) -> None:
        super().__init__(views)
        self._foundation = foundation
        self._origins = origins
        self.fees = origins.fees()
        self.simulator = origins.simulator
        settings = foundation.settings
        publishes = settings.sequencer and not settings.fisherman_mode
        if origins.nodes.all or not publishes:  # who builds blocks needs no other node for its transactions
            self.sink = origins.tx_sink

    def now(self) -> float:
        """The time of L1's blocks, where L1 is read."""
        return time.time() if self._origins.l1 is None else self._origins.l1.now()

    def network_values(self) -> NetworkValues | None:
        return self._origins.network_values()

    def feed(
        self, ingestor: Ingestor, mempool: Mempool, publication: Publication, proposals: ProposalSource | None
    ) -> None:
        origins, views = self._origins, self.views
        origins.attach(mempool, lambda: views.newest, self._foundation.data.store)
        self.follower = origins.follow(ingestor, self._foundation.control, publication, proposals=proposals)

    def configure(self, configuration: NodeConfiguration) -> None:
        assert self.follower is not None
        connect_polling(configuration, self.follower.set_poll_interval)

    def interrupt(self) -> None:
        self._origins.interrupt()

    def troubles(self) -> Mapping[str, str | None]:
        faults = {} if self.follower is None else self.follower.faults()
        return faults | self._origins.troubles()


class LocalChain(Source):
    """This node itself."""

    def __init__(self, views: Views, foundation: Foundation, network: LocalNetwork) -> None:
        super().__init__(views)
        # On demand: few nodes are a local network, and every start would pay for it.
        from fastnode.local_network.accounts import TOKEN_ALLOW_LIST

        self._foundation = foundation
        self._network = network
        self.fees = network.fees
        self.allow_list = TOKEN_ALLOW_LIST

    @property
    def runs(self) -> Runs:
        return self._network

    def now(self) -> float:
        return self._network.pool_time()

    def feed(
        self, ingestor: Ingestor, mempool: Mempool, publication: Publication, proposals: ProposalSource | None
    ) -> None:
        self._network.attach(mempool)
        if self._foundation.bus is None:  # else a block is built once the fleet has the transaction
            mempool.watch_accepted(self._network.forward)

    def configure(self, configuration: NodeConfiguration) -> None:
        connect_building(configuration, self._foundation.settings, self._network.reconfigure)

    def interrupt(self) -> None:
        self._network.wake()

    def faults(self) -> Mapping[str, str | None]:
        return {} if self._network.l1 is None else self._network.l1.faults()


def source_of(views: Views, foundation: Foundation, local: LocalNetwork | None) -> Source:
    if local is not None:
        return LocalChain(views, foundation, local)
    return Source(views) if foundation.origins is None else FollowedChain(views, foundation, foundation.origins)
