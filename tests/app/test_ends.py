"""Nodes of every kind are stopped or killed, lose a part of a log, and start again.

A clean stop leaves every database closed and sealed.  If a log is cut after the end, the next start reports it and the
node serves; it gets from its source what was lost.  Without a loss it has every block that was answered before.  A few
rounds run always, fifty with FASTNODE_LONG=1; FASTNODE_SEED=N repeats those of another run.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest
from tests.conftest import PATIENCE_S, NodeProcess
from tests.publishing.live_l1 import ANVIL
from tests.sequencing.network import checkpointed, proposing_network
from tests.sources.l1.publishing import PublishingL1, publish, served
from tests.sources.made_chain import MadeChain, made_chain
from tests.sources.scripted_upstream import scripted_upstream

from fastnode.storage.seal import SEAL_FILE

IS_LONG = os.environ.get("FASTNODE_LONG") == "1"
SEED = int(os.environ.get("FASTNODE_SEED", "1"))
#: Rounds of all kinds together: 50.  L1 gives up what is not proven, so a proposer has a few slots on each chain.
ROUNDS = (
    {"local": 9, "served": 9, "followed": 8, "workers": 8, "l1": 8, "sequencer": 4, "proposer": 4} if IS_LONG else {}
)
KINDS = ("local", "served", "followed", "workers", "l1", "sequencer", "proposer")
QUICK = KINDS[:5]
StartNode = Callable[..., NodeProcess]


class Kind:
    """A kind of node over a data directory: how one is started, and how its chain gets longer."""

    #: True if its source has all blocks that it ever answered.
    has_source = True

    def __init__(self, start: StartNode, directory: Path) -> None:
        self.start_node = start
        self.directory = directory

    def start(self) -> NodeProcess:
        raise NotImplementedError

    def grow(self, node: NodeProcess) -> None:
        """Bring at least one block that the node answers with."""


class Local(Kind):
    has_source = False

    def start(self) -> NodeProcess:
        flags = ("--local-network", "--disable-admin-api-key", "--data-directory", self.directory)
        return self.start_node(*flags)

    def grow(self, node: NodeProcess) -> None:
        node.call("fastnode_mine", 3)


class Served(Kind):
    """An imported chain; it does not grow."""

    has_source = False

    def __init__(self, start: StartNode, directory: Path, file: Path) -> None:
        super().__init__(start, directory)
        self._file = file

    def start(self) -> NodeProcess:
        file = () if self.directory.exists() else ("--chain-file", self._file)
        return self.start_node("--data-directory", self.directory, *file)


class Followed(Kind):
    workers = 0

    def __init__(self, start: StartNode, directory: Path, stack: ExitStack) -> None:
        super().__init__(start, directory)
        self.chain = new_chain(directory.with_name("made"), stack)
        self.upstream = stack.enter_context(scripted_upstream(self.chain))
        self.genesis = self.chain.write_genesis(directory.with_name("genesis.jsonl"))

    def start(self) -> NodeProcess:
        flags = ("--upstream-url", self.upstream.url, "--genesis", self.genesis, "--archiver-polling-interval-ms=10")
        return self.start_node("--data-directory", self.directory, f"--workers={self.workers}", *flags)

    def grow(self, node: NodeProcess) -> None:
        with self.upstream.lock:
            self.chain.checkpoint(2)
        wait_until(lambda: tip_of(node) == self.chain.tip, node)


class Workers(Followed):
    workers = 1


class OfL1(Kind):
    def __init__(self, start: StartNode, directory: Path, stack: ExitStack) -> None:
        super().__init__(start, directory)
        self.chain = new_chain(directory.with_name("made"), stack)
        info, constants = self.chain.chain_record["nodeInfo"], self.chain.chain_record["l1Constants"]
        self.l1 = stack.enter_context(served(PublishingL1(info, constants)))
        self.genesis = self.chain.write_genesis(directory.with_name("genesis.jsonl"))
        for unit in self.chain.units:
            publish(self.l1, unit)

    def start(self) -> NodeProcess:
        l1 = self.l1
        return self.start_node(
            *("--data-directory", self.directory, "--l1-rpc-urls", l1.url, "--l1-consensus-host-urls", l1.beacon.url),
            *("--registry-address", l1.addresses.registry, "--genesis", self.genesis, "--l1-polling-interval-ms=10"),
            *("--max-allowed-eth-client-drift-seconds=0", "--archiver-polling-interval-ms=10"),
        )

    def grow(self, node: NodeProcess) -> None:
        self.chain.checkpoint(2)
        publish(self.l1, self.chain.units[-1])
        wait_until(lambda: tip_of(node) == self.chain.tip, node)


class Sequencing(Kind):
    def __init__(self, start: StartNode, directory: Path, stack: ExitStack) -> None:
        super().__init__(start, directory)
        self._network = stack.enter_context(proposing_network("without_committee", directory.parent, start))
        self._network.begin_slot(self._network.slot // 4 * 4 + 4)

    def start(self) -> NodeProcess:
        return self._network.proposer(data=self.directory.name)

    def grow(self, node: NodeProcess) -> None:
        """Until L1 has it: a block that was only proposed when its node ended is taken back by right."""
        number = self._network.mine_slot()
        self._network.store_blobs()
        wait_until(lambda: checkpointed(node) >= number, node)


def new_chain(directory: Path, stack: ExitStack) -> MadeChain:
    directory.mkdir()
    chain = stack.enter_context(made_chain(directory))
    for blocks in (1, 2):
        chain.checkpoint(blocks)
    return chain


def tip_of(node: NodeProcess) -> int:
    number: int = node.call("node_getBlockNumber")["result"]
    return number


def wait_until(is_so: Callable[[], object], node: NodeProcess) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, node.log.read_text()[-3000:]
        time.sleep(0.02)


@pytest.fixture
def kind(request: pytest.FixtureRequest, start_node: StartNode, tmp_path: Path, short_chain: Path) -> Iterator[Kind]:
    directory = tmp_path / "data"
    with ExitStack() as stack:
        match request.param:
            case "local":
                yield Local(start_node, directory)
            case "served":
                yield Served(start_node, directory, short_chain)
            case "followed":
                yield Followed(start_node, directory, stack)
            case "workers":
                yield Workers(start_node, directory, stack)
            case "l1":
                yield OfL1(start_node, directory, stack)
            case _:
                if ANVIL is None:
                    pytest.skip("no anvil")
                yield Sequencing(start_node, directory, stack)


def databases(directory: Path) -> list[Path]:
    return sorted(file.parent for file in directory.glob("*/CURRENT"))


def newest_log(database: Path) -> Path:
    return max(database.glob("*.log"), key=lambda file: int(file.stem))


def has_ended_cleanly(node: NodeProcess, directory: Path) -> None:
    assert node.entries()[-1]["message"] == "stopped", node.log.read_text()
    assert len(databases(directory)) >= 3
    assert [path.name for path in databases(directory) if not (path / SEAL_FILE).is_file()] == []


def cut(log: Path, random: Random) -> str | None:
    """Cut the log; tell what was done, None if it has nothing to lose."""
    content = log.read_bytes()
    if not content:
        return None
    if random.random() < 0.2:
        log.unlink()
        return f"{log} removed"
    length = random.randrange(len(content))
    log.write_bytes(content[:length])
    return f"{log} cut from {len(content)} to {length} bytes"


def play(kind: Kind, rounds: int, random: Random) -> None:
    node = ready(kind)
    answered = 0
    for number in range(rounds):
        kind.grow(node)
        answered = max(answered, tip_of(node))
        how = random.choice((signal.SIGTERM, signal.SIGKILL)) if number else signal.SIGTERM
        code = node.stop(how)
        if how is signal.SIGTERM:
            assert code == 0
            has_ended_cleanly(node, kind.directory)
        else:
            wait_for_the_lock(kind.directory)
        whole = kind.directory.with_name("whole")
        shutil.copytree(kind.directory, whole)
        database = random.choice(databases(kind.directory))
        what = cut(newest_log(database), random)
        if what is not None:
            require_recovery(kind, database, answered)
            shutil.rmtree(kind.directory)
            whole.rename(kind.directory)
        else:
            shutil.rmtree(whole)
        node = ready(kind)
        assert tip_of(node) >= answered, (how, what, node.log.read_text())
    assert node.stop() == 0
    has_ended_cleanly(node, kind.directory)


def ready(kind: Kind) -> NodeProcess:
    node = kind.start().wait_until_serving()
    wait_until(lambda: node.readiness() == "OK", node)
    return node


def wait_for_the_lock(directory: Path) -> None:
    """Until the primary of a killed supervisor has gone, too."""
    with (directory / "fastnode.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


def require_recovery(kind: Kind, database: Path, answered: int) -> None:
    """A start after a loss: it reports it and serves, or refuses where nothing is left and no source has it."""
    try:
        node = ready(kind)
    except AssertionError as ended:
        log = str(ended)
        assert not kind.has_source, log
        assert "was lost; restore it" in log
        assert str(database) in log
        return
    log = node.log.read_text()
    assert "database recovered: its log lost acknowledged writes" in log, log
    assert str(database) in log
    if kind.has_source:
        wait_until(lambda: tip_of(node) >= answered, node)
    assert node.stop() == 0


@pytest.mark.parametrize("kind", [name for name in KINDS if IS_LONG or name in QUICK], indirect=True)
def test_an_end_of_any_kind_loses_nothing_without_a_word(kind: Kind, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["kind"]
    play(kind, ROUNDS.get(name, 1), Random(f"{SEED} {name}"))
