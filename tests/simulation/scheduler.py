"""One clock, one source of chance, one running thread: the threads of the shipped code, in an order that a seed gives.

    world = Scheduler(seed)
    install()                      # once in a process, before anything of fastnode is imported
    world.run(story)               # in the main thread; every thread that starts meanwhile is one of the world

    running ──── waits for a lock, a condition, a time, an answer ────► waiting
       ▲ │                                                                │
       │ └── the seed says "another one" ──► runnable ◄── it is released, │
       └──────── chosen by the seed ────────────┘          or its time has come

Each thread is a real one and runs the code that ships; it goes on only while it holds the baton, and hands it over
where it waits, and now and then where it need not: at a lock, before a write.  The clock moves when nobody can run, to
the next time that somebody waits for, so that a day without events costs nothing and work takes no time.

The alternatives: a rewrite of the parts as coroutines would test other code than what ships; to stop threads at any
bytecode (sys.settrace) costs fifty times as much for orders that locks and writes give nearly all of.  What is replaced
is what the standard library is made of, so that its own conditions, events, queues, executors and event loops work
on top of it unchanged: locks, threads, sleeping, the clocks and chance.
"""

from __future__ import annotations

import _thread
import asyncio
import concurrent.futures.thread
import functools
import heapq
import importlib
import itertools
import logging
import os
import queue
import random
import socket
import sys
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar, Final

__all__ = ["Scheduler", "StandstillError", "Task", "install", "the_world"]

#: Seconds since 1970 at the beginning of every world.
EPOCH: Final = 1_800_000_000.0
#: The monotonic clock at that time.
BEGIN_S: Final = 1_000.0
#: Looks at the clock without a pause after which it moves: a loop that waits for it without waiting comes to its end.
LOOKS_MAX: Final = 2_000
LOOKED_S: Final = 0.001
#: Rounds of an event loop while nobody else runs: it has always something to do, and comes to no end.
ROUNDS_ALONE_MAX: Final = 100_000
#: Shortest wait: less would be lost in the digits of the clock, and who waits for a moment would not come to it.
SHORTEST_S: Final = 1e-6

#: Locks of modules that are being imported.
importing: Final[dict[str, Any]] = importlib._bootstrap._module_locks  # type: ignore[attr-defined]
_real_thread = threading.Thread
_real_seed = random.Random.seed
get_ident: Final = _thread.get_ident
_world: Scheduler | None = None


class StandstillError(AssertionError):
    """Everybody waits for somebody, for ever."""


class Task:
    """A thread of the world.  ``group``: the process that it belongs to; a group that has been killed runs no more."""

    __slots__ = ("gate", "group", "is_waiting", "name", "number", "wait_number", "was_woken")

    def __init__(self, name: str, group: object, number: int) -> None:
        self.name, self.group, self.number = name, group, number
        self.gate = _thread.allocate_lock()
        self.gate.acquire()
        self.is_waiting = self.was_woken = False
        self.wait_number = 0


