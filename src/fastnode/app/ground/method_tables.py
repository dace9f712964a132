"""Tables of the methods of each port, and the parts of the node that the methods need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import field
from typing import TYPE_CHECKING, Any

from fastnode.api import state as state_methods
from fastnode.api.admin import methods as configuration_methods
from fastnode.api.artifacts import event_methods, registering_methods
from fastnode.api.chain import MessageIndex
from fastnode.api.chain import methods as chain_methods
from fastnode.api.contracts import methods as contract_methods
from fastnode.api.fastnode import methods as fastnode_methods
from fastnode.api.logs import methods as log_methods
from fastnode.api.outbox_witness import OutboxRoots
from fastnode.api.peers import Heard
from fastnode.api.peers import methods as peer_methods
from fastnode.api.receipts import FleetStanding, TxKnowledge
from fastnode.api.rollup import methods as rollup_methods
from fastnode.api.sequencer import BlockProduction
from fastnode.api.sequencer import methods as sequencer_methods
from fastnode.api.simulation import methods as simulation_methods
from fastnode.api.slashing import Slashing
from fastnode.api.slashing import methods as slash_methods
from fastnode.api.snapshots import methods as snapshot_methods
from fastnode.api.sync import methods as sync_methods
from fastnode.api.tagged_logs import methods as tagged_log_methods
from fastnode.api.traces import kept_tx_methods
from fastnode.api.traces import methods as trace_methods
from fastnode.api.txs import methods as tx_methods
from fastnode.api.upstream import Questions
from fastnode.api.upstream import methods as upstream_methods
from fastnode.artifacts.store import ArtifactStore
from fastnode.config.allow_list import AllowedElement
from fastnode.config.configuration import NodeConfiguration
from fastnode.config.settings import Settings
from fastnode.fees.sources import ChainFees, FeeSource
from fastnode.jsonrpc.methods import Method
from fastnode.log_index.function_names import FunctionNames
from fastnode.log_index.known_tags import KnownTags
from fastnode.mempool.known_txs import FoundTx
from fastnode.mempool.service import Mempool
from fastnode.records import dataclass
from fastnode.sources.rollback import SyncOperator

if TYPE_CHECKING:
    from fastnode.keystore.validators import Validators
    from fastnode.local_network.network import LocalNetwork
    from fastnode.public_execution.service import Simulation
    from fastnode.sentinel.sentinel import Sentinel
    from fastnode.snapshots.service import SnapshotUploads

__all__ = ["Services", "admin_methods", "public_methods", "tracing_methods"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Parts that handlers need beside the view of a call."""

    known_tags: KnownTags
    #: The public calls that may be made before the fee is secured.
    allow_list: Callable[[], Sequence[AllowedElement]]
    function_names: FunctionNames = field(default_factory=FunctionNames)
    #: None: the methods of transactions say that they are not ready.
    mempool: Mempool | None = None
    fees: FeeSource = field(default_factory=ChainFees)
    #: None: the method of simulations says that it is not ready.
    simulation: Simulation | None = None
    #: Threads that run simulations; None: the threads of all requests do.
    simulation_threads: Executor | None = None
    #: The same of traces.
    trace_threads: Executor | None = None
    #: Names of contracts.
    artifacts: ArtifactStore = field(default_factory=lambda: ArtifactStore(None))
    #: Looks for a transaction wherever it may still be.
    find_tx: Callable[[bytes], FoundTx | None] = lambda _hash: None
    #: Looks for it in this node alone.
    find_tx_here: Callable[[bytes], FoundTx | None] = lambda _hash: None
    #: Transactions of peers under a hash, in binary form, not checked; None: the node has no peers.
    ask_peers: Callable[[bytes], Sequence[bytes]] | None = None
    #: Asks the other nodes of the fleet about a transaction; None: there is no fleet.
    ask_fleet: Callable[[bytes], FleetStanding | None] | None = None
    #: Reason that no transaction is taken now; None if good ones are.
    no_transactions: Callable[[], str | None] = lambda: None
    #: Describes how the chain is followed; None when it is not.
    sync_status: Callable[[], dict[str, Any] | None] = lambda: None
    #: True if ingestion is paused.
    is_paused: Callable[[], bool] = lambda: False
    #: True if the chain is the one that comes with the package.
    is_sample: Callable[[], bool] = lambda: False
    #: Answers what only a full node can; None without an upstream.
    questions: Questions | None = None
    #: Watches validators; None when that is not wanted.
    sentinel: Sentinel | None = None
    #: Root of an epoch's messages on L1; None when L1 is not read.
    outbox_roots: OutboxRoots | None = None
    #: Leaf index of a message that the Inbox on L1 has; None when L1 is not read.
    message_index: MessageIndex | None = None
    #: The local network that this node runs; None when it runs none.
    local_network: LocalNetwork | None = None
    #: This node's record on the peer-to-peer network; None when it is not on it.
    own_record: Callable[[], str | None] | None = None
    #: Id and score of each peer that is connected; None where this process does not know them.
    connected_peers: Callable[[], Sequence[tuple[str, float]]] | None = None
    #: Proposals and attestations of a slot that peers have sent; None: the node has no peers.
    heard: Heard | None = None

    @property
    def known_txs(self) -> TxKnowledge:
        mempool = self.mempool
        if mempool is None:
            return TxKnowledge()
        return TxKnowledge(
            is_pending=mempool.pool.is_waiting,
            waiting_reason=mempool.waiting_reason,
            departure_of=mempool.pool.departure_of,
            tx_json=mempool.pool.tx_json,
            ask_fleet=self.ask_fleet,
        )


