"""A node of a world in several processes: a primary, and workers that answer on its public port.

    supervisor (this module) ──┬─ primary     a whole node, with a door at which workers come
                               ├─ worker 1    answers from copies of the primary's databases, which are real ones
                               └─ worker 2

What is given: the sockets between primary and workers (:class:`Pipe`), the door, the port that workers share, and who
starts whom.  A process that is killed leaves its copies behind, and its ends of pipes are closed, as by a system.
"""

from __future__ import annotations

import asyncio
import errno
import io
import select
import threading
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from tests.simulation.network import Accepted, Connection, Listening
from tests.simulation.scheduler import Loop, Task, the_world
from tests.simulation.world import PATIENCE_S, PORT, NodeOfWorld, Process, Violation, World

from fastnode.app.process import worker as worker_process
from fastnode.app.process.worker import AWAY_MAX_S, Worker
from fastnode.app.roles import workers as primary_role
from fastnode.config.settings import Settings
from fastnode.http.health import Health
from fastnode.serving import server
from fastnode.storage import leveldb_copy
from fastnode.workers import hub, link
from fastnode.workers.seat import PrimarySeat, WorkerSeat
from fastnode.workers.shared_limits import SharedConnections

__all__ = ["NodeWithWorkers", "put_workers_in_place"]

#: Bytes that a pipe takes without a reader.
_ROOM: Final = 1 << 18
#: Seconds after which a worker must have seen that its primary has gone.
_SEEN_S: Final = 2.0
_LOOK_S: Final = 1.0
#: In long stories, seconds between looks of a primary for what is new, and between reports.
LONG_LOOK_S: Final = 2.0
LONG_REPORT_S: Final = 6.0


class Pipe:
    """One end of a connection between two processes.  No lock: one thread of the world runs at a time, and one that is
    killed must leave nothing behind that it holds."""

    def __init__(self) -> None:
        self._other: Pipe | None = None
        self._arrived = bytearray()
        self._is_over = False
        self._readers: list[Task] = []
        self._writers: list[Task] = []
        self.owner: object = None

    @classmethod
    def pair(cls) -> tuple[Pipe, Pipe]:
        one, other = cls(), cls()
        one._other, other._other = other, one
        return one, other

    def setblocking(self, _: bool) -> None:
        """Reading blocks, always."""

    def setsockopt(self, *_: Any) -> None:
        """There is nothing to set."""

    def send(self, data: bytes, _flags: int = 0) -> int:
        other = self._other
        if other is None or self._is_over or other._is_over:
            raise BrokenPipeError(errno.EPIPE, "gone")
        room = _ROOM - len(other._arrived)
        if room <= 0:
            raise BlockingIOError
        other._arrived += data[:room]
        _wake(other._readers)
        return min(room, len(data))

    def sendall(self, data: bytes) -> None:
        the_world().may_switch()
        while data:
            try:
                data = data[self.send(data) :]
            except BlockingIOError:
                _wait(self._writers)

    def makefile(self, _mode: str, buffering: int = 0) -> Pipe:
        return self

    def read(self, size: int) -> bytes:
        while len(self._arrived) < size and not self._is_over:
            _wait(self._readers)
        data = bytes(self._arrived[:size])
        del self._arrived[:size]
        if self._other is not None:
            _wake(self._other._writers)
        return data

    def shutdown(self, _how: int) -> None:
        for end in (self, self._other):
            if end is not None:
                end._is_over = True
                _wake(end._readers)
                _wake(end._writers)

    def close(self) -> None:
        self.shutdown(0)


def _wait(waiting: list[Task]) -> None:
    task = the_world().current()
    assert task is not None
    waiting.append(task)
    the_world().wait(None)


def _wake(waiting: list[Task]) -> None:
    tasks, waiting[:] = list(waiting), []
    for task in tasks:
        the_world().wake(task)


class Door:
    """Place at which workers come; the supervisor has it, so that they may come before the next primary is there."""

    def __init__(self, pipes: list[Pipe]) -> None:
        self._pipes = pipes
        self._come: deque[Pipe] = deque()
        self._waiting: list[Task] = []
        self._is_interrupted = False

    def begin(self) -> Door:
        """For a new primary."""
        self._is_interrupted = False
        self._waiting.clear()
        return self

    def connect(self) -> Pipe:
        here, there = Pipe.pair()
        here.owner = _process()
        self._pipes += (here, there)
        self._come.append(there)
        _wake(self._waiting)
        return here

    def accept(self) -> Pipe | None:
        if not self._come and not self._is_interrupted:
            _wait(self._waiting)
        if not self._come or self._is_interrupted:
            return None
        accepted = self._come.popleft()
        accepted.owner = _process()
        return accepted

    def interrupt(self) -> None:
        self._is_interrupted = True
        _wake(self._waiting)

    def close(self) -> None:
        """The supervisor keeps it."""


