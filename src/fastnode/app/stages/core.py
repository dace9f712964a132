"""The second stage of a node: it knows its chain, and has everything that its methods read.

What is stored is published at once; its state too, unless a crash left it behind.  Nothing is ingested yet.
"""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from fastnode.app.ground.effects import configuration_of, connect_mempool
from fastnode.app.ground.node_settings import (
    check_network,
    check_release,
    log_block_budget,
    log_bodies,
    log_history,
    unknown_release,
    untried_parts,
)
from fastnode.app.ground.sample import NO_BLOCKS
from fastnode.app.ground.views import Views
from fastnode.app.ground.way_out import WayOut
from fastnode.app.stages.condition import Condition
from fastnode.app.stages.foundation import Foundation, trace_threads_of
from fastnode.app.stages.local_network import NoLocalNetwork, local_role_of
from fastnode.app.stages.no_peers import NoPeers
from fastnode.app.stages.parts import Parts
from fastnode.app.stages.source import Source, source_of
from fastnode.app.stages.validator_watch import OffenseDetection, ValidatorWatch
from fastnode.archiver.ingest import Ingestor
from fastnode.artifacts.store import ARTIFACTS_DIRECTORY, ArtifactStore
from fastnode.config.configuration import NodeConfiguration
from fastnode.errors import SettingError, StartError
from fastnode.http.limited_threads import LimitedThreads
from fastnode.keystore.validators import Validators
from fastnode.log import log_facts
from fastnode.log_index.function_names import FunctionNames
from fastnode.mempool.service import Mempool, MempoolOptions
from fastnode.mempool.store import POOL_DIRECTORY
from fastnode.proofs.options import judge_of
from fastnode.public_execution.service import Simulation
from fastnode.public_execution.simulation import ADMITTED_MAX, RUNNING_MAX
from fastnode.recent_blocks import RecentBlocks
from fastnode.records import dataclass
from fastnode.snapshots.service import BusUploads, SnapshotUploads
from fastnode.sources.chain_file import bundled_chain
from fastnode.sources.chain_import import adopt_chain_file
from fastnode.sources.publication import Publication
from fastnode.sources.rollback import SyncOperator

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastnode.archiver.store import ArchiverStore
    from fastnode.config.settings import Settings
    from fastnode.local_network.network import LocalNetwork
    from fastnode.local_network.opening import BeginningChain
    from fastnode.snapshots.location import Location
    from fastnode.world_state.leaves import LeavesOfBlock

__all__ = ["Core", "join_network"]

logger = logging.getLogger("fastnode.app")


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    foundation: Foundation
    #: The chain file to load; None: there is none.
    chain_file: Path | None
    ingestor: Ingestor
    views: Views
    recent: RecentBlocks
    #: Source of new blocks.
    source: Source
    #: Work beside the chain of a node that is a local network, or that is none.
    local_network: NoLocalNetwork
    operator: SyncOperator
    uploads: SnapshotUploads
    mempool: Mempool
    function_names: FunctionNames
    artifacts: ArtifactStore
    simulation: Simulation
    #: Threads that run simulations; None: another node runs them.
    simulation_threads: LimitedThreads | None
    #: The same of traces.
    trace_threads: LimitedThreads | None
    configuration: NodeConfiguration
    validators: Validators
    validator_watch: ValidatorWatch
    #: Source and watch first; the rest of them is added next.
    parts: Parts
    condition: Condition
    #: Ways to peers, or none.
    peers: NoPeers


async def join_network(foundation: Foundation, stack: AsyncExitStack) -> Core:
    """StartError when the chain is not the one that the settings, the upstreams or L1 name."""
    return await foundation.start_wait.in_thread(_join, foundation, stack)