def public_methods(settings: Settings, services: Services) -> list[Method]:
    """Every method of the public port, of both method sets."""
    local = services.local_network
    return [
        *([] if local is None else _local_network_methods(local, services)),
        # The developer is the operator there.
        *([] if local is None else registering_methods(services.artifacts)),
        *chain_methods(
            tx_notes=None if local is None else local.notes,
            known_txs=services.known_txs,
            is_ready=lambda: services.no_transactions() is None,
            outbox_roots=services.outbox_roots,
            message_index=services.message_index,
            own_record=services.own_record,
        ),
        *state_methods.METHODS,
        *log_methods(services.known_tags, tags_max=settings.rpc_max_tags, logs_max=settings.archiver_max_logs),
        *tagged_log_methods(services.known_tags, tags_max=settings.rpc_max_tags),
        *rollup_methods(services.sync_status),
        *peer_methods(services.connected_peers, services.heard),
        *contract_methods(services.function_names, services.allow_list),
        *tx_methods(services.mempool, services.fees),
        *simulation_methods(services.simulation, services.simulation_threads),
        *kept_tx_methods(services.find_tx_here),
        *(tracing_methods(services) if settings.public_traces or local is not None else []),
        *event_methods(services.artifacts, settings.archiver_max_logs),
        *upstream_methods(services.questions, services.sentinel, services.own_record),
        *fastnode_methods(
            services.sync_status, services.is_paused, services.no_transactions, is_sample=services.is_sample
        ),
    ]


def tracing_methods(services: Services) -> list[Method]:
    """Methods that trace: of the admin port, and of the public one where the operator or a local network has them."""
    return trace_methods(services.simulation, services.find_tx, services.trace_threads, artifacts=services.artifacts)


def _local_network_methods(local: LocalNetwork, services: Services) -> list[Method]:
    # On demand: few nodes are a local network, and every start would pay for it.
    from fastnode.api.local_network import methods
    from fastnode.local_network.changes import Changes

    simulation = services.simulation
    tracer = None if simulation is None else simulation.tracer(services.find_tx_here)
    return methods(local, Changes(local), services.function_names, tracer)


def admin_methods(
    configuration: NodeConfiguration,
    validators: Validators | None = None,
    sync: SyncOperator | None = None,
    uploads: SnapshotUploads | None = None,
    slashing: Slashing | None = None,
    artifacts: ArtifactStore | None = None,
    production: BlockProduction | None = None,
    traces: Sequence[Method] | None = None,
) -> list[Method]:
    """Every method of the admin port; those that need what is None say that there is none."""
    return [
        *configuration_methods(configuration, validators),
        *sync_methods(sync),
        *sequencer_methods(production),
        *snapshot_methods(uploads),
        *slash_methods(slashing or Slashing()),
        *registering_methods(artifacts or ArtifactStore(None)),
        *(trace_methods() if traces is None else traces),
    ]