def _process() -> object:
    task = the_world().current()
    return None if task is None else task.group


class Dialling(io.RawIOBase):
    """A socket of a worker before it is connected, and the pipe then."""

    def __init__(self, doors: dict[str, Door]) -> None:
        self._doors = doors
        self._pipe: Pipe | None = None

    def connect(self, address: str) -> None:
        self._pipe = self._doors[address].connect()

    def __getattribute__(self, name: str) -> Any:
        pipe = object.__getattribute__(self, "_pipe") if name not in ("connect", "_doors", "_pipe") else None
        return object.__getattribute__(self, name) if pipe is None else getattr(pipe, name)


class WorkerSocket(Listening):
    """A worker's own socket of the public port; connections wait there for the next worker of its number."""

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def close(self) -> None:
        self.on_arrival = lambda: None


class SharedPort(Listening):
    """The system gives a connection to one of the sockets."""

    def __init__(self, world: World, host: str, sockets: list[WorkerSocket]) -> None:
        super().__init__(host, PORT)
        self._world, self._sockets = world, sockets

    def connect(self, client: Connection, peer: str) -> Accepted:
        return self._world.wire.chance.choice(self._sockets).connect(client, peer)

    def close(self) -> None:
        """The supervisor keeps it."""


class WorkerOfWorld:
    def __init__(self, node: NodeWithWorkers, number: int, socket: WorkerSocket) -> None:
        self.node, self.number, self.socket = node, number, socket
        self.name = socket.host
        self.process: Process | None = None
        self.worker: Worker | None = None
        self._is_first = True
        self._ended = threading.Event()
        self._loop: Loop | None = None
        self._stopping: asyncio.Event | None = None
        #: When it is started again; None: it runs.
        self.next_at: float | None = 0.0

    def start(self) -> None:
        self.process, self.next_at, self.worker = Process(self.name), None, None
        self._ended = threading.Event()
        the_world().spawn(self.name, self._run, self.process)
        self.node.world.say(self.name, "starts")

    def kill(self, seconds: float) -> None:
        if self.process is not None:
            self.node.end_process(self.process)
            self.node.world.say(self.name, "is killed")
        self.process = self.worker = None
        self.next_at = self.node.world.now + seconds

    def stop(self) -> None:
        if self.process is None or self._loop is None or self._stopping is None or self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        if not self._ended.wait(PATIENCE_S):
            raise Violation(f"{self.name} did not stop within {PATIENCE_S:g} s")
        self.process, self.worker, self.next_at = None, None, 0.0

    def _run(self) -> None:
        self._loop = loop = Loop()
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(self._live())
        finally:
            asyncio.set_event_loop(None)
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
            self._ended.set()

    async def _live(self) -> None:
        self._stopping = asyncio.Event()
        node = self.node
        seat = WorkerSeat(
            number=self.number,
            of=len(node.workers),
            listening=self.socket,  # type: ignore[arg-type]
            address=Path(node.name),
            is_first=self._is_first,
            takes_over=False,
            instance=node.name,
            buckets=None,  # type: ignore[arg-type]
            connections=node.connections,
        )
        self._is_first = False
        worker = Worker(node.settings(), seat)
        self.worker = worker
        await worker.run(asyncio.ensure_future(self._stopping.wait()))

    @property
    def health(self) -> Health | None:
        """None while it does not serve."""
        worker = self.worker
        return None if worker is None or not worker.serves else worker._health()

    @property
    def tip(self) -> Any:
        view = None if self.worker is None else self.worker._replica.view
        return None if view is None else view.chain.tips


