"""A world: its L1, its network, its nodes, and its trace.

The nodes are whole ones (``Node.start``, with their ports and threads) in one process, each in a thread with an event
loop of its own.  What is not theirs is put in their place at the seams: ``socket.create_connection`` and the sockets
that a server binds.  Their databases are real LevelDBs, on disks of the world (disk.py).  A crash leaves a copy of the
directory as it is when the node's threads are stopped, each where it waits or writes; a power cut leaves less.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import logging
import os
import random
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.simulation.disk import Disk, newest_block, put_disks_in_place, without_numbers
from tests.simulation.funded import FundedChain
from tests.simulation.l1 import L1, Beacon, Provider
from tests.simulation.network import Listening, Wire
from tests.simulation.scheduler import BEGIN_S, Loop, Scheduler, Task, the_world
from tests.sources.made_chain import SHAPE, MadeChain

from fastnode import interpreter
from fastnode.app.process.node import Node
from fastnode.config.settings import Settings
from fastnode.http import fair_threads
from fastnode.kernels import clock
from fastnode.metrics import loop_lag
from fastnode.outgoing import network as outgoing
from fastnode.protocol.releases import FOUR, Release
from fastnode.serving import server
from fastnode.storage.database import SharedDatabase
from fastnode.workers import hub
from fastnode.workers.seat import PrimarySeat

__all__ = ["NodeOfWorld", "Violation", "World"]

PORT: Final = 8080
ADMIN_PORT: Final = 8880
#: Seconds for a stop, and for a start that waits for nobody.
PATIENCE_S: Final = 120.0


class Violation(AssertionError):  # noqa: N818 - it is what a seed finds
    """Something that must hold does not."""


class FundedMadeChain(MadeChain):
    kind = FundedChain


class Process:
    """One life of a node: what is killed together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.was_killed = False


class NodeOfWorld:
    """A node that is started, stopped, killed and started again."""

    def __init__(self, world: World, name: str, **settings: Any) -> None:
        self.world, self.name = world, name
        self._settings = settings
        self._life = 0
        self.directory = world.directory / f"{name}-0"
        self.process: Process | None = None
        self.node: Node | None = None
        self.disk = Disk(self, world.chance(f"disk of {name}"))
        self._loop: Loop | None = None
        self._stopping: asyncio.Event | None = None
        self._ended = threading.Event()
        #: Error that ended it; None: it was told to stop, or runs.
        self.error: BaseException | None = None

    @property
    def is_up(self) -> bool:
        return self.process is not None and not self._ended.is_set()

    @property
    def hosts(self) -> list[str]:
        """Those that answer on its public port."""
        return [self.name]

    @property
    def knows_own_alone(self) -> bool:
        """True if it says of no transaction that it waits which another has, a worker or a node of its fleet."""
        return self.hosts == [self.name] and "bus_url" not in self._settings

    def seat(self) -> PrimarySeat | None:
        """Of the primary of a node with workers."""
        return None

    def settings_now(self) -> Settings:
        return Settings(
            data_directory=self.directory,
            host=self.name,
            admin_host=self.name,
            port=PORT,
            admin_port=ADMIN_PORT,
            disable_admin_api_key=True,
            admin_names=(self.name,),
            **self._settings,
        )

    def start(self) -> None:
        self.process, self.error, self.node = Process(self.name), None, None
        self._ended = threading.Event()
        the_world().spawn(self.name, self._run, self.process)
        self.world.say(self.name, "starts")

    def stop(self) -> None:
        """As by SIGTERM.  Violation when it does not end."""
        self.world.say(self.name, "is told to stop")
        if self.node is None or self._loop is None or self._stopping is None:
            self.kill()
            return
        stopped = self.process
        self._loop.call_soon_threadsafe(self._stopping.set)
        if not self._ended.wait(PATIENCE_S):
            if self.process is not stopped:  # it has lost power meanwhile
                return
            raise Violation(f"{self.name} did not stop within {PATIENCE_S:g} s")
        self.process = self.node = None
        self.world.say(self.name, "has stopped")

    def can_be_killed(self) -> bool:
        """False while it holds what real processes would not share."""
        return self.world.can_end(self.process)

    def kill(self, *, is_power: bool = False, where: str = "") -> None:
        """End it where it is; it goes on with the directory as it is now, or as a power cut leaves it."""
        self.world.end(self.process)
        for listening in self.world.wire.nodes.values():
            if listening.host == self.name:
                listening.close()
        for forget in self.world.on_killed:
            forget(self.name)
        self._life += 1
        before, served = self.directory, None if self.node is None else self.node.view
        self.directory = self.world.directory / f"{self.name}-{self._life}"
        self.process = self.node = None
        self.world.say(self.name, f"{'loses power' if is_power else 'is killed'} {where}".rstrip())
        self.disk.leave(before, self.directory, is_power=is_power)
        if is_power and served is not None:
            self._require_served(before, served.chain.tips.proposed.number)

    def _require_served(self, before: Path, served: int) -> None:
        """A block that was served is there after a power cut, unless it has been taken back since."""
        scratch = self.world.directory / "scratch"
        found = newest_block(self.directory, scratch)
        if found < served and found < newest_block(before, scratch):
            self.world.seen.append(
                Violation(f"{self.name} has served block {served}, and has {found} after a power cut")
            )

    def _run(self) -> None:
        self._loop = loop = Loop()
        try:
            asyncio.set_event_loop(loop)
            loop.set_exception_handler(self._on_loop_error)
            loop.run_until_complete(self._live())
        except BaseException as error:  # noqa: BLE001 - it is told
            self.error = error
            self.world.say(self.name, f"ends: {type(error).__name__}: {self.world.plain(str(error))}")
        finally:
            asyncio.set_event_loop(None)
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
            self._ended.set()

    def _on_loop_error(self, _loop: object, facts: dict[str, Any]) -> None:
        error = facts.get("exception")
        self.world.say(self.name, f"! {facts['message']}: {type(error).__name__}")
        violation = Violation(f"the loop of {self.name}: {facts['message']}: {error!r}")
        self.world.seen.append(violation.with_traceback(getattr(error, "__traceback__", None)))

    async def _live(self) -> None:
        self._stopping = asyncio.Event()
        node = await Node.start(self.settings_now(), self.seat())
        self.node = node
        self.world.say(self.name, "serves")
        failing = asyncio.ensure_future(node.wait_for_failure())
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait([failing, stopping], return_when=asyncio.FIRST_COMPLETED)
            if failing.done():
                failing.result()
        finally:
            self.node = None
            stopping.cancel()
            await node.stop()
            failing.cancel()


