"""Two nodes as processes: one has the bundled chain from its file, the other follows it block by block through forks,
restarts and kill -9.  In the end both answer every recorded question alike.

The long walk is scripts/soak-following.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sources.made_chain import as_stored
from tests.sources.recorded_chain import RecordedChain
from tests.sources.scripted_upstream import ScriptedUpstream, scripted_upstream

from fastnode.protocol.header import BlockHeader
from fastnode.protocol.tips import BlockId

StartNode = Callable[..., Any]

PATIENCE_S = 60.0
DEPTH_MAX = 32
#: Differ between two nodes of one chain: one of them has somebody to hand a transaction on to.
OWN_ANSWERS = {"fastnode_getSyncStatus", "node_isReady"}


@pytest.fixture
def recorded(tmp_path: Path, sample_chain: Path) -> Iterator[RecordedChain]:
    chain = RecordedChain(tmp_path / "recorded", sample_chain)
    yield chain
    chain.close()


@pytest.fixture
def upstream(recorded: RecordedChain) -> Iterator[ScriptedUpstream]:
    with scripted_upstream(recorded) as upstream:
        del upstream.answers["node_getCurrentMinFees"]  # fees are those of the chain file then
        yield upstream


class Walk:
    """A follower as a process, and what happens to it and to what it follows."""

    def __init__(self, start: StartNode, directory: Path, chain: RecordedChain, upstream: ScriptedUpstream) -> None:
        self.chain = chain
        self.upstream = upstream
        self.events: list[str] = []
        self._start = start
        self._directory = directory
        self.node = self.start_node()
        header = self.node.call("node_getBlockHeader", 0)["result"]
        self._genesis = BlockId(0, BlockHeader.from_json(header, "header").hash())

    def start_node(self) -> Any:
        arguments = ("--data-directory", self._directory, "--upstream-url", self.upstream.url)
        return self._start(*arguments, "--archiver-polling-interval-ms=10").wait_until_serving()

    def step(self, source: random.Random) -> None:
        event = source.choices(
            ["reveal", "fork", "grow the fork", "return", "restart", "kill", "upstream away"],
            [8, 5, 3, 3, 0.8, 0.8, 0.5],
        )[0]
        self.events.append(event)
        getattr(self, event.replace(" ", "_"))(source)
        with self.upstream.lock:
            self.chain.move_tips()
        if source.random() < 0.7:
            self.wait_for_the_chain()

    def reveal(self, source: random.Random) -> None:
        with self.upstream.lock:
            for _ in range(source.randint(1, 3)):
                if self.chain.fork_point is None and not self.chain.is_complete:
                    self.chain.reveal()

    def fork(self, source: random.Random) -> None:
        with self.upstream.lock:
            depth = source.randint(1, DEPTH_MAX)
            self.chain.fork(depth, source.randint(1, 4))

    def grow_the_fork(self, source: random.Random) -> None:
        with self.upstream.lock:
            if self.chain.fork_point is None:
                return
            if self.chain.units[-1].published is None and source.random() < 0.5:
                self.chain.publish()
            self.chain.propose(source.randint(1, 2))

    def return_(self, _source: random.Random | None = None) -> None:
        with self.upstream.lock:
            if self.chain.fork_point is not None:
                self.chain.return_()

    def restart(self, _source: random.Random) -> None:
        assert self.node.stop() == 0
        self.node = self.start_node()

    def kill(self, source: random.Random) -> None:
        """In the middle of a reorg as a rule, as that is what is going on all the time."""
        self.fork(source)
        time.sleep(source.random() * 0.1)
        self.node.stop(signal.SIGKILL)
        self.node = self.start_node()

    def upstream_away(self, source: random.Random) -> None:
        self.upstream.stop()
        assert "result" in self.node.call("node_getBlockNumber"), "reads go on"
        self.fork(source)
        self.upstream.start()

    def finish(self) -> None:
        """The fork loses, and the rest of the recorded chain is revealed."""
        self.return_()
        with self.upstream.lock:
            while not self.chain.is_complete:
                self.chain.reveal()
            self.chain.move_tips()
        self.wait_for_the_chain()

    def wait_for_the_chain(self) -> None:
        with self.upstream.lock:
            wanted = as_stored(self.chain.tips(), self._genesis).to_json()
        deadline = time.monotonic() + PATIENCE_S
        while self.node.call("node_getL2Tips")["result"] != wanted:
            assert time.monotonic() < deadline, (self.node.call("fastnode_getSyncStatus"), wanted, self.events)
            time.sleep(0.02)


setattr(Walk, "return", Walk.return_)


def questions(data_directory: Path) -> list[tuple[str, list[Any]]]:
    with gzip.open(data_directory / "queries_sample.jsonl.gz") as lines:
        asked = [json.loads(line) for line in lines]
    own = [("fastnode_getGenesis", []), *[("fastnode_getL1ToL2Messages", [number]) for number in range(1, 43)]]
    return own + [(query["method"], query["params"]) for query in asked if query["method"] not in OWN_ANSWERS]


def ask(node: Any, calls: list[tuple[str, list[Any]]]) -> list[Any]:
    """Answers, a hundred at a time."""
    answers: list[Any] = []
    for first in range(0, len(calls), 100):
        batch = [
            {"jsonrpc": "2.0", "id": index, "method": method, "params": parameters}
            for index, (method, parameters) in enumerate(calls[first : first + 100])
        ]
        request = urllib.request.Request(
            node.url, data=json.dumps(batch).encode(), headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            answers += json.loads(response.read())
    return answers


def assert_alike(one: Any, other: Any, calls: list[tuple[str, list[Any]]]) -> None:
    for call, ours, theirs in zip(calls, ask(one, calls), ask(other, calls), strict=True):
        assert ours == theirs, call


def walk_and_compare(
    steps: int,
    seed: int,
    start_node: StartNode,
    tmp_path: Path,
    recorded: RecordedChain,
    upstream: ScriptedUpstream,
    data_directory: Path,
) -> Walk:
    reference = start_node("--data-directory", tmp_path / "reference").wait_until_serving()
    walk = Walk(start_node, tmp_path / "follower", recorded, upstream)
    source = random.Random(seed)
    for _ in range(steps):
        walk.step(source)
    walk.finish()
    reference.wait_for_line("chain file loaded")
    # No request waits for blocks that do not exist: the questions about unknown hashes would take seconds each.
    assert walk.node.stop() == 0
    walk.node = start_node(
        "--data-directory", tmp_path / "follower", "--upstream-url", upstream.url, "--rpc-block-wait-ms=0"
    ).wait_until_serving()
    walk.wait_for_the_chain()
    walk.node.wait_for_line("upstream healthy")
    deadline = time.monotonic() + PATIENCE_S
    while not walk.node.call("node_isReady")["result"]:
        assert time.monotonic() < deadline
    assert_alike(walk.node, reference, questions(data_directory))
    assert walk.node.stop() == 0
    assert reference.stop() == 0
    return walk


def test_after_forks_and_restarts_every_answer_is_that_of_a_node_that_loaded_the_chain(
    start_node: StartNode, tmp_path: Path, recorded: RecordedChain, upstream: ScriptedUpstream, data_directory: Path
) -> None:
    walk = walk_and_compare(40, 5, start_node, tmp_path, recorded, upstream, data_directory)
    assert {"fork", "return", "kill", "restart"} <= set(walk.events)


@pytest.mark.long
def test_the_long_walk(
    start_node: StartNode, tmp_path: Path, recorded: RecordedChain, upstream: ScriptedUpstream, data_directory: Path
) -> None:
    """SOAK_STEPS and SOAK_SEED say how long and which way."""
    seed = int(os.environ.get("SOAK_SEED") or time.time())
    print(f"SOAK_SEED={seed}")
    steps = int(os.environ.get("SOAK_STEPS") or 200)
    walk_and_compare(steps, seed, start_node, tmp_path, recorded, upstream, data_directory)
