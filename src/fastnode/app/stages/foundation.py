"""The first stage of a node: its ports listen, its data directory is locked, its databases are open.

Nothing is known of the chain yet.  The ports answer the probes, and say what the start waits for.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from fastnode.app.ground.node_settings import budget_of, limits_of
from fastnode.app.ground.reset_files import settle
from fastnode.app.ground.sample import has_source
from fastnode.app.ground.seat import OwnSeat
from fastnode.app.ground.start_wait import StartWait
from fastnode.chain_data import ChainData, ChainOptions, has_databases
from fastnode.config.allow_list import AllowedElement
from fastnode.config.l1_settings import A_PLACE_OF_BLOBS
from fastnode.config.settings import Settings
from fastnode.errors import SettingError, StartError
from fastnode.http.allowance import MemoryBudget
from fastnode.http.fair_threads import FairThreads
from fastnode.http.limited_threads import LimitedThreads
from fastnode.http.turns import Turns
from fastnode.log import log_facts
from fastnode.proofs.options import checks_at_once
from fastnode.records import dataclass
from fastnode.serving.server import HttpServer, bind_failure
from fastnode.serving.starting_application import StartingApplication
from fastnode.serving.version_headers import OWN_VERSION
from fastnode.snapshots.allowed_places import below_named
from fastnode.sources.sync_control import SyncControl
from fastnode.status_page.log_tail import LogTail
from fastnode.status_page.starting import StartingPage
from fastnode.storage.data_directory import DataDirectory, require_reachable
from fastnode.values.lineage import Lineage
from fastnode.values.urls import without_secrets

if TYPE_CHECKING:
    from fastnode.app.ground.takeover import FirstProcess, Resetting
    from fastnode.app.stages.origins import Origins
    from fastnode.bus.connection import Bus
    from fastnode.snapshots.contents import Contents
    from fastnode.snapshots.index import Network
    from fastnode.snapshots.location import Location
    from fastnode.workers.seat import PrimarySeat

__all__ = ["Foundation", "Ports", "listen", "open_node", "trace_threads_of"]

logger = logging.getLogger("fastnode.app")

#: Threads of methods that mostly wait: transactions that are hashed or flushed to the disk at the same time cost
#: hardly more than one.  Not many more than that: the event loop waits for the interpreter behind each that runs.
RPC_THREADS: Final = 8
#: Threads of methods that keep a processor busy, and the interpreter from the event loop.
BUSY_THREADS: Final = 2
#: ``--sync-mode`` that never begins with a snapshot.
FULL: Final = "full"
#: Connections of a port whose node is starting.
_STARTING_CONNECTIONS_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Ports:
    """Servers that answer while the node starts; those that serve take their ports over."""

    public: HttpServer
    admin: HttpServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    settings: Settings
    #: The operator's entries beside the network's own.
    allow_list_extension: tuple[AllowedElement, ...]
    start_wait: StartWait
    #: Ids of this node, and of those that it follows.
    lineage: Lineage
    log_tail: LogTail
    ports: Ports
    threads: FairThreads
    busy_threads: FairThreads
    #: Turns of the event loop, shared by all ports.
    turns: Turns
    budget: MemoryBudget
    data: ChainData
    #: None: no node is followed.
    origins: Origins | None
    #: Bus of the fleet, of a node that is in one.
    bus: Bus | None
    control: SyncControl
    #: The chain is the recording that comes with the package.
    is_sample: bool
    #: Seat at the public port.
    seat: OwnSeat | PrimarySeat
    #: Directory and way back that this process took over from a local network that was reset; None: nothing.
    resetting: Resetting | FirstProcess


async def open_node(
    settings: Settings,
    start_wait: StartWait,
    stack: AsyncExitStack,
    seat: OwnSeat | PrimarySeat,
    resetting: Resetting | FirstProcess,
) -> Foundation:
    """StartError or DatabaseError; ``stack`` closes what was opened.  ``seat``: who answers on the public port.
    ``resetting``: what a local network goes on with."""
    extension = settings.tx_public_setup_allow_list_extend or ()
    if settings.data_directory is not None:
        require_reachable(settings.data_directory)
    log_tail = LogTail()
    stack.enter_context(log_tail.attached())
    lineage = Lineage(seat.instance)
    ports = await _open_ports(settings, start_wait, lineage, stack, seat)
    databases = stack.enter_context(ExitStack())  # closed after the threads that read them
    # Each proof that is checked has a thread wait for it.
    threads = FairThreads(RPC_THREADS + checks_at_once(settings), name="rpc")
    stack.callback(threads.shutdown)
    busy_threads = FairThreads(BUSY_THREADS, name="rpc-busy", keeps_busy=True)
    stack.callback(busy_threads.shutdown)
    bus = _open_bus(settings, stack)
    followed_bus = bus if settings.follows_bus else None
    await start_wait.in_thread(_restore_snapshot, settings, start_wait, followed_bus, lineage)
    data, is_sample = await start_wait.in_thread(_open_data, settings, databases, resetting)
    if seat.is_first:
        await start_wait.in_thread(_remove_copies, data)
    origins = _open_origins(settings, data, followed_bus, lineage, stack)
    return Foundation(
        settings=settings,
        allow_list_extension=extension,
        start_wait=start_wait,
        lineage=lineage,
        log_tail=log_tail,
        ports=ports,
        threads=threads,
        busy_threads=busy_threads,
        turns=Turns(),
        budget=budget_of(settings),
        data=data,
        origins=origins,
        bus=bus,
        control=SyncControl(),
        is_sample=is_sample,
        seat=seat,
        resetting=resetting,
    )


# ---- ports ---------------------------------------------------------------------------------------


async def _open_ports(
    settings: Settings, start_wait: StartWait, lineage: Lineage, stack: AsyncExitStack, seat: OwnSeat | PrimarySeat
) -> Ports:
    limits = replace(limits_of(settings), connections_max=_STARTING_CONNECTIONS_MAX)

    def application(page: StartingPage | None) -> StartingApplication:
        return StartingApplication(
            start_wait.reason, settings.api_prefix, lambda: [OWN_VERSION, lineage.header], limits, page
        )

    page = StartingPage(start_wait.report)
    ports = Ports(
        HttpServer(application(None), host=settings.host, port=settings.port, limits=limits),
        HttpServer(application(page), host=settings.admin_host, port=settings.admin_port, limits=limits),
    )
    await seat.open(ports.public, lambda: listen(ports.public, settings.port))
    stack.push_async_callback(ports.public.stop, grace_seconds=0.0)
    await listen(ports.admin, settings.admin_port, "admin-")
    stack.push_async_callback(ports.admin.stop, grace_seconds=0.0)
    extra = log_facts(host=settings.host, port=ports.public.port, admin_port=ports.admin.port)
    logger.info("listening", extra=extra)
    return ports


async def listen(server: HttpServer, port: int, prefix: str = "") -> None:
    """StartError, with the setting to change, when the port cannot be had."""
    try:
        await server.start()
    except OSError as error:
        raise bind_failure(error, server.host, port, prefix) from error


# ---- databases -----------------------------------------------------------------------------------


def _open_data(settings: Settings, stack: ExitStack, resetting: Resetting | FirstProcess) -> tuple[ChainData, bool]:
    """The databases, and whether they are those of the sample chain.  In a thread: LevelDB may have to read its log
    again.
    """
    directory, options = settings.data_directory, ChainOptions.of(settings)
    if directory is not None and not resetting.is_unfinished():
        settle(directory)
    is_given = has_source(settings)
    if is_given or (directory is not None and has_databases(directory)):
        data = ChainData.open(directory, options=options, adopted=resetting.adopted)
        stack.callback(data.end)
        if not resetting.is_unfinished():
            resetting.finish(data.directory)
        if settings.local_network:
            data.require_new()  # its genesis is made here, so that another one would not be the same chain
        if is_given or data.store.has_chain:
            logger.info("data directory", extra=log_facts(path=data.directory.path))
            return data, False
        data.require_new()
        data.end()
    if directory is None:
        data = ChainData.open(None, options=options)
    else:
        stack.enter_context(DataDirectory.open(directory, create=True))  # it may be unusable, or in use
        data = ChainData(DataDirectory.temporary(), create=True, options=options)
    stack.callback(data.end)
    return data, True


def _remove_copies(data: ChainData) -> None:
    """In a thread: those of workers that were killed together with their primary."""
    from fastnode.workers.hub import COPIES_DIRECTORY

    shutil.rmtree(data.directory.path / COPIES_DIRECTORY, ignore_errors=True)


def _restore_snapshot(settings: Settings, start_wait: StartWait, bus: Bus | None, lineage: Lineage) -> None:
    """In a thread, before anything is open: the snapshot may replace an old chain.  ``bus``: the followed one."""
    if settings.sync_mode == FULL or settings.local_network:
        return
    urls, on_bus = settings.snapshots_urls or (), bus if settings.data_directory is not None else None
    if not urls and on_bus is None:
        return
    if urls and settings.follows_bus:
        urls = (*urls, *_announced_snapshots(settings, start_wait, bus, lineage))
    from fastnode.snapshots.startup import start_from_snapshot

    directory, is_given = settings.data_directory, has_source(settings)
    if directory is None and not is_given:
        raise SettingError("--snapshots-urls: say where the chain is to be kept with --data-directory")
    with start_wait.waiting_for(lambda: "a snapshot"):
        is_restored = start_from_snapshot(
            settings.sync_mode,
            urls,
            settings.data_directory,
            learn_network=lambda: _network_of_upstreams(settings, start_wait, bus, lineage),
            confirm=(lambda contents: _ask_l1(settings, start_wait, contents)) if settings.reads_l1 else None,
            form=settings.snapshots_form,
            confirm_leaves=_confirmation_of_leaves(settings, start_wait, bus, lineage),
            others_of_leaves=None if on_bus is None else partial(_leaves_on_bus, on_bus),
            is_stopped=start_wait.interruption.is_set,
        )
    if directory is not None and not (is_restored or is_given or has_databases(directory)):
        raise StartError(
            f"no snapshot of {', '.join(map(without_secrets, urls))} can be used, as the log says, and nothing else "
            f"gives a chain: start again when one is there, or give a node to follow (--upstream-url)"
        )


@contextmanager
def _asking(settings: Settings, start_wait: StartWait, bus: Bus | None, lineage: Lineage | None) -> Iterator[Origins]:
    """Origins that are there for a question, before anything is stored; a start that is interrupted ends it."""
    from fastnode.app.stages.origins import Origins

    origins = Origins(settings, lambda: None, bus=bus, lineage=lineage)
    try:
        waiting = start_wait.waiting_for(origins.what_is_awaited, origins.is_standing_by)
        with waiting, start_wait.interruption.calls(origins.interrupt):
            yield origins
    finally:
        origins.close()


def _ask_l1(settings: Settings, start_wait: StartWait, contents: Contents) -> None:
    """SnapshotError when the newest checkpoint of a snapshot is not the one on L1.  Waits for L1."""
    with _asking(settings, start_wait, None, None) as origins:
        origins.confirm(contents)


def _confirmation_of_leaves(
    settings: Settings, start_wait: StartWait, bus: Bus | None, lineage: Lineage
) -> Callable[[Contents], None] | None:
    """L1 says whether the chain of a snapshot of leaves is its own, or else a followed node; None without either."""
    if settings.reads_l1:
        return lambda contents: _ask_l1(settings, start_wait, contents)
    if settings.upstream_url is None and not settings.follows_bus:
        return None

    def ask_nodes(contents: Contents) -> None:
        with _asking(settings, start_wait, bus, lineage) as origins:
            origins.confirm_by_nodes(contents)

    return ask_nodes


def _leaves_on_bus(bus: Bus, network: Network, check: Callable[[], None]) -> Sequence[Location]:
    from fastnode.snapshots.bus_location import bus_locations

    return bus_locations(bus, network, check)


def _announced_snapshots(
    settings: Settings, start_wait: StartWait, bus: Bus | None, lineage: Lineage
) -> tuple[str, ...]:
    """Locations of snapshots that publishers tell of, below those that the settings name; only asked where a node would
    begin with one.  Others lead this node nowhere else, and to no other server with its credentials."""
    from fastnode.archiver.store import ARCHIVER_DIRECTORY

    directory = settings.data_directory
    if directory is None or (directory / ARCHIVER_DIRECTORY / "CURRENT").is_file():
        return ()
    with _asking(settings, start_wait, bus, lineage) as origins:
        origins.learn_chain(settings.genesis)
        told = origins.bus.snapshot_locations()
    named = settings.snapshots_urls or ()
    found = [below_named(each, named) for each in told]
    if None in found:
        logger.warning("a publisher tells of snapshots elsewhere than --snapshots-urls names; they are left alone")
    return tuple(each for each in found if each is not None and each not in named)


def _network_of_upstreams(
    settings: Settings, start_wait: StartWait, bus: Bus | None, lineage: Lineage
) -> Network | None:
    """Network that a snapshot must be of while nothing is stored; None when no node is followed."""
    if not settings.follows:
        return None
    from fastnode.snapshots.index import Network

    with _asking(settings, start_wait, bus, lineage) as origins:
        chain, _ = origins.learn_chain(settings.genesis)
    return Network.from_node_info(chain.node_info)


def _open_bus(settings: Settings, stack: AsyncExitStack) -> Bus | None:
    """It connects in the background.  SettingError for settings of the bus that make no sense; ModuleNotFoundError
    without its package."""
    if not settings.is_in_fleet:
        return None
    from fastnode.bus.connection import Bus
    from fastnode.bus.options import BusOptions

    bus = Bus(BusOptions.of(settings))
    stack.push_async_callback(asyncio.to_thread, bus.close)
    bus.start()
    return bus


def _open_origins(
    settings: Settings, data: ChainData, bus: Bus | None, lineage: Lineage, stack: AsyncExitStack
) -> Origins | None:
    """``bus``: the followed one.  None: blocks come from nowhere, or from this node."""
    if not settings.follows:
        if settings.reads_l1 and not settings.local_network and settings.chain_file is None:
            raise SettingError(
                f"--l1-rpc-urls alone is no source of blocks: give {A_PLACE_OF_BLOBS}, or a node to follow "
                "(--upstream-url)"
            )
        return None
    from fastnode.app.stages.origins import Origins

    store = data.store
    origins = Origins(
        settings,
        lambda: store.chain if store.has_chain else None,
        bus=bus,
        lineage=lineage,
        directory=data.directory.path,
    )
    stack.callback(origins.close)
    return origins


def trace_threads_of(settings: Settings, stack: ExitStack | AsyncExitStack) -> LimitedThreads:
    """Threads of traces, which are work for the interpreter: with more of them the event loop would have to wait for
    it."""
    # On demand: what executes is loaded later than the ports listen.
    from fastnode.public_execution.simulation import ADMITTED_MAX, TRACING_MAX

    threads = LimitedThreads(
        TRACING_MAX,
        name="trace",
        what="traces",
        admitted_max=ADMITTED_MAX,
        # One trace that takes all its time, and then another client's.
        wait_s_max=2 * settings.rpc_simulate_timeout_ms / 1000,
    )
    stack.callback(threads.shutdown)
    return threads