class Scheduler:
    """``switch_chance``: of handing the baton over where nobody must."""

    def __init__(self, seed: object, switch_chance: float = 0.0) -> None:
        self.order = random.Random()
        _real_seed(self.order, f"order {seed}")
        self._roll = self.order.random
        #: Randomness of the code under test.
        self.entropy = random.Random()
        _real_seed(self.entropy, f"entropy {seed}")
        self._seed_of_modules = f"modules {seed}"
        self.switch_chance = switch_chance
        self.now = BEGIN_S
        self.steps = 0
        self._looks = 0
        self._runnable: list[Task] = []
        self._timers: list[tuple[float, int, Task, int]] = []
        self._tasks: dict[int, Task] = {}
        self._count = 0
        self._dead: set[int] = set()
        self._current: Task | None = None
        self._story: Task | None = None
        self._is_stuck = False
        #: Told of errors that end threads.
        self.on_error: Callable[[Task, BaseException], None] = lambda task, error: None
        #: Told of the time: the clock of code that does not ask Python, in nanoseconds; 0 when the world is over.
        self.on_time: Callable[[int], None] = lambda now_ns: None

    # ---- life ----------------------------------------------------------------------------------

    def run(self, story: Callable[[], None]) -> None:
        """Run ``story`` in the calling thread as the first one of the world."""
        global _world, _numbers
        task = self._story = self._new("story", None)
        self._tasks[_thread.get_ident()] = task
        self._current, _world = task, self
        _numbers = itertools.count()
        tempfile._name_sequence = None  # type: ignore[attr-defined]  # it has a die of its own, anew in each process
        for dice in _dice_of_modules:  # alike: how many there are depends on which modules this machine has
            _real_seed(dice, self._seed_of_modules)
        self._set_now(self.now)
        try:
            story()
        finally:
            _world = None
            self.on_time(0)

    def kill(self, group: object) -> None:
        """No thread of the group goes on: it stays where it waits, whatever it holds."""
        self._dead.add(id(group))
        self._runnable = [task for task in self._runnable if id(task.group) not in self._dead]

    def holds_what_all_share(self, group: object) -> bool:
        """True while one of its threads holds a lock that real processes would not share: then it is not killed."""
        return any(lock._holder is not None and lock._holder.group is group for lock in Lock.shared)

    def spawn(self, name: str, body: Callable[[], None], group: object = None) -> Task:
        """A thread of the group, by default of that of the caller."""
        caller = self.current()
        task = self._new(name, caller.group if group is None and caller is not None else group)

        def run() -> None:
            self._tasks[_thread.get_ident()] = task
            task.gate.acquire()
            try:
                body()
            except BaseException as error:  # noqa: BLE001 - it is told
                self.on_error(task, error)
            finally:
                del self._tasks[_thread.get_ident()]
                self._hand_over(None)

        _thread.start_new_thread(run, ())
        self._runnable.append(task)
        return task

    def _new(self, name: str, group: object) -> Task:
        self._count += 1
        return Task(name, group, self._count)

    def current(self) -> Task | None:
        """None in a thread that is none of the world's."""
        return self._tasks.get(get_ident())

    # ---- the baton -----------------------------------------------------------------------------

    def may_switch(self) -> None:
        """A point at which another thread may come first, if the seed says so."""
        task = self._current
        if task is None or self.switch_chance <= 0 or not self._runnable or importing:
            return  # who imports holds a lock that is none of the world's
        if self._tasks.get(get_ident()) is not task:
            return
        if self._roll() < self.switch_chance:
            self.let_others()

    def let_others(self) -> None:
        task = self._current
        assert task is not None
        self._runnable.append(task)
        self._hand_over(task)

    def wait(self, timeout_s: float | None) -> bool:
        """Wait to be woken; False when the time was over before."""
        task = self._current
        assert task is not None
        assert self._tasks.get(get_ident()) is task, "a thread of another world waits"
        task.is_waiting, task.was_woken = True, False
        task.wait_number += 1
        if timeout_s is not None:
            self._count += 1
            heapq.heappush(self._timers, (self.now + max(SHORTEST_S, timeout_s), self._count, task, task.wait_number))
        self._hand_over(task)
        if self._is_stuck:
            raise StandstillError("everybody waits for ever")
        return task.was_woken

    def wake(self, task: Task) -> bool:
        """False if it does not wait any more."""
        if not task.is_waiting or id(task.group) in self._dead:
            return False
        task.is_waiting, task.was_woken = False, True
        self._runnable.append(task)
        return True

    def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            self.let_others()
        else:
            self.wait(seconds)

    def _hand_over(self, task: Task | None) -> None:
        """Let the next one run; comes back when ``task`` is chosen again."""
        if not self._runnable:
            self._let_time_pass()
        count = len(self._runnable)
        following = self._runnable.pop(int(self._roll() * count) if count > 1 else 0)
        self.steps += 1
        self._looks = 0
        if following is task:
            return
        self._current = following
        following.gate.release()
        if task is not None:
            task.gate.acquire()

    def _let_time_pass(self) -> None:
        """Until somebody can run: the story, where nobody waits for a time."""
        while not self._runnable:
            if not self._timers:  # the story tells of it
                assert self._story is not None
                self._is_stuck = True
                self._story.is_waiting = False
                self._runnable.append(self._story)
                return
            due = self._timers[0][0]
            self._set_now(max(self.now, due))
            while self._timers and self._timers[0][0] <= self.now:
                _, _, task, number = heapq.heappop(self._timers)
                if task.is_waiting and task.wait_number == number and id(task.group) not in self._dead:
                    task.is_waiting = False
                    self._runnable.append(task)

    def look(self) -> float:
        """The monotonic clock."""
        self._looks += 1
        if self._looks > LOOKS_MAX:
            self._looks = 0
            self._set_now(self.now + LOOKED_S)
        return self.now

    def _set_now(self, now: float) -> None:
        self.now = now
        self.on_time(int(now * 1e9))


