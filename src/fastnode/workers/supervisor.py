"""The process that an operator starts with ``--workers``: it forks the primary and the workers, and nothing else.

    supervisor ──┬─ primary      ingests, writes, decides; the admin port and the metrics
                 ├─ worker 1     answers on the public port
                 └─ worker 2 ...

It imports what they need and stays a process of one thread, so each is there within milliseconds and shares its
pages.  It keeps the listening sockets of the public port, one for each worker (SO_REUSEPORT): connections that come for
a worker that has just gone wait for the next one of its number.  What ends unasked is started again; a primary
that cannot even start ends everything.
"""

from __future__ import annotations

import ctypes
import logging
import math
import os
import shutil
import signal
import socket
import stat
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from fastnode.log import log_facts, name_process
from fastnode.values.lineage import new_id
from fastnode.workers.seat import PrimarySeat, WorkerSeat
from fastnode.workers.shared_limits import SharedBuckets, SharedConnections

__all__ = ["Supervisor", "listening_sockets", "sweep"]

logger = logging.getLogger("fastnode.workers")

#: Connections that the system may hold ready for each worker.
BACKLOG: Final = 4096
_SIGNALS: Final = frozenset({signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1})
#: A process that goes is started again at once; one that goes again within a while waits, each time twice as long.
_WHILE_S: Final = 10.0
_PAUSE_MIN_S: Final = 0.1
_PAUSE_MAX_S: Final = 5.0
_PRIMARY: Final = 0
#: Between two looks, when no signal comes.
_LOOK_S: Final = 3600.0

_PR_SET_PDEATHSIG: Final = 1

#: A folder for each supervisor, below that of temporary files, with the socket of its primary.
_FOLDER_PREFIX: Final = "fastnode-workers-"
_SOCKET: Final = "primary"
#: A supervisor that starts listens in its folder within this time.
_BEGUN_WITHIN_S: Final = 10.0


def listening_sockets(host: str, port: int, count: int, *, takes_over: bool) -> list[socket.socket]:
    """``count`` sockets that share a port, 0 for any free one.  OSError when it cannot be had: unless ``takes_over``
    says that it may be another node's, also when somebody listens there with SO_REUSEPORT.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    if port and not takes_over:
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    sockets: list[socket.socket] = []
    try:
        for _ in range(count):
            sock = socket.socket(family, kind, protocol)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            sock.bind(address)
            if not address[1]:
                address = (address[0], sock.getsockname()[1], *address[2:])
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def sweep(directory: Path) -> None:
    """Remove what supervisors that were killed have left: folders of this user in which nobody listens any more."""
    for folder in directory.glob(f"{_FOLDER_PREFIX}*"):
        with suppress(OSError):
            status = folder.lstat()
            is_old = time.time() - status.st_mtime > _BEGUN_WITHIN_S
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and is_old and not _is_used(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_used(folder: Path) -> bool:
    """True if the primary can be reached there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.setblocking(False)
        try:
            caller.connect(str(folder / _SOCKET))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:  # so many wait there that it takes no more
            return True
    return True


