"""Source of new blocks: none, other nodes and L1, or this node itself, which is a local network.

Each says what the time of the chain is, what gas costs, who takes transactions and who knows more than this node.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from fastnode.app.ground.effects import connect_blocks, connect_polling
from fastnode.app.ground.part import Part
from fastnode.app.ground.way_out import NO_NETWORK, NO_UPSTREAM
from fastnode.app.stages.no_bus import NoBus
from fastnode.errors import StartError
from fastnode.fees.sources import ChainFees, FeeSource, LatestFees

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fastnode.app.ground.views import Views
    from fastnode.app.stages.foundation import Foundation
    from fastnode.app.stages.ingestion import Runs
    from fastnode.app.stages.origins import Origins
    from fastnode.archiver.ingest import Ingestor
    from fastnode.bus.upstream import BusUpstream
    from fastnode.config.allow_list import AllowedElement
    from fastnode.config.configuration import NodeConfiguration
    from fastnode.local_network.network import LocalNetwork
    from fastnode.mempool.forwarding import UpstreamQuestions, UpstreamTxSink
    from fastnode.mempool.handover import TxSink
    from fastnode.mempool.network import NetworkValues
    from fastnode.mempool.service import Mempool
    from fastnode.mempool.simulation import PublicSimulator
    from fastnode.outgoing.network import ExchangeTimes
    from fastnode.protocol.tx import Tx
    from fastnode.sources.follower import Follower, ProposalSource
    from fastnode.sources.l1.service import L1Reader
    from fastnode.sources.publication import Publication
    from fastnode.workers.facts import FeeFactsOfNode

__all__ = ["ChainWithL1", "FollowedChain", "LocalChain", "Source", "source_of"]


class Source(Part):
    """No source: the stored chain is served, or that of a file."""

    #: True where blocks come from other nodes or L1.
    is_followed = False
    #: Reason that no transaction is taken where neither this node builds blocks nor another one takes transactions.
    no_way_out = NO_NETWORK

    def __init__(self, views: Views) -> None:
        self.views = views
        self.fees: FeeSource = ChainFees()
        #: Sink of transactions of this node's pool; None: nobody takes them.
        self.sink: TxSink | None = None
        #: Nodes that the settings name, as takers of transactions; None: none is named.
        self.other_nodes: TxSink | None = None
        #: Takers of transactions beside peers; None: there are none.
        self.beside_peers: UpstreamTxSink | None = None
        #: Follower of other nodes and L1; None: nothing is followed.
        self.follower: Follower | None = None
        #: Another node that simulates; None: there is none.
        self.simulator: PublicSimulator | None = None
        #: Questions to another node that only a full one can answer; None: there is no such node.
        self.questions: UpstreamQuestions | None = None
        #: Roots of an epoch's messages on L1; None: L1 is not read.
        self.outbox_roots: Callable[[int], list[bytes]] | None = None
        self.message_index: Callable[[bytes], int | None] | None = None
        #: Times that others took to answer; None: nobody is asked.
        self.exchange_times: ExchangeTimes | None = None
        #: The bus as a followed node.
        self.bus: BusUpstream | NoBus = NoBus()
        #: Reader of L1; None: L1 is not read.
        self.l1: L1Reader | None = None
        #: Builds blocks here from the transactions that it is called with; None: nothing does.
        self.build: Callable[[Tx, bytes], None] | None = None
        #: Public calls in setup that are allowed beside those of the protocol and of the operator.
        self.allow_list: Sequence[AllowedElement] = ()

    @property
    def is_confirmed(self) -> bool:
        """False while checkpoints are stored as others say, and L1 is to say whether they are true."""
        return True

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

    def fee_facts(self) -> FeeFactsOfNode:
        """Facts that a worker computes prices from."""
        from fastnode.workers.facts import FeeFactsOfNode

        return FeeFactsOfNode(latest=self.fees.newest if isinstance(self.fees, LatestFees) else None)

    def l1_to_write_to(self, flag: str) -> L1Reader:
        """The reader of the L1 that ``flag`` writes to; StartError where the chain is not derived from L1."""
        raise StartError(f"{flag}: the chain must be derived from L1 (--l1-rpc-urls and a place of blobs)")

    def hand_on_blobs(self, blobs: Mapping[bytes, bytes]) -> None:
        """Put blobs of a proposal, by their versioned hashes, where other nodes find them."""

    def feed(
        self, ingestor: Ingestor, mempool: Mempool, publication: Publication, proposals: ProposalSource | None
    ) -> None:
        """Make what brings blocks, and gives the pool what comes with them.  ``proposals``: of peers."""

    def configure(self, configuration: NodeConfiguration) -> None:
        """Go by the configuration."""

    def interrupt(self) -> None:
        """End what waits, after the control was told to stop.  May wait itself."""


class FollowedChain(Source):
    """Other nodes."""

    is_followed = True
    no_way_out = NO_UPSTREAM

    def __init__(self, views: Views, foundation: Foundation, origins: Origins) -> None:
        super().__init__(views)
        self._foundation = foundation
        self._origins = origins
        self.fees = origins.fees()
        self.simulator = origins.simulator if origins.nodes.all else None
        self.questions = origins.questions if origins.nodes.all else None
        self.exchange_times = origins.exchange_times
        self.bus = origins.bus
        settings = foundation.settings
        publishes = settings.sequencer and not settings.fisherman_mode
        self.other_nodes = origins.tx_sink if origins.nodes.all else None
        self.beside_peers = origins.tx_sink if origins.upstreams.all else None
        # A builder of blocks needs no other node for its transactions.
        self.sink = self.other_nodes if publishes else origins.tx_sink

    def now(self) -> float:
        return time.time()

    def network_values(self) -> NetworkValues | None:
        return self._origins.network_values()

    def feed(
        self, ingestor: Ingestor, mempool: Mempool, publication: Publication, proposals: ProposalSource | None
    ) -> None:
        views = self.views
        self.follower = self._origins.follow(
            ingestor,
            self._foundation.control,
            publication,
            mempool=mempool,
            view=lambda: views.newest,
            proposals=proposals,
        )

    def configure(self, configuration: NodeConfiguration) -> None:
        connect_polling(configuration, self._running.set_poll_interval)
        self._origins.configure(configuration)

    def interrupt(self) -> None:
        self._origins.interrupt()

    @property
    def _running(self) -> Follower:
        assert self.follower is not None  # a part is asked once it is fed
        return self.follower

    @property
    def is_confirmed(self) -> bool:
        return self._running.unconfirmed_from is None

    def is_ready(self) -> bool:
        return self._running.is_ready

    def sync_status(self) -> Mapping[str, Any]:
        return self._running.describe()

    def troubles(self) -> Mapping[str, str | None]:
        return self._running.faults() | self._origins.troubles()


class ChainWithL1(FollowedChain):
    """Other nodes and L1, or L1 alone."""

    def __init__(self, views: Views, foundation: Foundation, origins: Origins, l1: L1Reader) -> None:
        super().__init__(views, foundation, origins)
        self.l1 = self._l1 = l1
        self._requires_canonical = foundation.settings.require_canonical_rollup
        self.outbox_roots = l1.outbox_roots
        self.message_index = l1.message_index

    def now(self) -> float:
        """The time of L1's blocks."""
        return self._l1.now()

    def fee_facts(self) -> FeeFactsOfNode:
        from fastnode.workers.facts import FeeFactsOfNode

        return FeeFactsOfNode(l1=self._l1.newest_fees(), l1_slot_duration=self._l1.slot_duration)

    def l1_to_write_to(self, flag: str) -> L1Reader:
        return self._l1

    def hand_on_blobs(self, blobs: Mapping[bytes, bytes]) -> None:
        self._origins.hand_on_blobs(blobs)

    def sync_status(self) -> Mapping[str, Any]:
        l1 = self._l1.describe()
        canonical = {name: l1[name] for name in ("isCanonical", "canonicalRollup")}
        return {**super().sync_status(), **canonical, "l1": l1}

    def faults(self) -> Mapping[str, str | None]:
        return {**super().faults(), **(self._rollup() if self._requires_canonical else {})}

    def troubles(self) -> Mapping[str, str | None]:
        return {**super().troubles(), **self._l1.troubles(), **({} if self._requires_canonical else self._rollup())}

    def _rollup(self) -> Mapping[str, str | None]:
        return {"rollup": self._l1.canonical.reason}