def _join(foundation: Foundation, stack: AsyncExitStack) -> Core:
    """In a thread: what waits for other nodes or reads the databases must not hold up the probes."""
    settings, data = foundation.settings, foundation.data
    chain_file = _choose_source(foundation, stack)
    beginning = _begin_local_network(foundation, stack) if settings.local_network else None
    _learn_chain(foundation)
    if settings.release is not None:
        _serve_as(data.store, settings.release)
    chain = data.store.chain
    check_network(settings, chain)
    check_release(settings, chain)
    log_block_budget(settings, chain)
    data.indexes.catch_up(data.store)
    views = Views(data.state, data.store.open_view())
    stack.callback(views.replace, None)
    publication = Publication(views.publish)
    ingestor = data.open_ingestor(verify=settings.verify, on_commit=publication)
    local = _open_local_network(foundation, ingestor, beginning, lambda: mempool)
    views.show(ingestor.view)
    source = source_of(views, foundation, local)
    log_history(settings, data.state.view, is_followed=source.is_followed, runs_follow=ingestor.takes_runs)
    log_bodies(settings, ingestor.view)
    peers = _open_gossip(foundation, source)
    way_out = _way_out(foundation, source, peers)
    mempool = _open_mempool(foundation, source, peers, way_out)
    stack.callback(mempool.close)
    recent = RecentBlocks()
    views.subscribe(recent.on_committed)
    views.subscribe(mempool.on_committed)
    source.feed(ingestor, mempool, publication, peers.proposals)
    operator = SyncOperator(
        foundation.control,
        ingestor,
        lambda: mempool.pool.clear("forced rollback"),
        (lambda: None) if local is None else local.on_rolled_back,
    )
    uploads = _uploads_of(foundation, operator)
    condition = Condition(
        views,
        foundation.control,
        mempool,
        is_sample=foundation.is_sample,
        accepts_sample=settings.accept_sample_chain,
    )
    condition.missing.update(untried_parts(settings, chain.release) | unknown_release(chain))
    configuration = _open_configuration(foundation, mempool)
    source.configure(configuration)
    validators = Validators(settings.key_store_directory, configuration)
    stack.callback(validators.close)
    condition.watch(data.faults, mempool.faults)
    condition.mention(mempool.troubles, uploads.troubles, validators.troubles)
    condition.tell(lambda: {"pool": mempool.summary()})
    parts = Parts(views, condition, stack)
    parts.add(source)
    watch = parts.add(_open_validator_watch(foundation, source, condition, configuration))
    way_out.watch(data.faults, source.faults)  # the pool says itself what keeps it from its work
    names = FunctionNames()
    artifacts = ArtifactStore(data.directory.path / ARTIFACTS_DIRECTORY)
    simulation, threads = _open_simulation(foundation, mempool, source, names, artifacts, stack)
    return Core(
        foundation=foundation,
        chain_file=chain_file,
        ingestor=ingestor,
        views=views,
        recent=recent,
        source=source,
        local_network=local_role_of(settings, local),
        operator=operator,
        uploads=uploads,
        mempool=mempool,
        function_names=names,
        artifacts=artifacts,
        simulation=simulation,
        simulation_threads=threads,
        trace_threads=None if threads is None else trace_threads_of(foundation.settings, stack),
        configuration=configuration,
        validators=validators,
        validator_watch=watch,
        parts=parts,
        condition=condition,
        peers=peers,
    )


# ---- the chain -------------------------------------------------------------------------------------


def _choose_source(foundation: Foundation, stack: AsyncExitStack) -> Path | None:
    """The chain file to load, with its genesis already in the store; None: serve what is stored."""
    settings, data = foundation.settings, foundation.data
    if settings.local_network:
        return None
    if settings.chain_file is not None:
        source = settings.chain_file
    elif foundation.is_sample:
        source = stack.enter_context(resources.as_file(bundled_chain()))
    else:
        return None
    adopt_chain_file(data.store, source)
    return source


# Modules of a local network are imported on demand: few nodes are one, and every start would pay for them.


