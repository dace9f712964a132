"""Reads while blocks come, and how far the copies of workers grow apart; see workers.py, which is the command."""

from __future__ import annotations

import multiprocessing
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.sources.made_chain import Unit
from tests.sources.recorded_chain import RecordedChain
from tests.sources.scripted_upstream import scripted_upstream

from fastnode.development import synthetic_chain as synthetic
from fastnode.development.synthetic_chain import SyntheticBlock
from fastnode.protocol.tips import BlockId, CheckpointId, TipId
from load_client import Client, Measured, wallet_requests
from worker_node import Node, process_s, tasks

CONNECTIONS = 32
HEADERS = wallet_requests([[("node_getBlockHeader", ["latest"])], [("node_getL2Tips", [])]])
REST_S = 10.0
SLICE_S = 0.5
#: Rest and blocks come by turns, so often in one run.
ROUNDS = 4
UPSTREAM_NICENESS = 19
PRIMARY_NICENESS = 5
#: Until what follows a block, such as merges, is done.
SETTLE_S = 1.0


# ---- growth -----------------------------------------------------------------------------------------


def besides_bytes(directory: Path) -> int:
    """What all workers' copies take on the disk besides the databases of the primary."""
    shared = {
        file.stat().st_ino for name in ("archiver", "world_state", "p2p") for file in directory.joinpath(name).iterdir()
    }
    found: dict[int, int] = {}
    for file in directory.joinpath("workers").rglob("*"):
        try:
            status = file.stat()
        except OSError:  # removed meanwhile
            continue
        if stat.S_ISREG(status.st_mode) and status.st_ino not in shared:
            found[status.st_ino] = 512 * status.st_blocks
    return sum(found.values())


def measure_growth(file: Path, workers: int, folder: Path) -> None:
    directory = folder / f"growth-{workers}"
    node = Node(directory, workers, f"--chain-file={file}")
    own: list[float] = []
    besides: list[int] = []
    begun = time.monotonic()
    try:
        while not node.has_said("chain file loaded"):
            time.sleep(1.0)
            own.append(max(node.figure("fastnode_worker_copy_own_bytes"), default=0.0))
            besides.append(besides_bytes(directory))
        seconds = time.monotonic() - begun
        copies = max(node.figure("fastnode_worker_copies_total"))
        private = max(node.private_bytes())
        blocks = node.wait_for("chain file loaded", 1)[0]["blocks"]
        databases = sum(
            each.stat().st_size for name in ("archiver", "world_state", "p2p") for each in (directory / name).iterdir()
        )
    finally:
        node.stop()
    print(
        f"{workers} workers, {blocks} blocks in {seconds:.0f} s: databases {databases / 1e6:.0f} MB; "
        f"files of a copy's own {own[-1] / 1e6:.0f} MB at the end, {max(own) / 1e6:.0f} MB at most; "
        f"all copies besides the databases {besides[-1] / 1e6:.0f} MB at the end, {max(besides) / 1e6:.0f} MB at most; "
        f"copies made for a worker {copies:.0f}; private memory of a worker {private / 1e6:.0f} MB"
    )


# ---- reads ------------------------------------------------------------------------------------------


class _Grown(RecordedChain):
    """Grows at no cost worth mentioning: what makes blocks would be on another machine."""

    def __init__(self, directory: Path, chain_file: Path) -> None:
        super().__init__(directory, chain_file)
        self._hashes = {block.number: block.hash() for block, _ in self._blocks}
        self._published = [record.published.to_json() for record in self.recorded]
        self._tips = [
            TipId(
                BlockId(record.published.checkpoint.blocks[-1].number, record.published.checkpoint.blocks[-1].hash()),
                CheckpointId(number, record.published.checkpoint.header.hash()),
            )
            for number, record in enumerate(self.recorded, 1)
        ]
        self._tip = 0

    @property
    def tip(self) -> int:
        return self._tip

    def block_id(self, number: int) -> BlockId:
        return BlockId(number, self._hashes[number]) if number else super().block_id(0)

    def reveal(self) -> None:
        unit = self.units[-1] if self.units else None
        if unit is not None and unit.published is None:
            place = unit.number - 1
            if len(unit.blocks) == len(self.recorded[place].published.checkpoint.blocks):
                unit.published, unit.tip = self._published[place], self._tips[place]
                return
        block, record = self._blocks[self._tip]
        if block.index_within_checkpoint == 0:
            making = synthetic._CheckpointInTheMaking(block.header.global_variables, record.l1_to_l2_messages)
            self.units.append(Unit(block.checkpoint_number, making))
        messages = record.l1_to_l2_messages if block.index_within_checkpoint == 0 else None
        self.units[-1].making.blocks.append(SyntheticBlock(block, messages))
        self._tip += 1