class World:
    """``tell`` gets each line of the trace, ``release``: of the chain.  Everything is made in a scheduler's thread."""

    def __init__(self, seed: int, directory: Path, tell: Callable[[str], None], release: Release = FOUR) -> None:
        self.seed, self.directory, self._tell, self.release = seed, directory, tell, release
        self.plot = self.chance("plot")
        self.scheduler = Scheduler(seed, self.plot.choice([0.0, 0.002, 0.02, 0.1]))
        self.scheduler.on_time = clock.give
        self.scheduler.on_error = self._on_error
        self.wire = Wire(self.chance("network"), _host)
        self.nodes: list[NodeOfWorld] = []
        #: Told the name of a node that is killed.
        self.on_killed: list[Callable[[str], None]] = []
        self.lines = 0
        self._digest = hashlib.sha256()
        #: Violations that threads other than the story have seen.
        self.seen: list[Violation] = []
        self.counts: dict[str, int] = {}

    def chance(self, name: str) -> random.Random:
        return random.Random(f"{self.seed} {name}")

    def open(self) -> None:
        """Make the chain and its L1."""
        directory = self.directory / "made"
        directory.mkdir()
        self.chain = FundedMadeChain(directory, SHAPE, self.release)
        record = self.chain.chain_record
        info, constants = record["nodeInfo"], record["l1Constants"]
        self.l1 = L1(info, constants)
        self.l1.inbox_form = self.release.inbox_form
        self.providers = {name: Provider(self.l1, info, constants, self.chance(name)) for name in ("l1-one", "l1-two")}
        self.beacon = Beacon(self.l1, self.chance("beacon"))
        self.wire.models |= {name: provider.answer for name, provider in self.providers.items()}
        self.wire.models["beacon"] = self.beacon.answer
        self.genesis = self.chain.write_genesis(self.directory / "genesis.jsonl")

    def add(self, name: str, **settings: Any) -> NodeOfWorld:
        node = NodeOfWorld(self, name, **settings)
        self.nodes.append(node)
        return node

    def node(self, name: str) -> NodeOfWorld:
        return next(node for node in self.nodes if node.name == name)

    def can_end(self, process: Process | None) -> bool:
        """False while it holds what real processes would not share."""
        is_busy = process is not None and self.scheduler.holds_what_all_share(process)
        return not is_busy and not interpreter.BUSY._free.empty()  # type: ignore[attr-defined]

    def end(self, process: Process | None) -> None:
        """Kill a process, as soon as that can be."""
        if process is None:
            return
        while not self.can_end(process):
            self.scheduler.sleep(0.001)
        self.scheduler.kill(process)
        process.was_killed = True

    # ---- the trace -----------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self.scheduler.now - BEGIN_S

    def say(self, who: str, what: str) -> None:
        whole = self.now
        line = f"{int(whole) // 3600:02}:{int(whole) // 60 % 60:02}:{whole % 60:06.3f}  {who:<10} {what}"
        self._digest.update(line.encode())
        self.lines += 1
        self._tell(line)

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def plain(self, text: str) -> str:
        """Without the names of directories and of databases' files, which differ from run to run."""
        return without_numbers(text.replace(str(self.directory), "~"))

    @property
    def digest(self) -> str:
        """Of the trace, and of how often the baton was handed over."""
        return hashlib.sha256(f"{self._digest.hexdigest()} {self.scheduler.steps}".encode()).hexdigest()[:16]

    def _on_error(self, task: Task, error: BaseException) -> None:
        self.say(_name(task), f"a thread ends: {task.name}: {type(error).__name__}: {self.plain(str(error))}")
        self.seen.append(Violation(f"a thread of {_name(task)} ended: {task.name}: {type(error).__name__}: {error}"))