class LocalChain(Source):
    """This node itself."""

    def __init__(self, views: Views, foundation: Foundation, network: LocalNetwork) -> None:
        super().__init__(views)
        # On demand: few nodes are a local network, and every start would pay for it.
        from fastnode.local_network.accounts import setup_allow_list

        self._foundation = foundation
        self._network = network
        self.fees = network.fees
        self.build = network.forward
        self.allow_list = setup_allow_list(foundation.data.store.chain.release)

    @property
    def runs(self) -> Runs:
        return self._network

    def now(self) -> float:
        return self._network.pool_time()

    def feed(
        self, ingestor: Ingestor, mempool: Mempool, publication: Publication, proposals: ProposalSource | None
    ) -> None:
        if not self._foundation.settings.is_in_fleet:  # else a block is built once the fleet has the transaction
            mempool.watch_accepted(self._network.forward)

    def configure(self, configuration: NodeConfiguration) -> None:
        connect_blocks(configuration, self._foundation.settings, self._network.reconfigure)

    def interrupt(self) -> None:
        self._network.interrupt()

    def faults(self) -> Mapping[str, str | None]:
        return self._network.faults()


def source_of(views: Views, foundation: Foundation, local: LocalNetwork | None) -> Source:
    origins = foundation.origins
    if local is not None:
        return LocalChain(views, foundation, local)
    if origins is None:
        return Source(views)
    if origins.l1 is None:
        return FollowedChain(views, foundation, origins)
    return ChainWithL1(views, foundation, origins, origins.l1)