class _Child:
    """One place: who is in it now, and when the next may be."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid: int | None = None
        self.started_at = 0.0
        self.pause_s = 0.0
        self.next_at: float | None = None
        self.count = 0

    @property
    def name(self) -> str:
        return "primary" if self.number == _PRIMARY else f"worker {self.number}"

    def note_end(self, now: float) -> None:
        quickly = now - self.started_at < _WHILE_S and self.count > 1
        self.pause_s = min(_PAUSE_MAX_S, max(_PAUSE_MIN_S, 2 * self.pause_s)) if quickly else 0.0
        self.pid, self.next_at = None, now + self.pause_s


class Supervisor:
    """:meth:`run` comes back in every process: in this one when all is over, in the others with their seats."""

    def __init__(
        self, sockets: list[socket.socket], *, takes_over: bool = False, stop_timeout_s: float = math.inf
    ) -> None:
        """A process that has not ended ``stop_timeout_s`` after it was told to is killed."""
        self._sockets = sockets
        self._stop_timeout_s = stop_timeout_s
        self._kill_at = math.inf
        #: The worst exit code of a process that ended while all were stopping.
        self._worst_code = 0
        #: Another node answers on the port until this one is ready: nothing is listened on before.
        self._takes_over = takes_over
        self._instance = new_id()
        #: Port on which the workers answer.
        self.port: Final[int] = sockets[0].getsockname()[1]
        sweep(Path(tempfile.gettempdir()))
        self._folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX))  # no other user can enter it
        self._address = self._folder / _SOCKET
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._buckets = SharedBuckets()
        self._connections = SharedConnections(len(sockets))
        self._children = [_Child(number) for number in range(len(sockets) + 1)]
        #: The primary has once said that it serves.
        self._is_ready = False
        self._is_stopping = self._primary_is_told = False

    def run(self) -> PrimarySeat | WorkerSeat | int:
        """The seat of a new process; in the supervisor the exit code, once it has been told to stop and all have gone.

        Blocks the signals that it waits for; a new process has them as they usually are.
        """
        self._listener.bind(str(self._address))
        self._listener.listen(len(self._sockets) + 8)
        if not self._takes_over:
            for sock in self._sockets:
                sock.listen(BACKLOG)
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        supervisor = os.getpid()
        try:
            return self._supervise()
        finally:
            if os.getpid() == supervisor:
                self._end()

    def _end(self) -> None:
        for child in self._children:
            if child.pid is not None:
                os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)
        for sock in (*self._sockets, self._listener):
            sock.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _supervise(self) -> PrimarySeat | WorkerSeat | int:
        for child in self._children:
            child.next_at = 0.0
        while True:
            for child in self._children:
                if not self._is_stopping and child.next_at is not None and child.next_at <= time.monotonic():
                    seat = self._start(child)
                    if seat is not None:
                        return seat
            due = [child.next_at for child in self._children if child.next_at is not None]
            wait_s = max(0.0, min(due) - time.monotonic()) if due and not self._is_stopping else _LOOK_S
            info = signal.sigtimedwait(_SIGNALS, wait_s)
            number = None if info is None else info.si_signo
            if number == signal.SIGUSR1:
                self._is_ready = True
            elif number == signal.SIGHUP:
                self._send(signal.SIGHUP, self._children)
            elif number in (signal.SIGTERM, signal.SIGINT):
                self._stop(signal.Signals(number))
            code = self._reap()
            if code is not None:
                return code
            if time.monotonic() > self._kill_at:
                self._kill_late()

    # ---- processes -----------------------------------------------------------------------------

    def _start(self, child: _Child) -> PrimarySeat | WorkerSeat | None:
        """None in this process."""
        child.next_at, child.started_at = None, time.monotonic()
        child.count += 1
        if child.count > 1:
            logger.warning("starts again", extra=log_facts(process=child.name))
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            child.pid = pid
            return None
        return self._seat_of(child)

    def _seat_of(self, child: _Child) -> PrimarySeat | WorkerSeat:
        """In the new process."""
        _die_with_parent()
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until somebody wants it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        name_process(child.name)
        _name_task(f"fastnode-{'p' if child.number == _PRIMARY else child.number}")
        for place, sock in enumerate(self._sockets, 1):
            if place != child.number:
                sock.close()
        if child.number == _PRIMARY:
            return PrimarySeat(
                listener=self._listener,
                workers=len(self._sockets),
                port=self.port,
                is_first=child.count == 1,
                instance=self._instance,
            )
        self._listener.close()
        return WorkerSeat(
            number=child.number,
            of=len(self._sockets),
            listening=self._sockets[child.number - 1],
            address=self._address,
            is_first=child.count == 1,
            takes_over=self._takes_over and child.count == 1,
            instance=self._instance,
            buckets=self._buckets,
            connections=self._connections,
        )

    def _reap(self) -> int | None:
        """Note who has gone; the exit code when everything is over."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pid = 0
            if not pid:
                break
            child = next((child for child in self._children if child.pid == pid), None)
            if child is None:
                continue
            code = os.waitstatus_to_exitcode(status)
            child.note_end(time.monotonic())
            if self._is_stopping:
                self._worst_code = max(self._worst_code, code)
                if child.number == _PRIMARY:
                    return self._worst_code
                if code > 0:
                    logger.error("exited with an error", extra=log_facts(process=child.name, code=code))
                continue
            if child.number == _PRIMARY and (not self._is_ready or code == os.EX_CONFIG):
                self._is_stopping = True  # it has said why, and would be no better the next time
                self._send(signal.SIGKILL, self._children[1:])
                return code if code > 0 else 1
            logger.error("has gone", extra=log_facts(process=child.name, code=code, again_in_s=child.pause_s))
        if self._is_stopping and not any(child.pid for child in self._children[1:]):
            if self._children[_PRIMARY].pid is None:
                return self._worst_code
            if not self._primary_is_told:
                self._primary_is_told = True
                self._kill_at = time.monotonic() + self._stop_timeout_s
                self._send(signal.SIGTERM, self._children[:1])
        return None

    def _kill_late(self) -> None:
        """Kill what could not even end itself at the deadline of its stop."""
        late = self._children[:1] if self._primary_is_told else self._children[1:]
        self._kill_at = math.inf
        for child in late:
            if child.pid is not None:
                logger.error("stop timed out, process killed", extra=log_facts(process=child.name))
                self._worst_code = max(self._worst_code, os.EX_SOFTWARE)
        self._send(signal.SIGKILL, late)

    # ---- signals ---------------------------------------------------------------------------------

    def _send(self, number: signal.Signals, children: list[_Child]) -> None:
        for child in children:
            if child.pid is not None:
                os.kill(child.pid, number)

    def _stop(self, number: signal.Signals) -> None:
        """Workers finish what they answer, then the primary what it writes; the second time all at once."""
        if self._is_stopping:
            self._send(signal.SIGKILL, self._children[1:])
            self._send(number, self._children[:1])
            return
        logger.info("stopping", extra=log_facts(signal=number.name))
        self._is_stopping = True
        self._kill_at = time.monotonic() + self._stop_timeout_s
        self._send(signal.SIGTERM, self._children[1:])
        # Workers listen until they stop; where another node listens too, new connections are all its then.
        for sock in self._sockets:
            sock.close()


def _die_with_parent() -> None:
    """Without its supervisor it would not be started again, or stopped."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _name_task(name: str) -> None:
    """Set the name that ``ps`` and ``top`` show."""
    try:
        Path("/proc/self/comm").write_text(name, encoding="ascii")
    except OSError:
        return