def _grow(file: Path, pace: float, folder: Path, end: Any) -> None:
    """In a process of its own: another node, whose chain grows for so many seconds each time that somebody says so."""
    os.nice(UPSTREAM_NICENESS)
    chain = _Grown(folder, file)
    chain.reveal()
    with scripted_upstream(chain) as upstream:
        end.send(upstream.url)
        while True:
            seconds = end.recv()
            begun, tip = time.monotonic(), chain.tip
            while not chain.is_complete and time.monotonic() < begun + seconds:
                time.sleep(max(0.0, begun + (chain.tip - tip) / pace - time.monotonic()))
                with upstream.lock:
                    chain.reveal()


@contextmanager
def forked(target: Callable[..., None], *arguments: Any) -> Iterator[tuple[int, Any]]:
    """Its process id, and this end of a pipe whose other end is the last argument."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=target, args=(*arguments, there), daemon=True)
    process.start()
    try:
        yield process.pid or 0, here
    finally:
        process.kill()
        process.join()


@dataclass
class Busy:
    """A process that has to do with blocks: one of the node, or the other node that it follows."""

    pid: int
    niceness: int
    is_batch: bool
    #: Processor time for each block, in seconds.
    block_s: float = 0.0


def _waste(each: Busy, pace: float, offset_s: float, _end: Any) -> None:
    """In a process of its own: the processor time of a block and nothing else, at the pace of the blocks."""
    os.setpriority(os.PRIO_PROCESS, 0, each.niceness)
    if each.is_batch:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    begun, count = time.monotonic() + offset_s, 0
    while True:
        time.sleep(max(0.0, begun + count / pace - time.monotonic()))
        end = time.thread_time() + each.block_s
        while time.thread_time() < end:
            pass
        count += 1


def _control(client: Client, rate: float, processes: Sequence[Busy], pace: float, seconds: float) -> list[float]:
    """Reads of the node at rest, while others take the processors as those did that had to do with blocks."""
    with ExitStack() as stack:
        offset_s = 0.0
        for each in processes:
            # What verifies a block hashes on all processors at a time.
            at_once = (os.cpu_count() or 1) if each.is_batch else 1
            part = replace(each, block_s=each.block_s / at_once)
            for _ in range(at_once):
                stack.enter_context(forked(_waste, part, pace, offset_s))
            # A worker begins when the primary has sent it the block, all workers at the same time.
            offset_s += part.block_s if each.niceness else 0.0
        return client.ask_at_rate(HEADERS, rate, seconds).times


def _stand_apart(node: Node, others: Sequence[int]) -> Callable[[], float]:
    """The node's one worker has the last processor, and everything else the first ones.  For how many seconds its event
    loop and what repeats blocks have waited for that processor so far, because of what else the system runs there.
    """
    *first, last = sorted(os.sched_getaffinity(0))
    primary = next(pid for pid in node.processes() if node.is_primary(pid))
    worker = node.processes()[-1] if node.processes()[-1] != primary else node.processes()[-2]
    for pid in node.processes():
        for task in tasks(pid):
            os.sched_setaffinity(int(task.name), {last} if pid == worker else first)
    for pid in (os.getpid(), *others):
        os.sched_setaffinity(pid, first)
    files = [os.open(task / "schedstat", os.O_RDONLY | os.O_CLOEXEC) for task in tasks(worker)]
    return lambda: sum(int(os.pread(file, 64, 0).split()[1]) for file in files) / 1e9


@dataclass
class _Phase:
    """The parts of a run in which blocks come, or those in which none comes."""

    times: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    seconds: float = 0.0
    blocks: int = 0
    #: Processor time of each process, in seconds.
    spent: list[float] = field(default_factory=list)

    def add(self, measured: Measured) -> None:
        self.times += measured.times
        self.own += measured.own

    @contextmanager
    def counted(self, node: Node, processes: Sequence[Busy]) -> Iterator[None]:
        first, before, begun = node.tip(), [process_s(each.pid) for each in processes], time.monotonic()
        yield
        self.seconds += time.monotonic() - begun
        self.blocks += node.tip() - first
        had = self.spent or [0.0] * len(before)
        self.spent = [
            total + process_s(each.pid) - then for total, each, then in zip(had, processes, before, strict=True)
        ]


def measure_blocks(
    file: Path, workers: int, rate: float, pace: float | None, seconds: float, folder: Path, *, is_apart: bool = False
) -> None:
    """``pace``: so many blocks a second from another node, for so many ``seconds``; None: all of the file at once.

    ``is_apart``: the only worker has a processor of its own.
    """
    with ExitStack() as stack:
        processes: list[Busy] = []
        if pace is None:
            arguments = [f"--chain-file={file}"]
        else:
            upstream, pipe = stack.enter_context(forked(_grow, file, pace, folder / f"upstream-{workers}"))
            arguments = [f"--upstream-url={pipe.recv()}", "--archiver-polling-interval-ms=20"]
            processes.append(Busy(upstream, UPSTREAM_NICENESS, is_batch=False))
        node = Node(folder / f"blocks-{workers}", workers, *arguments)
        stack.callback(node.stop)
        pids = node.processes()
        for pid in pids[1:] or pids:
            is_primary = node.is_primary(pid)
            processes.append(Busy(pid, PRIMARY_NICENESS if is_primary else 0, is_batch=is_primary))
        waited = _stand_apart(node, [each.pid for each in processes[:1] if pace is not None]) if is_apart else None
        client = Client(node.port, CONNECTIONS)
        stack.callback(client.close)
        client.ask_at_rate(HEADERS, rate, SLICE_S)
        during, at_rest = _Phase(), _Phase()
        if pace is None:
            with during.counted(node, processes):
                while not node.has_said("chain file loaded"):
                    during.add(client.ask_at_rate(HEADERS, rate, SLICE_S, waited))
            time.sleep(SETTLE_S)
            with at_rest.counted(node, processes):
                at_rest.add(client.ask_at_rate(HEADERS, rate, max(REST_S, during.seconds), waited))
        else:
            # By turns, so that what else the machine and its host do meets both alike.
            for _ in range(ROUNDS):
                with at_rest.counted(node, processes):
                    at_rest.add(client.ask_at_rate(HEADERS, rate, seconds / ROUNDS, waited))
                with during.counted(node, processes):
                    pipe.send(seconds / ROUNDS)
                    during.add(client.ask_at_rate(HEADERS, rate, seconds / ROUNDS, waited))
                time.sleep(SETTLE_S)
        delays = node.figure("fastnode_worker_view_delay_ms")
        for each, spent_s, idle_s in zip(processes, during.spent, at_rest.spent, strict=True):
            each.block_s = max(0.0, spent_s - idle_s * during.seconds / at_rest.seconds) / max(1, during.blocks)
        control = []
        if not is_apart:
            mine = [each for each in processes if each.pid in pids]
            control = _control(client, rate, mine, during.blocks / during.seconds, min(REST_S, during.seconds))
    print(f"{workers} workers, {rate:g} requests a second, {during.blocks} blocks in {during.seconds:.1f} s")
    print("processor time a block:", ", ".join(f"{1e3 * each.block_s:.1f}" for each in processes), "ms")
    tell("reads", during.times, at_rest.times, control)
    if is_apart:
        tell("reads without what the worker and the client waited for a processor", during.own, at_rest.own, [])
    if delays:
        print(
            f"blocks visible after (p99, each worker): {', '.join(f'{delay:.1f}' for delay in delays)} ms", flush=True
        )


def tell(what: str, during: list[float], rest: list[float], control: list[float]) -> None:
    def ms(times: list[float], percent: int) -> float:
        return 1e3 * sorted(times)[len(times) * percent // 100]

    for percent in (50, 90, 99):
        now, then = ms(during, percent), ms(rest, percent)
        text = f"p{percent} of {what}: {now:.2f} ms while blocks come, {then:.2f} ms at rest, ratio {now / then:.2f}"
        if control:
            others = ms(control, percent)
            text += f"; {others:.2f} ms at rest beside others that take the same processor time, {others / then:.2f}"
        print(text)