class NodeWithWorkers(NodeOfWorld):
    """``count`` workers; who is killed comes again, the primary when the story starts it."""

    def __init__(self, world: World, name: str, count: int, **settings: Any) -> None:
        super().__init__(world, name, **settings)
        self._pipes: list[Pipe] = []
        self.door = Door(self._pipes)
        sockets = [WorkerSocket(f"{name}-w{number + 1}", PORT) for number in range(count)]
        self.workers = [WorkerOfWorld(self, number, socket) for number, socket in enumerate(sockets, 1)]
        self.connections = SharedConnections(count)
        self._is_first = True
        self._is_supervised = False
        #: When the primary was killed; None: it is there.
        self._gone_at: float | None = None
        world.wire.nodes[name, PORT] = SharedPort(world, name, sockets)
        for socket in sockets:
            world.wire.nodes[socket.host, PORT] = socket

    @property
    def hosts(self) -> list[str]:
        return [worker.name for worker in self.workers]

    def seat(self) -> PrimarySeat:
        is_first, self._is_first = self._is_first, False
        return PrimarySeat(
            listener=self.door,  # type: ignore[arg-type]
            workers=len(self.workers),
            port=PORT,
            is_first=is_first,
            instance=self.name,
        )

    def settings(self) -> Settings:
        return self.settings_now()

    def start(self) -> None:
        super().start()
        self._gone_at = None
        if not self._is_supervised:
            self._is_supervised = True
            threading.Thread(target=self._supervise, name=f"supervisor of {self.name}").start()

    def _supervise(self) -> None:
        while self._is_supervised:
            for worker in self.workers:
                if worker.next_at is not None and worker.next_at <= self.world.now:
                    worker.start()
            the_world().sleep(_LOOK_S)

    def stop(self) -> None:
        self._is_supervised = False
        for worker in self.workers:
            worker.stop()
        super().stop()

    def kill(self, *, is_power: bool = False, where: str = "") -> None:
        process = self.process
        super().kill(is_power=is_power, where=where)
        self._gone_at = self.world.now
        self._end_pipes(process)

    def end_process(self, process: Process) -> None:
        self.world.end(process)
        self._end_pipes(process)

    def _end_pipes(self, process: Process | None) -> None:
        for pipe in [pipe for pipe in self._pipes if pipe.owner is process]:
            pipe.close()
        self._pipes[:] = [pipe for pipe in self._pipes if not pipe._is_over]

    # ---- what must hold --------------------------------------------------------------------------

    def look(self) -> None:
        """A worker that has lost its primary says so, and is not ready once what it has is old."""
        away_s = 0.0 if self._gone_at is None else self.world.now - self._gone_at
        for worker in self.workers:
            health = worker.health
            if health is None or away_s < _SEEN_S:
                continue
            if health.components["primary"] is None:
                raise Violation(f"{worker.name} has lost its primary for {away_s:.0f} s, and does not say so")
            if away_s > AWAY_MAX_S + _SEEN_S and health.not_ready is None:
                raise Violation(f"{worker.name} has lost its primary for {away_s:.0f} s, and is ready")

    def what_is_missing(self) -> str | None:
        """In a calm; None: all workers are where the primary is, and say so."""
        view = None if self.node is None else self.node.view
        for worker in self.workers:
            health = worker.health
            if health is None or health.not_ready or health.failing or health.components["primary"]:
                return f"{worker.name} does not serve: {health}"
            if view is not None and worker.tip != view.chain.tips:
                return f"{worker.name} is not where its primary is: {worker.tip.proposed}, {view.chain.tips.proposed}"
        return None


async def _never_trim(_budget: object) -> None:
    """In the place of what looks at the memory of the whole process, which is that of all nodes."""
    await asyncio.Event().wait()


def put_workers_in_place(nodes: list[NodeWithWorkers], *, is_long: bool = False) -> None:
    """Give the shipped code pipes in the place of sockets, and a machine whose processors do not count.

    A copy that meets a compaction waits on the machine's clock, as LevelDB's own thread does: no time of the world.
    ``is_long``: primary and workers tell each other less often that nothing is new, which half of a day would go for.
    """
    if is_long:
        hub._LOOK_INTERVAL_S = LONG_LOOK_S  # type: ignore[misc]
        hub.FACTS_INTERVAL_S = worker_process.REPORT_INTERVAL_S = LONG_REPORT_S  # type: ignore[misc]
    doors = {node.name: node.door for node in nodes}
    link.socket = SimpleNamespace(  # type: ignore[assignment]
        socket=lambda *_: Dialling(doors), AF_UNIX=1, SOCK_STREAM=1
    )
    hub._Door = lambda door: door.begin()  # type: ignore[misc,assignment]
    primary_role.os = SimpleNamespace(kill=lambda *_: None, getppid=lambda: 0)  # type: ignore[assignment]
    primary_role.come_last = lambda: None  # type: ignore[assignment]
    worker_process.repeat_soon = lambda: None  # type: ignore[assignment]
    worker_process.settle_memory = lambda: None  # type: ignore[assignment]
    worker_process.trim_after_bursts = _never_trim  # type: ignore[assignment]
    worker_process._delay_s = lambda number: 0.002 * (number - 1)  # type: ignore[assignment]
    leveldb_copy.time = SimpleNamespace(sleep=lambda seconds: select.select((), (), (), seconds))  # type: ignore[assignment]
    server.listen = lambda listening: listening  # type: ignore[assignment]
