"""The whole check by several processes, each over a copy of its own, as LevelDB gives a database to one process.

    <data directory>/
      check-1234/0/      a copy for each process: its tables are hard links, so it takes next to no room
      check.json         what is verified so far; there until the check has come to its end

A copy is removed at the end, however it comes, or by who opens the directory next after a kill.  What is verified
stands on the files of the databases as they are: after any change the check begins anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from fastnode import __version__
from fastnode.archiver.check import CheckReport
from fastnode.archiver.store import ARCHIVER_DIRECTORY
from fastnode.chain_data import ChainData
from fastnode.data_check.whole import STATE, Plan, Step, check_planned, conclude, plan_of
from fastnode.errors import DatabaseError
from fastnode.files import put_file, system_reason
from fastnode.log import log_facts
from fastnode.records import dataclass
from fastnode.storage.database_files import LOG_SUFFIX
from fastnode.storage.leveldb_copy import copy_leveldb
from fastnode.storage.replacement import CHECK_PREFIX
from fastnode.storage.table_files import table_facts
from fastnode.world_state.state import WORLD_STATE_DIRECTORY

__all__ = ["VERIFIED_FILE", "check_apart", "processors"]

logger = logging.getLogger(__name__)

VERIFIED_FILE: Final = "check.json"
#: Changes when a step or its findings do.
_FORM: Final = 1
#: Below this expected work, in microseconds, processes are not worth their start.
APART_MIN_US: Final = 3_000_000
#: More processes than this only wait for the disk.
PROCESSES_MAX: Final = 16
#: Seconds between two writes of what is verified.
_KEEP_INTERVAL_S: Final = 2.0
_READ_BYTES: Final = 1 << 16
#: Signals by which a process ends that read what LevelDB cannot survive.
_CRASHES: Final = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL}

#: ``progress(done, total, note)``; the first two count expected microseconds.
Progress = Callable[[int, int, str], None]


def processors() -> int:
    """Number of processes that have a processor of their own."""
    return min(PROCESSES_MAX, len(os.sched_getaffinity(0)))


def check_apart(
    data: ChainData, *, processes: int, progress: Progress, release_record: Path | None = None
) -> CheckReport:
    """``check_data`` by so many processes, going on where an interrupted check of the same files ended.

    DatabaseError when the copies cannot be made or a process does not come to its end.
    """
    report = CheckReport()
    plan = plan_of(data, report)
    if sum(step.work for step in plan.steps) < APART_MIN_US:
        check_planned(data, plan, report, lambda done, total: progress(done, total, "all in one process"))
        return report
    verified = _Verified.of(data.directory.path, plan)
    team = _Team(data.directory.path, plan, verified, progress, release_record)
    try:
        team.run(processes)
    finally:
        verified.keep()
    conclude(data, plan, [verified.found[_name_of(step)] for step in plan.steps], report)
    verified.remove()
    return report


def _name_of(step: Step) -> str:
    return json.dumps([step.kind, *step.where])


# ---- what is verified so far ----------------------------------------------------------------------------


class _Verified:
    """Findings of steps by name, kept in a file for the next run of the command."""

    def __init__(self, path: Path, foundation: str, seed: bytes, found: dict[str, dict[str, Any]]) -> None:
        self._path = path
        self._foundation = foundation
        self._seed = seed
        self._keep_at = time.monotonic() + _KEEP_INTERVAL_S
        self._is_kept = True
        self.found = found

    @classmethod
    def of(cls, directory: Path, plan: Plan) -> _Verified:
        """Findings of an earlier run over the same files, whose seed becomes that of ``plan``."""
        path, foundation = directory / VERIFIED_FILE, _foundation_of(directory)
        names = {_name_of(step) for step in plan.steps}
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            stored = json.loads(path.read_bytes())
            digest = stored.pop("sha256")
            if digest == _digest_of(stored) and stored["foundation"] == foundation and names >= stored["found"].keys():
                plan.seed = bytes.fromhex(stored["seed"])
                logger.info(
                    "going on with a check", extra=log_facts(parts_verified=len(stored["found"]), of=len(names))
                )
                return cls(path, foundation, plan.seed, stored["found"])
        return cls(path, foundation, plan.seed, {})

    def add(self, step: Step, found: dict[str, Any]) -> None:
        self.found[_name_of(step)] = found
        self._is_kept = False
        if time.monotonic() >= self._keep_at:
            self.keep()

    def keep(self) -> None:
        """Write the file.  Nothing depends on it but the time of the next check."""
        if self._is_kept:
            return
        stored = {"foundation": self._foundation, "seed": self._seed.hex(), "found": self.found}
        try:
            put_file(self._path, json.dumps(stored | {"sha256": _digest_of(stored)}).encode(), is_synced=False)
        except OSError as error:
            logger.warning(
                "what is verified cannot be kept, an interrupted check begins anew",
                extra=log_facts(path=self._path, error=error.strerror),
            )
        self._is_kept = True
        self._keep_at = time.monotonic() + _KEEP_INTERVAL_S

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


def _digest_of(value: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _foundation_of(directory: Path) -> str:
    """Hash of what a check stands on: its form, and the files of the databases by name, length and time of change.

    Bytes that change while a file keeps all three are found by the checksums of the tables, which every check reads at
    its end.
    """
    digest = hashlib.sha256(f"{__version__} {_FORM}".encode())
    for folder in (ARCHIVER_DIRECTORY, WORLD_STATE_DIRECTORY):
        path = directory / folder
        if path.is_dir():
            digest.update(f"{folder} {sorted(table_facts(path).items())}\n".encode())
            for log in sorted(path.glob(f"*{LOG_SUFFIX}")):
                digest.update(hashlib.sha256(log.read_bytes()).digest())
    return digest.hexdigest()


# ---- processes ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Worker:
    child: subprocess.Popen[bytes]
    copy: Path
    is_ready: bool = False
    step: Step | None = None
    part: float = 0.0
    unread: bytes = b""


class _Team:
    """Processes that share the steps of a plan; the longest ones are handed out first."""

    def __init__(
        self, directory: Path, plan: Plan, verified: _Verified, progress: Progress, release_record: Path | None
    ) -> None:
        self._directory = directory
        self._plan = plan
        self._verified = verified
        self._progress = progress
        self._release_record = release_record
        todo = [step for step in plan.steps if _name_of(step) not in verified.found]
        self._todo = sorted(todo, key=lambda step: step.work)  # the last one comes next
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()

    def run(self, processes: int) -> None:
        """Run all steps.  Whatever ends this leaves neither a process nor a copy."""
        self._show()
        if not self._todo:
            return
        folder = self._directory / f"{CHECK_PREFIX}{os.getpid()}"
        try:
            for number in range(min(processes, len(self._todo))):
                self._copy(folder / str(number))
                self._start(folder / str(number))
            while self._workers:
                for key, _ in self._selector.select():
                    self._hear(key.data)
        finally:
            for worker in list(self._workers):
                self._end(worker)
            self._selector.close()
            shutil.rmtree(folder, ignore_errors=True)

    def _copy(self, target: Path) -> None:
        try:
            target.mkdir(parents=True)
            copy_leveldb(self._directory / ARCHIVER_DIRECTORY, target / ARCHIVER_DIRECTORY)
            if any(step.kind == STATE for step in self._todo):
                copy_leveldb(self._directory / WORLD_STATE_DIRECTORY, target / WORLD_STATE_DIRECTORY)
        except OSError as error:
            reason = system_reason(self._directory, error)
            raise DatabaseError(
                f"the databases of {self._directory} cannot be copied for the check: {reason}"
            ) from error

    def _start(self, copy: Path) -> None:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "fastnode.data_check.worker", str(copy)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for this process alone
        )
        worker = _Worker(child, copy)
        self._workers.append(worker)
        assert child.stdout is not None
        self._selector.register(child.stdout, selectors.EVENT_READ, worker)
        record = None if self._release_record is None else str(self._release_record)
        self._tell(worker, {"seed": self._plan.seed.hex(), "release_record": record})

    def _begin(self) -> None:
        """Hand steps out once all have opened their copies: what needs room on the disk is over by then."""
        if all(worker.is_ready for worker in self._workers):
            for worker in [each for each in self._workers if each.step is None]:
                self._hand_out(worker)

    def _hand_out(self, worker: _Worker) -> None:
        worker.part = 0.0
        if not self._todo:
            worker.step = None
            self._end(worker)
            return
        worker.step = self._todo.pop()
        self._tell(worker, {"step": worker.step})

    def _tell(self, worker: _Worker, message: dict[str, Any]) -> None:
        assert worker.child.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: its output says so
            worker.child.stdin.write(json.dumps(message).encode() + b"\n")
            worker.child.stdin.flush()

    def _hear(self, worker: _Worker) -> None:
        assert worker.child.stdout is not None
        data = os.read(worker.child.stdout.fileno(), _READ_BYTES)
        *lines, worker.unread = (worker.unread + data).split(b"\n")
        for message in map(json.loads, lines):
            if "part" in message:
                worker.part = message["part"]
            elif "ready" in message:
                worker.is_ready = True
            elif "failed" in message:
                raise DatabaseError(f"a process of the check failed: {message['failed']}")
            else:
                assert worker.step is not None
                self._verified.add(worker.step, message["found"])
                self._hand_out(worker)
        if not data and worker in self._workers:
            self._mourn(worker)
        self._begin()
        self._show()

    def _mourn(self, worker: _Worker) -> None:
        """The process has ended in the middle of a step, or before its first: its finding, if what it read did that."""
        code = worker.child.wait()
        if -code not in _CRASHES:
            how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit status {code}"
            raise DatabaseError(f"a process of the check ended {how}; what is verified so far is kept for the next one")
        step = worker.step or (self._todo.pop() if self._todo else None)
        if step is not None:
            fault = f"what read it ended by signal {signal.Signals(-code).name}"
            self._verified.add(step, {"fault": fault})
        self._end(worker)
        if self._todo:
            self._start(worker.copy)

    def _end(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        child = worker.child
        assert child.stdout is not None
        assert child.stdin is not None
        self._selector.unregister(child.stdout)
        child.kill()
        child.wait()
        child.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()

    def _show(self) -> None:
        steps, found = self._plan.steps, self._verified.found
        total = sum(step.work for step in steps)
        done = sum(step.work for step in steps if _name_of(step) in found) + sum(self._under_way())
        self._progress(int(done), total, f"{len(found)} of {len(steps)} parts")

    def _under_way(self) -> Iterator[float]:
        for worker in self._workers:
            if worker.step is not None:
                yield worker.part * worker.step.work