def _name(task: Task | None) -> str:
    return task.group.name if task is not None and isinstance(task.group, Process) else "world"


def _host() -> str:
    return _name(the_world().current())


class Ordered(dict[Any, None]):
    """A set in the order in which its members came."""

    def add(self, member: object) -> None:
        self[member] = None

    def discard(self, member: object) -> None:
        self.pop(member, None)

    def remove(self, member: object) -> None:
        del self[member]


class LogLines(logging.Handler):
    """Warnings of the nodes, as lines of the trace; a traceback is a violation, for nobody expected it."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        world = self._world
        who = _host()
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            world.say(who, f"! {world.plain(record.getMessage())}: {type(error).__name__}: {world.plain(str(error))}")
            violation = Violation(f"{who} did not expect this: {record.getMessage()}: {error!r}")
            world.seen.append(violation.with_traceback(error.__traceback__))
            return
        if record.levelno >= logging.WARNING:
            facts = getattr(record, "facts", {})
            shown = " ".join(f"{name}={world.plain(str(value))}" for name, value in facts.items())
            world.say(who, f"! {world.plain(record.getMessage())} {shown}".rstrip())


def put_in_place(world: World) -> None:
    """Give the shipped code the sockets of the world, and points to switch at before writes."""
    wire = world.wire
    put_disks_in_place(world)

    async def bind(host: str, port: int) -> list[Any]:
        listening = Listening(host, port)
        wire.nodes[host, port] = listening
        return [listening]

    socket.create_connection = wire.connect  # type: ignore[assignment]
    server.bind = bind  # type: ignore[assignment]
    outgoing._is_ended = lambda connection: connection.sock.is_ended  # type: ignore[assignment]
    fair_threads._step_back = lambda: None  # type: ignore[assignment]
    os.sched_yield = lambda: None  # nobody else runs
    server.SWEEP_INTERVAL_S = 5.0  # type: ignore[misc]  # nobody is late for less, and each costs a round of the loop
    hub._LOOK_INTERVAL_S = 0.5  # type: ignore[misc]  # half of all looks find nothing, and each costs a health
    loop_lag._INTERVAL_S = 10.0  # type: ignore[misc]  # work takes no time here: there is no lag to see
    make = server.HttpServer.__init__

    def with_order(self: server.HttpServer, *arguments: Any, **settings: Any) -> None:
        make(self, *arguments, **settings)
        self._connections = Ordered()  # type: ignore[assignment]

    server.HttpServer.__init__ = with_order  # type: ignore[method-assign]
    write = SharedDatabase._write

    def switching(self: SharedDatabase, changes: Any, *, sync: bool) -> None:
        world.scheduler.may_switch()
        write(self, changes, sync=sync)
        world.scheduler.may_switch()

    SharedDatabase._write = switching  # type: ignore[method-assign]
    logging.getLogger("fastnode").addHandler(LogLines(world))
    logging.getLogger("fastnode").setLevel(logging.INFO)
    gc.disable()
