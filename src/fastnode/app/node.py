"""The composition root: builds the parts of a node from its settings, starts and stops them in order.

    start   lock the data directory, open the chain, publish the first view, open both ports,
            feed the chain from its sources in a thread: a chain file, then other nodes
    stop    close the ports after the running requests, stop the thread, close the chain, unlock

What a request reads is a :class:`~fastnode.view.View`.  Ingestion publishes a new one after each
commit, from its thread, by assigning ``node.view``; the RPC engine takes it once per request body.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib import resources
from pathlib import Path
from typing import Any, Final, cast

from fastnode.api.openrpc import DISCOVER, discovery
from fastnode.app.effects import configuration_of, connect_building, connect_mempool, connect_polling
from fastnode.app.following import Following
from fastnode.app.health import health_of
from fastnode.app.ingestion import IngestionThread
from fastnode.app.method_tables import Services, admin_methods, public_methods
from fastnode.app.node_settings import (
    admin_key_of,
    allow_list_extension_of,
    check_network,
    limits_of,
    log_block_budget,
    warn_of_absent_parts,
)
from fastnode.app.sample import NO_BLOCKS, SampleMarks, sample_chain
from fastnode.app.watching import Watching
from fastnode.archiver.commit import ChainCommit
from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.queries import ChainView
from fastnode.archiver.store import ArchiverStore
from fastnode.chain_data import ChainData, ChainOptions
from fastnode.config.configuration import NodeConfiguration
from fastnode.config.consistency import check_settings
from fastnode.config.settings import Settings
from fastnode.errors import SettingError, StartError
from fastnode.fees.sources import ChainFees, FeeSource
from fastnode.http.health import Health
from fastnode.http.meters import CallMeters
from fastnode.jsonrpc.engine import Engine
from fastnode.jsonrpc.hold_off import HoldOff
from fastnode.jsonrpc.methods import Method, MethodSet, MethodTable
from fastnode.jsonrpc.provider_limits import ProviderLimits
from fastnode.jsonrpc.provider_rules import read_provider_rules
from fastnode.kernels import simple_request
from fastnode.keystore.validators import Validators
from fastnode.local_network.accounts import TOKEN_ALLOW_LIST
from fastnode.local_network.network import LocalNetwork
from fastnode.local_network.opening import BeginningChain, open_network
from fastnode.log import fields
from fastnode.log_index.function_names import FunctionNames
from fastnode.mempool.pool import NOT_READY
from fastnode.mempool.service import Mempool, MempoolOptions
from fastnode.mempool.store import POOL_DIRECTORY
from fastnode.metrics.collector import Sources
from fastnode.metrics.port import metrics_server
from fastnode.public_execution.service import Simulation
from fastnode.serving.api_key import ApiKeyGuard, introduce
from fastnode.serving.same_origin import SameOriginGuard
from fastnode.serving.server import HttpServer, RpcServer, describe_bind_error
from fastnode.serving.version_headers import version_headers
from fastnode.snapshots.index import Network
from fastnode.snapshots.service import SnapshotUploads
from fastnode.snapshots.startup import start_from_snapshot
from fastnode.sources.chain_import import adopt_chain_file
from fastnode.sources.follower import Follower
from fastnode.sources.l1.service import L1Reader
from fastnode.sources.publication import Publication
from fastnode.sources.rollback import SyncOperator
from fastnode.sources.sync_control import SyncControl
from fastnode.status_page.explorer import Explorer
from fastnode.status_page.log_tail import LogTail
from fastnode.status_page.overview import NodeSources, Overview
from fastnode.status_page.pages import StatusPage, open_paths
from fastnode.view import Committed, View

__all__ = ["Node"]

logger = logging.getLogger(__name__)

#: Methods that run in threads.  Far more than cores: transactions that are hashed or flushed to the disk at
#: the same time cost hardly more than one.
RPC_THREADS: Final = 24


class Node:
    """A node with its parts.  ``start`` once, ``stop`` once; both in the same event loop.

    SettingError for a setting whose value makes no sense.
    """

    def __init__(self, settings: Settings) -> None:
        check_settings(settings)
        self.settings = settings
        self._allow_list_extension = allow_list_extension_of(settings)
        self._views: simple_request.Published[View | None] = simple_request.Published(None)
        self.public: RpcServer | None = None
        self.admin: RpcServer | None = None
        self.metrics: HttpServer | None = None
        self._resources = ExitStack()
        self._threads = ThreadPoolExecutor(RPC_THREADS, thread_name_prefix="rpc")
        self._resources.callback(self._threads.shutdown)
        self._data: ChainData | None = None
        self._mempool: Mempool | None = None
        self._ingestion: IngestionThread | None = None
        self.sync_control = SyncControl()
        self._sync_operator: SyncOperator | None = None
        self._uploads: SnapshotUploads | None = None
        self._following: Following | None = None
        self._beginning: BeginningChain | None = None
        self.local_network: LocalNetwork | None = None
        self._joining: asyncio.Future[None] | None = None
        self._stop_restoring = threading.Event()
        self._hold_off: HoldOff | None = None
        #: Told of each commit, in this order, in the thread that ingests.
        self._subscribers: list[Callable[[Committed], None]] = []
        self._fees: FeeSource = ChainFees()
        self._serves_sample = False
        self._is_importing = False
        self._watching = Watching(settings, is_ready=self._is_ready)
        self._log_tail = LogTail()
        self._public_names: frozenset[str] = frozenset()
        self._failure: asyncio.Future[None] | None = None
        self._is_stopping = False

    # ---- life ------------------------------------------------------------------------------

    @property
    def view(self) -> View | None:
        """What a request that comes now is answered from; None before anything is there."""
        return self._views.value

    @view.setter
    def view(self, view: View | None) -> None:
        self._views.publish(view)

    async def start(self) -> None:
        """StartError or DatabaseError, with everything closed again, when the node cannot start."""
        self._failure = asyncio.get_running_loop().create_future()
        self._resources.enter_context(self._log_tail.attached())
        try:
            await self._in_thread(self._start_from_snapshot)
            self._data = data = self._open_data()
            self._following = self._open_following(data.store)
            source = self._choose_source(data.store)
            if self._following is not None:
                await self._in_thread(self._join_network, self._following, data.store)
            check_network(self.settings, data.store.chain)
            log_block_budget(self.settings, data.store.chain)
            warn_of_absent_parts(self.settings)
            publication = Publication(self._publish)
            ingestor = data.open_ingestor(verify=self.settings.verify, on_commit=publication)
            if self._beginning is not None:
                await self._in_thread(self._open_local_network, self._beginning, data, ingestor)
            self._sync_operator = SyncOperator(self.sync_control, ingestor)
            self._uploads = SnapshotUploads(data.directory.path, self._sync_operator.at_rest)
            self._publish_first(ingestor)
            self._fees = self._open_fees()
            self._mempool = self._open_mempool(data)
            self._subscribers.append(self._mempool.on_committed)
            if self._following is not None:
                self._following.attach(self._mempool, lambda: self.view)
            if self.local_network is not None:
                self.local_network.attach(self._mempool)
            await self._open_ports(data, ingestor)
            await self._open_metrics_port(data, ingestor)
            self._feed(data, ingestor, source, publication)
        except BaseException:
            await self.stop()
            raise

    async def wait_for_failure(self) -> None:
        """Never returns; raises what ended ingestion."""
        assert self._failure is not None
        await self._failure

    async def stop(self) -> None:
        """Answer what is being answered, finish the block being written, close everything."""
        await self._announce_stop()
        for server in (self.public, self.admin, self.metrics):
            if server is not None:
                await server.stop(grace_seconds=self.settings.shutdown_grace_s)
        if self._uploads is not None:
            await asyncio.to_thread(self._uploads.close)
        self.sync_control.stop()
        if self.local_network is not None:
            self.local_network.wake()
        self._stop_restoring.set()
        if self._following is not None:
            await asyncio.to_thread(self._following.interrupt)
        if self._joining is not None:
            await asyncio.gather(self._joining, return_exceptions=True)
        if self._ingestion is not None:
            await asyncio.to_thread(self._ingestion.stop)
        self._save_filter()
        if self._failure is not None:
            self._failure.cancel()
        self.view = None
        self._resources.close()

    async def _announce_stop(self) -> None:
        """From here on /readyz says no; go on serving until load balancers have asked it."""
        is_serving = self.public is not None and not self._is_stopping
        self._is_stopping = True
        if is_serving and self.settings.shutdown_delay_s:
            await asyncio.sleep(self.settings.shutdown_delay_s)

    def _save_filter(self) -> None:
        """The next start reads the filter of known tags from a file instead of from all logs."""
        data, view = self._data, self.view
        if data is None or view is None:
            return
        try:
            data.indexes.save_filter(view.chain, data.tag_filter_file)
        except OSError as error:
            logger.warning("the tag filter is not saved", extra=fields(reason=error.strerror))

    # ---- chain -----------------------------------------------------------------------------

    def _start_from_snapshot(self) -> None:
        """In a thread, before anything is open: an old chain may have to give way."""
        settings = self.settings
        urls = settings.snapshots_urls or ()
        start_from_snapshot(
            settings.sync_mode,
            urls,
            settings.data_directory,
            learn_network=self._network_of_upstreams,
            is_stopped=self._stop_restoring.is_set,
        )

    def _network_of_upstreams(self) -> Network | None:
        """Which network a snapshot must be of while nothing is stored; None when nobody is followed."""
        if self.settings.upstream_url is None:
            return None
        # Where ``stop`` finds it, to interrupt it.
        self._following = following = Following(self.settings, lambda: None)
        try:
            following.start()
            chain, _ = following.learn_chain(self.settings.genesis)
        finally:
            self._following = None
            following.close()
        return Network.from_node_info(chain.node_info)

    def _open_data(self) -> ChainData:
        settings = self.settings
        data = self._resources.enter_context(ChainData.open(settings.data_directory, options=ChainOptions.of(settings)))
        logger.info("data directory", extra=fields(path=data.directory.path))
        return data

    @property
    def _marks(self) -> SampleMarks:
        assert self._data is not None
        return SampleMarks(self._data.directory.path)

    def _choose_source(self, store: ArchiverStore) -> Path | None:
        """The chain file to load, with its genesis already in the store; None: serve what is stored."""
        if self.settings.local_network:
            assert self._data is not None
            self._beginning = BeginningChain(self.settings, store, self._data.directory.path)
            return None
        if self.settings.chain_file is not None:
            source = self.settings.chain_file
        elif self._following is not None:
            return None
        elif not store.has_chain or self._marks.is_unfinished:
            source = self._resources.enter_context(resources.as_file(sample_chain()))
            self._marks.begin()
        else:
            self._serves_sample = self._marks.is_sample
            return None
        self._serves_sample = self.settings.chain_file is None
        adopt_chain_file(store, source)
        return source

    def _open_local_network(self, beginning: BeginningChain, data: ChainData, ingestor: Ingestor) -> None:
        assert data.state is not None
        network = open_network(self.settings, ingestor, data.state, data.directory.path, self.sync_control)
        beginning.set_up(network, ingestor)
        self.local_network = network

    def _open_following(self, store: ArchiverStore) -> Following | None:
        if self.settings.upstream_url is None:
            if self.settings.l1_rpc_urls is not None:
                logger.warning("L1 is not read: no node is followed (--upstream-url)")
            return None
        following = Following(self.settings, lambda: store.chain if store.has_chain else None)
        self._resources.callback(following.close)
        following.start()
        return following

    async def _in_thread(self, work: Callable[..., None], *arguments: object) -> None:
        """Run what may take long; it ends when ``stop`` interrupts it, and nothing is closed under it."""
        self._joining = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
        await asyncio.shield(self._joining)

    def _join_network(self, following: Following, store: ArchiverStore) -> None:
        """Make sure that the upstreams are on the stored chain's network; with nothing stored, learn theirs."""
        if store.has_chain:
            following.check_network()
            return
        chain, genesis = following.learn_chain(self.settings.genesis)
        store.adopt_chain(chain, genesis)

    def _publish_first(self, ingestor: Ingestor) -> None:
        """What is stored is served at once; its state too, if a crash did not leave it behind."""
        self._publish(ChainCommit(ingestor.view))
        if self.view is None:
            self.view = View(ingestor.view)

    def _publish(self, commit: ChainCommit) -> None:
        """Called by ingestion, in its thread, when chain and state are at the same block.

        At the start they may differ, after a crash; until the state has caught up the view has none.
        """
        assert self._data is not None
        assert self._data.state is not None
        state = self._data.state.view
        if state.tip.number == commit.view.tip_number:
            self.view = view = View(commit.view, state)
            committed = Committed(view, commit.blocks, commit.undone)
            for announce in self._subscribers:
                announce(committed)

    def _open_fees(self) -> FeeSource:
        if self.local_network is not None:
            return self.local_network.fees
        return ChainFees() if self._following is None else self._following.fees()

    def _open_mempool(self, data: ChainData) -> Mempool:
        assert self.view is not None
        following, local = self._following, self.local_network
        extension = self._allow_list_extension
        if local is not None:
            extension = (*TOKEN_ALLOW_LIST, *extension)
        mempool = Mempool.open(
            data.directory.path / POOL_DIRECTORY,
            self.view,
            MempoolOptions.of(self.settings, extension),
            fees=self._fees,
            sink=None if following is None else following.tx_sink,
            on_accepted=None if local is None else local.forward,
            closed=NO_BLOCKS if self._serves_sample else None,
            learned=None if following is None else following.network_values(),
            now=self._chain_time,
        )
        self._resources.callback(mempool.close)
        if self._serves_sample:
            logger.warning(
                "sample chain: nothing else is stored or given, so this node serves a recording; no block follows and "
                "no transaction is taken. To follow a network give --upstream-url URL, to serve another chain "
                "--chain-file FILE"
            )
        elif mempool.limitation is not None:
            logger.warning("transactions that are sent here are refused", extra=fields(reason=mempool.limitation))
        return mempool

    def _chain_time(self) -> float:
        """The time of the chain is that of L1's blocks, or of a local network.

        The clock on the wall stands in for it; while no block can come that is at least the newest block's time.
        """
        if self.local_network is not None:
            return self.local_network.pool_time()
        if self._l1 is not None:
            return self._l1.now()
        view = self.view
        if self._following is not None or view is None:
            return time.time()
        return max(time.time(), _newest_timestamp(view.chain))

    def _feed(self, data: ChainData, ingestor: Ingestor, source: Path | None, publication: Publication) -> None:
        self._is_importing = source is not None
        if source is None:
            logger.info("serving the stored chain", extra=fields(tip=ingestor.view.tip_number))
        follower: Follower | LocalNetwork | None = self.local_network
        if self._following is not None:
            follower = self._following.follow(ingestor, self.sync_control, publication)
        loop = asyncio.get_running_loop()

        def on_failure(error: BaseException) -> None:
            loop.call_soon_threadsafe(self._fail, error)

        self._ingestion = IngestionThread(
            data,
            ingestor,
            source,
            self.sync_control,
            follower,
            on_caught_up=lambda: self._publish(ChainCommit(ingestor.view)),
            on_done=self._on_loaded,
            on_failure=on_failure,
        )
        self._ingestion.start()

    def _on_loaded(self) -> None:
        self._marks.finish()
        self._is_importing = False

    def _fail(self, error: BaseException) -> None:
        if self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)

    # ---- RPC -------------------------------------------------------------------------------

    @property
    def _l1(self) -> L1Reader | None:
        """None when L1 is not read."""
        return None if self._following is None else self._following.l1

    async def _open_ports(self, data: ChainData, ingestor: Ingestor) -> None:
        settings = self.settings
        network = None if self._mempool is None else self._mempool.validator.rules.network
        headers = version_headers(
            data.store.chain,
            vk_tree_root=None if network is None else network.vk_tree_root,
            protocol_contracts_hash=None if network is None else network.protocol_contracts_hash,
        )
        if self._following is not None and settings.rpc_holdoff_ms:
            self._hold_off = HoldOff(settings.rpc_holdoff_ms / 1000)
            self._subscribers.append(self._hold_off.on_committed)
        configuration = self._open_configuration(data)
        validators = await asyncio.to_thread(Validators, settings.key_store_directory, configuration)
        self._resources.callback(validators.close)
        if self._l1 is not None:
            committees = self._l1.committees
            self._watching.learn_from(committees.committee_of, committees.proposer_of, self._l1.slashing_rounds)
        self._resources.callback(self._watching.close)
        await asyncio.to_thread(self._watching.open, data.directory.path, data.store.chain, configuration)
        self._subscribers.append(self._watching.on_committed)
        assert self._mempool is not None
        mempool, names = self._mempool, FunctionNames()
        methods = public_methods(
            settings,
            Services(
                known_tags=data.indexes.known_tags,
                function_names=names,
                allow_list=lambda: mempool.allow_list,
                mempool=mempool,
                fees=self._fees,
                simulation=self._open_simulation(mempool, names),
                is_ready=lambda: self.no_transactions_because is None,
                sync_status=self._sync_status,
                questions=None if self._following is None else self._following.relay,
                sentinel=self._watching.sentinel,
                outbox_root=None if self._l1 is None else self._l1.outbox_root,
                local_network=self.local_network,
            ),
        )
        self.public = self._server(methods, settings.host, settings.port, headers)
        self._public_names = frozenset(method.name for method in methods) | {DISCOVER}
        if settings.rpc_limits is not None:
            self._limit_clients(settings.rpc_limits)
        await _listen(self.public, settings.port)
        slashing = self._watching.slashing
        operator_methods = admin_methods(configuration, validators, self._sync_operator, self._uploads, slashing)
        self.admin = self._server(operator_methods, settings.admin_host, settings.admin_port, headers)
        key = admin_key_of(settings)
        guard = ApiKeyGuard.of(key, open_paths(settings.api_prefix))
        self.admin.set_guard(guard or SameOriginGuard())
        self.admin.set_pages(self._status_page(self.public, self.admin, ingestor, guard))
        await _listen(self.admin, settings.admin_port, "admin-")
        introduce(key)
        urls = {"url": self.public.url, "admin_url": self.admin.url}
        logger.info("serving", extra=fields(**urls, port=self.public.port, admin_port=self.admin.port))

    def _status_page(
        self, public: RpcServer, admin: RpcServer, ingestor: Ingestor, guard: ApiKeyGuard | None
    ) -> StatusPage:
        sources = NodeSources(
            servers={"public": public, "admin": admin},
            view=lambda: self.view,
            health=self._health,
            progress=ingestor.progress,
            log=self._log_tail,
            mempool=self._mempool,
            sync_status=self._sync_status,
        )
        return StatusPage(
            Overview(sources),
            Explorer(public.engine.table),
            sources.view,
            knows_key=(lambda headers: True) if guard is None else guard.knows_key,
            executor=self._threads,
        )

    def _open_simulation(self, mempool: Mempool, names: FunctionNames) -> Simulation:
        upstream = None if self._following is None else self._following.simulator
        simulation = Simulation.of(self.settings, mempool.clock, self._fees.current, upstream, names)
        self._resources.callback(simulation.close)
        return simulation

    async def _open_metrics_port(self, data: ChainData, ingestor: Ingestor) -> None:
        settings = self.settings
        if settings.metrics_port == 0 or self.public is None or self.admin is None:
            return
        sources = Sources(
            servers={"public": self.public, "admin": self.admin},
            view=lambda: self.view,
            progress=ingestor.progress,
            data_directory=data.directory.path,
            known_tags=data.indexes.known_tags,
            mempool=self._mempool,
            uploads=self._uploads,
            sync_status=self._sync_status,
        )
        host, port = settings.metrics_host, settings.metrics_port
        server = metrics_server(
            sources, host=host, port=port, reference_names=settings.metrics_reference_names, executor=self._threads
        )
        try:
            await server.start()
        except OSError as error:
            # The chain is served without; a port that happens to be taken is no reason not to.
            logger.warning("no metrics", extra=fields(reason=describe_bind_error(error, host, port, "metrics-")))
            return
        self.metrics = server

    def _open_configuration(self, data: ChainData) -> NodeConfiguration:
        configuration = configuration_of(
            self.settings,
            allow_list_extension=self._allow_list_extension,
            real_proofs=bool(data.store.chain.node_info.get("realProofs", True)),
        )
        if self._mempool is not None:
            connect_mempool(configuration, self._mempool)
        if self.local_network is not None:
            connect_building(configuration, self.settings, self.local_network.reconfigure)
        if self._following is not None:
            connect_polling(configuration, self._following.set_poll_interval)
        return configuration

    def _server(self, methods: list[Method], host: str, port: int, headers: list[tuple[str, str]]) -> RpcServer:
        settings = self.settings
        table = MethodTable([*methods, discovery(methods)], cast(MethodSet, settings.method_set))
        engine = Engine(
            table,
            self._views,
            limits=limits_of(settings),
            executor=self._threads,
            hold_off=self._hold_off,
            meters=CallMeters(method.name for method in table) if settings.metrics_port else None,
        )
        return RpcServer(
            engine,
            host=host,
            port=port,
            headers=headers,
            error_status=int(settings.rpc_error_status),
            health=self._health,
            path_prefix=settings.api_prefix,
        )

    def _limit_clients(self, file: Path) -> None:
        assert self.public is not None
        rules = read_provider_rules(file, self._public_names)
        self.public.set_provider_limits(ProviderLimits(rules))
        logger.info("limits of clients", extra=fields(file=file, keys=len(rules.keys)))

    def reload_limits(self) -> None:
        """Read the limits of clients again; if anything is wrong with them, those from before stay."""
        if self.settings.rpc_limits is None or self.public is None:
            return
        try:
            self._limit_clients(self.settings.rpc_limits)
        except SettingError as error:
            logger.error("the limits of clients stay as they were", extra=fields(reason=error))

    # ---- what it says of itself --------------------------------------------------------------

    @property
    def no_transactions_because(self) -> str | None:
        """Why no transaction is taken now; None if good ones are: what node_isReady tells."""
        if self.view is None or self.view.state is None or self._is_importing:
            return "the chain is being loaded"
        if not self._is_ready():
            return "the chain is not new enough yet"
        return NOT_READY if self._mempool is None else self._mempool.limitation

    def _is_ready(self) -> bool:
        return self._following is None or self._following.is_ready

    def _sync_status(self) -> dict[str, Any] | None:
        return None if self._following is None else self._following.status()

    def _health(self) -> Health:
        return health_of(self.view, self._sync_status(), is_ready=self._is_ready(), is_stopping=self._is_stopping)


def _newest_timestamp(chain: ChainView) -> int:
    """Seconds; of the newest block."""
    info = chain.block_info(chain.tip_number)
    return 0 if info is None else info.timestamp


async def _listen(server: RpcServer, port: int, prefix: str = "") -> None:
    try:
        await server.start()
    except OSError as error:
        raise StartError(describe_bind_error(error, server.host, port, prefix)) from error