def _begin_local_network(foundation: Foundation, stack: AsyncExitStack) -> BeginningChain:
    from fastnode.local_network.opening import BeginningChain

    resources = ExitStack()
    stack.callback(resources.close)
    with foundation.start_wait.waiting_for(lambda: "the chain to begin with"):
        settings = _with_snapshot(foundation, resources)
        return BeginningChain(settings, foundation.data.store, foundation.data.directory.path, resources)


def _with_snapshot(foundation: Foundation, stack: ExitStack) -> Settings:
    """The settings; a snapshot to fork from is restored into a directory of its own first."""
    from fastnode.local_network.forking import SNAPSHOT, SNAPSHOTS

    settings = foundation.settings
    source = settings.fork_from or ""
    if foundation.data.store.has_chain or not source.startswith(SNAPSHOTS):
        return settings
    from fastnode.snapshots.startup import start_from_snapshot

    location = source.removeprefix(SNAPSHOT)
    directory = Path(stack.enter_context(TemporaryDirectory(prefix="fastnode-fork-"))) / "snapshot"
    if not start_from_snapshot("snapshot", [location], directory, learn_network=lambda: None):
        raise StartError(f"--fork-from {source}: there is no snapshot that can be used; the log says why")
    return replace(settings, fork_from=str(directory))


def _open_local_network(
    foundation: Foundation, ingestor: Ingestor, beginning: BeginningChain | None, mempool: Callable[[], Mempool]
) -> LocalNetwork | None:
    if beginning is None:
        return None
    from fastnode.local_network.opening import open_network

    data = foundation.data
    l1 = beginning.attach_l1(ingestor.view.chain)
    network = open_network(
        foundation.settings, ingestor, data.state, data.directory.path, foundation.control, l1, mempool
    )
    work, progress = (lambda: beginning.what_is_awaited(ingestor)), (lambda: beginning.progress(ingestor))
    with foundation.start_wait.waiting_for(work, progress=progress):
        beginning.set_up(network, ingestor)
    foundation.resetting.finish(data.directory)
    return network


def _learn_chain(foundation: Foundation) -> None:
    """With nothing stored, learn which chain this will be.  What is stored is served before others are asked."""
    start_wait, store, origins = foundation.start_wait, foundation.data.store, foundation.origins
    if store.has_chain or origins is None:
        return
    waiting = start_wait.waiting_for(origins.what_is_awaited, origins.is_standing_by)
    with waiting, start_wait.interruption.calls(origins.interrupt):
        store.adopt_chain(*origins.learn_chain(foundation.settings.genesis))


def _serve_as(store: ArchiverStore, version: str) -> None:
    """SettingError when the chain is of another release than the version that the operator names."""
    release = store.chain.release
    if not release.has_version(version):
        raise SettingError(f"--release {version}: the chain is of release {release.name}")
    store.serve_as(release.version_named(version))


# ---- what stands on it -----------------------------------------------------------------------------


def _open_gossip(foundation: Foundation, source: Source) -> NoPeers:
    if not foundation.settings.p2p_enabled:
        return NoPeers(source)
    # On demand: without it nothing of the network is imported.
    from fastnode.app.stages.gossip import Gossip

    return Gossip(foundation, source)


def _open_mempool(foundation: Foundation, source: Source, peers: NoPeers, way_out: WayOut) -> Mempool:
    view = source.views.newest
    assert view is not None
    extension = (*source.allow_list, *foundation.allow_list_extension)
    real_proofs = bool(view.chain.chain.node_info.get("realProofs", True))
    judge = judge_of(foundation.settings, foundation.data.directory.path, required=real_proofs)
    if way_out.is_closed:
        judge.expect_no_transactions()
    mempool = Mempool.open(
        foundation.data.directory.path / POOL_DIRECTORY,
        view,
        MempoolOptions.of(foundation.settings, extension),
        judge=judge,
        fees=source.fees,
        # In a fleet one of its nodes hands on what any of them took.
        sink=None if foundation.settings.is_in_fleet else peers.pool_sink,
        closed=way_out.blocked_by,
        learned=source.network_values(),
        now=source.now,
    )
    if foundation.is_sample:
        logger.warning(
            "sample chain: nothing else is stored or given, so this node serves a recording, kept in a temporary "
            "directory; no block follows and no transaction is taken. To follow a network give --upstream-url URL, to "
            "serve another chain --chain-file FILE"
        )
    elif mempool.limitation is not None:
        logger.warning("transactions that are sent here are refused", extra=log_facts(reason=mempool.limitation))
    return mempool