def the_world() -> Scheduler:
    assert _world is not None
    return _world


# ---- what the standard library is made of -------------------------------------------------------


class Lock:
    """In the place of ``threading.Lock``; usable outside of a world, where nobody waits for it."""

    __slots__ = ("__weakref__", "_holder", "_is_locked", "_waiting")
    #: Locks that all processes of the world share, as they were made before it.
    shared: ClassVar[weakref.WeakSet[Lock]] = weakref.WeakSet()

    def __init__(self) -> None:
        self._is_locked = False
        self._holder: Task | None = None
        if _world is None:
            Lock.shared.add(self)
        #: None: nobody has ever waited for it, as for most.
        self._waiting: deque[Task] | None = None

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        world = _world
        if world is not None and world.switch_chance and world._runnable:  # a call costs more than all the rest here
            world.may_switch()
        if not self._is_locked:
            self._is_locked = True
            self._holder = None if world is None else world._current
            return True
        if not blocking:
            return False
        assert world is not None, "a lock is held outside of a world"
        deadline = None if timeout < 0 else world.now + timeout
        task = world.current()
        assert task is not None
        if self._waiting is None:
            self._waiting = deque()
        while self._is_locked:
            left = None if deadline is None else deadline - world.now
            if left is not None and left <= 0:
                return False
            self._waiting.append(task)
            if not world.wait(left) and task in self._waiting:
                self._waiting.remove(task)
        self._is_locked = True
        self._holder = task
        return True

    def release(self) -> None:
        if not self._is_locked:
            raise RuntimeError("release unlocked lock")
        self._is_locked = False
        self._holder = None
        if self._waiting:
            while self._waiting and _world is not None and not _world.wake(self._waiting.popleft()):
                continue

    def locked(self) -> bool:
        return self._is_locked

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()


class ReentrantLock(Lock):
    """In the place of ``threading.RLock``: that of the standard library makes two calls of each."""

    __slots__ = ("_count", "_owner")

    def __init__(self) -> None:
        super().__init__()
        self._owner: int | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = get_ident()
        if self._owner == me:
            self._count += 1
            return True
        if not Lock.acquire(self, blocking, timeout):
            return False
        self._owner, self._count = me, 1
        return True

    def release(self) -> None:
        if self._owner != get_ident():
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._owner = None
            Lock.release(self)

    __enter__ = acquire

    # ---- for conditions ------------------------------------------------------------------------

    def _is_owned(self) -> bool:
        return self._owner == get_ident()

    def _release_save(self) -> tuple[int, int | None]:
        if not self._count:
            raise RuntimeError("cannot release un-acquired lock")
        held = self._count, self._owner
        self._count, self._owner = 0, None
        Lock.release(self)
        return held

    def _acquire_restore(self, held: tuple[int, int | None]) -> None:
        Lock.acquire(self)
        self._count, self._owner = held


_numbers = itertools.count()


def _numbered(self: Any) -> int:
    """In the place of an object's usual hash, its address: sets of such objects have an order that a seed gives."""
    number: int | None = getattr(self, "_world_number", None)
    if number is None:
        number = self._world_number = next(_numbers)
    return number


class Thread(_real_thread):
    """In the place of ``threading.Thread``: a thread of the world."""

    _ended: threading.Event
    __hash__ = _numbered

    def start(self) -> None:
        if self._started.is_set():
            raise RuntimeError("threads can only be started once")
        self._ended = threading.Event()
        the_world().spawn(self.name, self._in_world)
        self._started.set()

    def _in_world(self) -> None:
        self._ident = _thread.get_ident()
        threading._active[self._ident] = self  # type: ignore[attr-defined]
        try:
            self.run()
        finally:
            del threading._active[self._ident]  # type: ignore[attr-defined]
            self._ended.set()

    @property
    def ident(self) -> int | None:
        return getattr(self, "_ident", None) or (1 if self._started.is_set() else None)

    def join(self, timeout: float | None = None) -> None:
        if not self._started.is_set():
            raise RuntimeError("cannot join thread before it is started")
        self._ended.wait(timeout)

    def is_alive(self) -> bool:
        return self._started.is_set() and not self._ended.is_set()


