"""Processes that play seeds, some beside each other: each a fork of the one that has prepared all.

    parent ── fork ──► child: plays one plan, tells each line through a pipe, and ends
       ▲                 │
       └── an Outcome ◄──┘ all that was told, the states reached, seconds of CPU

A seed has a process of its own: what a crashed node leaves behind, and threads that are never woken again, end with
it.  Its directory is of the parent's making, which removes it also when the child could not.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from tests.simulation import coverage

__all__ = ["Core", "Outcome", "new_directory", "outcomes"]

#: Seconds of CPU for a simulated minute, and for the start, after which a seed counts as one that hangs.
MINUTE_CPU_S: Final = 20
START_CPU_S: Final = 60
_READ_BYTES: Final = 1 << 16
#: Begin of a line that names a state reached; lines of the trace begin with the other one.
_REACHED, _TOLD = "=", "|"


class Plan(Protocol):
    """What a seed plays."""

    @property
    def minutes(self) -> float:
        """Simulated ones."""


#: Directory in memory, where there is one: a tenth of a seed's time is the making and removing of files.
_IN_MEMORY: Final = Path("/dev/shm")
#: Plays a plan in a directory, tells its lines, and says whether all held.
Play = Callable[[Any, Path, Callable[[str], None]], bool]


@dataclass
class Outcome:
    """``place``: of the plan among those that were given."""

    place: int
    plan: Any
    has_held: bool = False
    lines: list[str] = field(default_factory=list)
    reached: list[str] = field(default_factory=list)
    cpu_s: float = 0.0


def new_directory() -> Path:
    """Directory of one seed."""
    is_usable = "TMPDIR" not in os.environ and os.access(_IN_MEMORY, os.W_OK)
    return Path(tempfile.mkdtemp(prefix="simulation-", dir=_IN_MEMORY if is_usable else None))


class Core:
    """A core of the machine that no other seed has, in this farm or another one.

    Threads of a seed take turns: what follows on the same core finds its memory near, and the interpreter's lock free.
    On two cores each turn wakes both.  Where all cores are taken, the system places the seed.
    """

    def __init__(self) -> None:
        #: Names of the system's own for sockets, without files: a name is free again when its holders have ended.
        self._holding: socket.socket | None = None
        self.number: int | None = None
        for number in sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else ():
            holding = socket.socket(socket.AF_UNIX)
            try:
                holding.bind(f"\0fastnode simulation core {number}")
            except OSError:
                holding.close()
            else:
                self._holding, self.number = holding, number
                return

    def stay(self) -> None:
        """Keep this process on it.  A thread that is woken waits until the one that woke it gives the core up."""
        if sys.platform != "linux":
            return
        with contextlib.suppress(OSError):  # where a sandbox forbids it
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
            if self.number is not None:
                os.sched_setaffinity(0, {self.number})

    def leave(self) -> None:
        if self._holding is not None:
            self._holding.close()


class _Child:
    def __init__(self, place: int, plan: Plan, play: Play, tell: Callable[[str], None] | None, *, covers: bool) -> None:
        self.outcome = Outcome(place, plan)
        self._tell = tell
        self._left = b""
        self._directory = new_directory()
        self._core = Core()
        sys.stdout.flush()
        sys.stderr.flush()
        self.reading, writing = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(self.reading)
            self._core.stay()
            with os.fdopen(writing, "w", encoding="utf-8") as told:
                _live(plan, self._directory, play, told, covers=covers)
        os.close(writing)

    def read(self) -> bool:
        """False at the end."""
        data = os.read(self.reading, _READ_BYTES)
        *whole, self._left = (self._left + data).split(b"\n")
        for line in whole if data else [self._left]:
            self._take(line.decode("utf-8", "replace"))
        return bool(data)

    def _take(self, line: str) -> None:
        if line.startswith(_REACHED):
            self.outcome.reached.append(line[1:])
        elif line:
            self.outcome.lines.append(line[1:])
            if self._tell is not None:
                self._tell(line[1:])

    def end(self) -> Outcome:
        os.close(self.reading)
        _, status, used = os.wait4(self.process, 0)
        self._core.leave()
        self.outcome.has_held = status == 0
        self.outcome.cpu_s = used.ru_utime + used.ru_stime
        if os.WIFSIGNALED(status):
            self._take(_TOLD + f"the process ends by {signal.Signals(os.WTERMSIG(status)).name}")
        shutil.rmtree(self._directory, ignore_errors=True)
        return self.outcome

    def kill(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        self.end()


def _live(plan: Plan, directory: Path, play: Play, told: Any, *, covers: bool) -> None:
    has_held = False

    def tell(lines: str, kind: str = _TOLD) -> None:
        told.write("".join(f"{kind}{line}\n" for line in lines.splitlines()))
        told.flush()

    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # that of the parent, which ends its children
        limit = int(START_CPU_S + MINUTE_CPU_S * plan.minutes)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        faulthandler.enable()
        if covers:
            coverage.watch()
        has_held = play(plan, directory, tell)
        if covers:
            tell("\n".join(coverage.reached()), _REACHED)
    except BaseException:  # noqa: BLE001 - it is told
        with contextlib.suppress(OSError):
            tell(traceback.format_exc())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0 if has_held else 1)


def outcomes(
    plans: Iterable[Plan],
    play: Play,
    jobs: int = 1,
    tell: Callable[[str], None] | None = None,
    *,
    covers: bool = False,
) -> Generator[Outcome]:
    """Play the plans, ``jobs`` at a time; their outcomes come as they end.  ``tell`` gets each line at once.

    Who closes the iterator ends the children that still play.
    """
    waiting = enumerate(plans)
    children: dict[int, _Child] = {}
    with selectors.DefaultSelector() as selector:
        try:
            while True:
                while len(children) < jobs and (following := next(waiting, None)) is not None:
                    child = _Child(*following, play, tell, covers=covers)
                    children[child.reading] = child
                    selector.register(child.reading, selectors.EVENT_READ)
                if not children:
                    return
                for key, _ in selector.select():
                    child = children[key.fd]
                    if not child.read():
                        selector.unregister(key.fd)
                        del children[key.fd]
                        yield child.end()
        finally:
            for child in children.values():
                child.kill()