def _uploads_of(foundation: Foundation, operator: SyncOperator) -> SnapshotUploads:
    settings, data, bus = foundation.settings, foundation.data, foundation.bus

    def leaves() -> LeavesOfBlock:
        from fastnode.snapshots.leaf_create import leaves_to_ship

        return leaves_to_ship(data.store, data.state)

    def open_on_bus() -> Location:
        from fastnode.snapshots.bus_location import BusLocation
        from fastnode.snapshots.index import Network

        assert bus is not None
        return BusLocation.to_fill(bus, Network.of(data.store.chain), settings.bus_leaves_mb << 20)

    return SnapshotUploads(
        data.directory.path,
        operator.at_rest,
        settings.snapshot_upload_locations or (),
        leaves if settings.snapshot_upload_form == "leaves" else None,
        BusUploads(open_on_bus, leaves) if settings.bus_publish and settings.bus_leaves_mb else None,
    )


def _way_out(foundation: Foundation, source: Source, peers: NoPeers) -> WayOut:
    """Way out of this node for transactions of clients."""
    if foundation.is_sample:
        return WayOut(NO_BLOCKS)
    settings = foundation.settings
    release = foundation.data.store.chain.release
    if release.limitation is not None and not (settings.local_network or untried_parts(settings, release)):
        return WayOut(release.limitation)
    builds = settings.local_network or (settings.sequencer and not settings.fisherman_mode)
    if builds or settings.is_in_fleet or source.other_nodes is not None:
        return WayOut(None)
    return peers.way_out()


def _open_configuration(foundation: Foundation, mempool: Mempool) -> NodeConfiguration:
    chain = foundation.data.store.chain
    mana_limit = chain.l1_constants.get("rollupManaLimit")
    configuration = configuration_of(
        foundation.settings,
        allow_list_extension=foundation.allow_list_extension,
        real_proofs=bool(chain.node_info.get("realProofs", True)),
        mana_limit=None if mana_limit is None else int(mana_limit),
        l1_chain_id=chain.l1_chain_id,
        slot_duration_s=chain.slot_duration,
    )
    connect_mempool(configuration, mempool)
    return configuration


def _open_validator_watch(
    foundation: Foundation, source: Source, condition: Condition, configuration: NodeConfiguration
) -> ValidatorWatch:
    settings, data = foundation.settings, foundation.data
    if not settings.detects_offenses:
        return ValidatorWatch(settings, source.l1)
    return OffenseDetection(
        settings,
        source.l1,
        directory=data.directory.path,
        chain=data.store.chain,
        configuration=configuration,
        is_ready=condition.is_ready,
        is_confirmed=lambda: source.is_confirmed,
        now=source.now,
    )


def _open_simulation(
    foundation: Foundation,
    mempool: Mempool,
    source: Source,
    names: FunctionNames,
    artifacts: ArtifactStore,
    stack: AsyncExitStack,
) -> tuple[Simulation, LimitedThreads | None]:
    current = source.fees.current
    simulation = Simulation.of(foundation.settings, mempool.clock, current, source.simulator, names, artifacts)
    if not simulation.is_local:
        return simulation, None
    threads = LimitedThreads(
        RUNNING_MAX,
        name="simulation",
        what="public simulations",
        admitted_max=ADMITTED_MAX,
        wait_s_max=foundation.settings.rpc_simulate_timeout_ms / 1000,
    )
    stack.callback(threads.shutdown)
    stack.callback(simulation.close)  # first, so that what runs ends
    return simulation, threads