#: Chance of what is made before a world, which each world seeds anew.
_before: Final = random.Random("before")
_dice_of_modules: list[random.Random] = [random._inst]  # type: ignore[attr-defined]


def _seed(self: random.Random, a: Any = None, version: int = 2) -> None:
    if a is None:
        if _world is None and self not in _dice_of_modules:
            _dice_of_modules.append(self)
        a = (_before if _world is None else _world.entropy).getrandbits(128)
    _real_seed(self, a, version)


def _replace_clocks() -> None:
    real = {name: getattr(time, name) for name in ("monotonic", "time", "perf_counter", "sleep")}

    def monotonic() -> float:
        return real["monotonic"]() if _world is None else _world.look()

    def now() -> float:
        return real["time"]() if _world is None else EPOCH - BEGIN_S + _world.look()

    def sleep(seconds: float) -> None:
        if _world is None or _world.current() is None:
            real["sleep"](seconds)
        else:
            _world.sleep(seconds)

    time.monotonic = time.perf_counter = monotonic
    time.time = now
    time.monotonic_ns = time.perf_counter_ns = lambda: int(monotonic() * 1e9)
    time.time_ns = lambda: int(now() * 1e9)
    time.sleep = sleep
    for module, name in ((threading, "_time"), (queue, "time")):
        setattr(module, name, monotonic)


def _replace_chance() -> None:

    def urandom(size: int) -> bytes:
        return (_before if _world is None else _world.entropy).randbytes(size)

    os.urandom = urandom
    random._urandom = urandom  # type: ignore[attr-defined]
    random.Random.seed = _seed  # type: ignore[method-assign,assignment]


def install() -> None:
    """Replace, in this process and for good, all that threads wait with, the clocks and chance."""
    assert not any(name.partition(".")[0] == "fastnode" for name in sys.modules), "fastnode was imported before"
    threading._allocate_lock = threading.Lock = Lock  # type: ignore[attr-defined,misc,assignment]
    threading._CRLock, threading._PyRLock = None, ReentrantLock  # type: ignore[attr-defined]
    threading._active_limbo_lock = threading.RLock()  # type: ignore[attr-defined]  # a fork makes it anew anyway
    functools.RLock = threading.RLock  # type: ignore[attr-defined]  # each cached property has one
    threading.Thread = Thread  # type: ignore[misc]
    queue.SimpleQueue = queue._PySimpleQueue  # type: ignore[attr-defined,misc]
    concurrent.futures.thread._global_shutdown_lock = Lock()  # type: ignore[attr-defined]
    logging._lock = threading.RLock()  # type: ignore[attr-defined]
    concurrent.futures.Future.__hash__ = _numbered  # type: ignore[method-assign,assignment]
    concurrent.futures._base._AcquireFutures.__init__ = _in_order  # type: ignore[attr-defined]
    _replace_clocks()
    _replace_chance()


def _in_order(self: Any, futures: Any) -> None:
    self.futures = sorted(futures, key=hash)


# ---- an event loop --------------------------------------------------------------------------------


class _Selector:
    """Waits for the time of the next call, or for another thread."""

    def __init__(self) -> None:
        self._task: Task | None = None
        self.is_woken = False

    def select(self, timeout: float | None) -> list[Any]:
        world = the_world()
        if timeout is not None and timeout <= 0:
            world.may_switch()
        elif not self.is_woken:
            self._task = world.current()
            world.wait(timeout)
            self._task = None
        self.is_woken = False
        return []

    def wake(self) -> None:
        self.is_woken = True
        if self._task is not None and _world is not None:
            _world.wake(self._task)


class _Task(asyncio.Task):  # type: ignore[type-arg]
    __hash__ = _numbered


class _Future(asyncio.Future):  # type: ignore[type-arg]
    __hash__ = _numbered


#: Those of asyncio's own loop.
_TIMERS_MIN: Final[int] = asyncio.base_events._MIN_SCHEDULED_TIMER_HANDLES  # type: ignore[attr-defined]
_CANCELLED_MAX: Final[float] = asyncio.base_events._MIN_CANCELLED_TIMER_HANDLES_FRACTION  # type: ignore[attr-defined]
_SELECT_S_MAX: Final[float] = asyncio.base_events.MAXIMUM_SELECT_TIMEOUT  # type: ignore[attr-defined]


class Loop(asyncio.BaseEventLoop):
    """asyncio's own loop on the clock of the world; its sockets are those of the world's network."""

    #: What has listeners and connections of asyncio; None: nothing in this world is connected that way.
    peers: ClassVar[Any] = None

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Selector()
        #: Rounds since another thread had run, as the number of the world's steps says.
        self._rounds_alone = self._steps_then = 0
        #: What is called when something arrives at a listening socket.
        self.readers: dict[Any, Callable[[], None]] = {}
        self.set_task_factory(lambda loop, coroutine, **more: _Task(coroutine, loop=loop, **more))

    def time(self) -> float:
        return _world.look()  # type: ignore[union-attr]  # a call of the_world costs as much again

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        if self._debug:  # type: ignore[attr-defined]
            return super().call_soon(callback, *args, context=context)
        self._check_closed()  # type: ignore[attr-defined]
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def _run_once(self) -> None:
        """Do the same as asyncio's own, in the same order, with fewer calls: a loop of a world has a round for each of
        its steps, and there are no sockets to ask."""
        if self._debug:  # type: ignore[attr-defined]
            super()._run_once()  # type: ignore[misc]
            return
        world, ready, scheduled = the_world(), self._ready, self._scheduled  # type: ignore[attr-defined,has-type]
        count, cancelled = len(scheduled), self._timer_cancelled_count  # type: ignore[has-type]
        if count > _TIMERS_MIN and cancelled / count > _CANCELLED_MAX:
            for handle in scheduled:
                if handle._cancelled:
                    handle._scheduled = False
            self._scheduled = scheduled = [handle for handle in scheduled if not handle._cancelled]
            heapq.heapify(scheduled)
            self._timer_cancelled_count = 0
        else:
            while scheduled and scheduled[0]._cancelled:
                self._timer_cancelled_count -= 1
                heapq.heappop(scheduled)._scheduled = False
        timeout: float | None = None
        if ready or self._stopping:  # type: ignore[attr-defined]
            timeout = 0
        elif scheduled:
            timeout = min(max(0, scheduled[0]._when - world.look()), _SELECT_S_MAX)
        self._selector.select(timeout)
        if world.steps != self._steps_then:
            self._rounds_alone, self._steps_then = 0, world.steps
        self._rounds_alone += 1
        assert self._rounds_alone < ROUNDS_ALONE_MAX, f"an event loop is never at rest: {list(ready)[:4]}"
        end = world.look() + self._clock_resolution  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._when < end:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            ready.append(handle)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(loop=self)

    def _process_events(self, _: list[Any]) -> None:
        """There are none: who has something for the loop calls it."""

    def _write_to_self(self) -> None:
        self._selector.wake()

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
        self.readers[fd] = lambda: callback(*args)
        fd.on_arrival = lambda: None if self.is_closed() else self.call_soon_threadsafe(self._arrived, fd)
        if getattr(fd, "has_waiting", False):
            self.call_soon(self._arrived, fd)

    def _arrived(self, fd: Any) -> None:
        reader = self.readers.get(fd)
        if reader is not None:
            reader()

    def remove_reader(self, fd: Any) -> bool:
        return self.readers.pop(fd, None) is not None

    async def connect_accepted_socket(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], sock: Any, **_: Any
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        protocol = protocol_factory()
        transport = sock.open_transport(self, protocol)
        protocol.connection_made(transport)
        return transport, protocol

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        return await self.peers.listen(self, protocol_factory, host, port)

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        return await self.peers.dial(self, protocol_factory, host, port)

    async def getaddrinfo(self, *_: Any, **__: Any) -> Any:
        raise socket.gaierror("the world has no names")
