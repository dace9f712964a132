"""A fleet on three servers of the bus, two publishers and three replicas, one of which is killed in each round while
blocks, reorgs and transactions flow.  In the end all replicas answer alike, every transaction that a node took has
reached the network, and none was handed on by two nodes that lived.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.bus.nats import PATIENCE_S, NatsServer
from tests.bus.txs import hash_of, tx_of
from tests.ports import free_ports
from tests.sources.made_chain import as_stored
from tests.sources.recorded_chain import RecordedChain
from tests.sources.scripted_upstream import ScriptedUpstream, scripted_upstream
from tests.sources.test_process import ask, questions

from fastnode.protocol.header import BlockHeader
from fastnode.protocol.tips import BlockId, L2Tips

StartNode = Callable[..., Any]

ROUNDS = int(os.environ.get("FASTNODE_FLEET_ROUNDS", "100"))
SHORT_ROUNDS = 1
QUESTIONS = 1000
SHORT_QUESTIONS = 100
PUBLISHERS = ("one", "two")
REPLICAS = ("three", "four", "five")


class Member:
    """One node of the fleet, over all of its lives."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start = start
        self.node = start()
        self.life = 0
        #: When each life ended, on the clock of ``time.monotonic``.
        self.ends: dict[int, float] = {}

    def kill(self) -> None:
        self.node.stop(signal.SIGKILL)
        self.ends[self.life] = time.monotonic()

    def start_again(self) -> None:
        self.life += 1
        self.node = self._start().wait_until_serving()


class Handed:
    """What publishers handed on: by which of them, in which life, when."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self._lock = threading.Lock()
        self.all: dict[str, list[tuple[str, int, float]]] = {}

    def taking(self, name: str) -> Callable[[list[Any]], None]:
        def take(parameters: list[Any]) -> None:
            tx_hash = hash_of(parameters[0])
            with self._lock:
                entry = (name, self.members[name].life, time.monotonic())
                self.all.setdefault(tx_hash, []).append(entry)

        return take

    def twice_by_living(self) -> dict[str, list[tuple[str, int, float]]]:
        """Transactions that a node handed on while another one that had done so lived."""
        found = {}
        for tx_hash, entries in self.all.items():
            for (name, life, _), (other, other_life, later) in pairwise(entries):
                ended = self.members[name].ends.get(life)
                if (name, life) != (other, other_life) and (ended is None or ended > later):
                    found[tx_hash] = entries
        return found


class World:
    """All of them have the recorded chain already, but for the last replica, which gets it over the bus."""

    def __init__(self, directory: Path, sample_chain: Path, stored: Path, start: StartNode, stack: ExitStack) -> None:
        self.directory = directory
        for name in (*PUBLISHERS, *REPLICAS[:-1]):
            shutil.copytree(stored, directory / name)
        self._start = start
        self.chain = RecordedChain(directory / "recorded", sample_chain)
        stack.callback(self.chain.close)
        while not self.chain.is_complete:
            self.chain.reveal()
        # Everything that was recorded is final, so that transactions keep the block they are built on.
        self.base = self.chain.tip
        self.chain.proven = self.chain.finalized = self.chain.checkpoint_count
        self.chain._chain._slot = self.chain.units[-1].making._variables.slot_number
        self.handed = Handed()
        self.servers = self._start_servers(stack)
        self.upstreams = {name: self._upstream(name, stack) for name in PUBLISHERS}
        self.members: dict[str, Member] = {}
        for name in (*PUBLISHERS, *REPLICAS):
            self.members[name] = Member(lambda name=name: self._start_node(name))
        for member in self.members.values():
            member.node.wait_until_serving()
        self.handed.members = self.members
        self.acknowledged: list[str] = []
        self.refused: list[Any] = []
        self._sent = 0
        self.events: list[str] = []

    def _start_servers(self, stack: ExitStack) -> list[NatsServer]:
        routes = free_ports(3)
        servers = []
        for number, route in enumerate(routes):
            server = NatsServer(
                self.directory / "nats", name=f"s{number}", cluster_port=route, routes=[r for r in routes if r != route]
            )
            stack.callback(server.stop)
            servers.append(server)
        return servers

    def _upstream(self, name: str, stack: ExitStack) -> ScriptedUpstream:
        upstream = stack.enter_context(scripted_upstream(self.chain))
        del upstream.answers["node_getCurrentMinFees"]
        upstream.answers["node_sendTx"] = self.handed.taking(name)
        return upstream

    def _start_node(self, name: str) -> Any:
        urls = ",".join(server.url for server in self.servers)
        flags: list[object] = ["--data-directory", self.directory / name, "--bus-url", urls, "--bus-name", name]
        flags.append("--bus-replicas=3")
        if name in PUBLISHERS:
            flags += ["--upstream-url", self.upstreams[name].url, "--bus-publish", "--archiver-polling-interval-ms=20"]
        return self._start(*flags)

    # ---- what happens ------------------------------------------------------------------------------

    def change_chain(self, source: random.Random) -> None:
        first, second = self.upstreams.values()
        with first.lock, second.lock:
            chain = self.chain
            if source.random() < 0.3 and chain.tip > self.base:
                chain.undo_to(source.randint(max(self.base, chain.tip - 6), chain.tip - 1))
                self.events.append("reorg")
            chain.propose(source.randint(1, 3))
            if source.random() < 0.5:
                chain.publish()

    def send(self, source: random.Random) -> None:
        self._sent += 1
        tx = tx_of(self._sent)
        name = source.choice(list(self.members))
        try:
            answer = self.members[name].node.call("node_sendTx", tx)
        except OSError as error:  # it was killed, or is
            answer = {"error": str(error)}
        if "error" in answer:
            self.refused.append(answer["error"])
        else:
            self.acknowledged.append(hash_of(tx))

    def round(self, source: random.Random) -> None:
        kind = source.choice(("server", "publisher", "replica"))
        self.change_chain(source)
        sending = threading.Thread(target=self.send, args=(source,))
        sending.start()
        time.sleep(source.random() * 0.05)
        if kind == "server":
            server = source.choice(self.servers)
            self.events.append(f"kill server {self.servers.index(server)}")
            server.stop(signal.SIGKILL)
            self.change_chain(source)
            self.send(source)
            sending.join()
            server.start()
        else:
            name = source.choice(PUBLISHERS if kind == "publisher" else REPLICAS)
            self.events.append(f"kill {name}")
            self.members[name].kill()
            self.change_chain(source)
            sending.join()
            self.members[name].start_again()
        self.send(source)

    # ---- what must hold ----------------------------------------------------------------------------

    def tips(self) -> L2Tips:
        header = self.members["three"].node.call("node_getBlockHeader", 0)["result"]
        genesis = BlockId(0, BlockHeader.from_json(header, "header").hash())
        first, second = self.upstreams.values()
        with first.lock, second.lock:
            return as_stored(self.chain.tips(), genesis)

    def wait_for_the_chain(self) -> None:
        wanted = self.tips().to_json()
        deadline = time.monotonic() + 2 * PATIENCE_S
        for name, member in self.members.items():
            while member.node.call("node_getL2Tips")["result"] != wanted:
                if time.monotonic() > deadline:
                    status = member.node.call("fastnode_getSyncStatus")["result"]
                    raise AssertionError(f"{name}: {json.dumps(status)}, wanted: {json.dumps(wanted)}, {self.events}")
                time.sleep(0.05)

    def wait_for_transactions(self) -> None:
        deadline = time.monotonic() + 2 * PATIENCE_S
        while missing := [tx_hash for tx_hash in self.acknowledged if tx_hash not in self.handed.all]:
            assert time.monotonic() < deadline, (missing, self.events)
            time.sleep(0.05)


@pytest.fixture
def world(tmp_path: Path, sample_chain: Path, chain_directory: Path, start_node: StartNode) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(tmp_path, sample_chain, chain_directory, start_node, stack)


def survive(world: World, rounds: int, data_directory: Path, count: int) -> None:
    begun = time.monotonic()
    source = random.Random(os.environ.get("FASTNODE_FLEET_SEED", "fleet"))
    world.wait_for_the_chain()
    print(f"{time.monotonic() - begun:.1f} s: the chain is there")
    for _ in range(rounds):
        world.round(source)
        print(f"{time.monotonic() - begun:.1f} s: {world.events[-1]}", flush=True)
        if source.random() < 0.3:
            world.wait_for_the_chain()
    world.wait_for_the_chain()
    print(f"{time.monotonic() - begun:.1f} s: the chain is there")
    world.wait_for_transactions()
    print(f"{time.monotonic() - begun:.1f} s: the transactions are there")
    twice = world.handed.twice_by_living()
    print(
        f"{rounds} rounds: {len(world.acknowledged)} transactions acknowledged, {len(world.refused)} refused, "
        f"{sum(len(entries) > 1 for entries in world.handed.all.values())} handed on again after a kill, "
        f"{len(twice)} by two living nodes, {world.events.count('reorg')} reorgs, block {world.chain.tip}"
    )
    assert not twice
    assert world.acknowledged
    sample = random.Random(1).sample(questions(data_directory), count)
    asked = [*sample, ("node_getBlocks", [world.base - 2, 50])]
    answers = [ask(world.members[name].node, asked) for name in (*REPLICAS, PUBLISHERS[0])]
    for call, *each in zip(asked, *answers, strict=True):
        assert all(answer == each[0] for answer in each), call


def test_a_fleet_survives_a_few_kills(world: World, data_directory: Path) -> None:
    survive(world, SHORT_ROUNDS, data_directory, SHORT_QUESTIONS)


@pytest.mark.long
def test_a_fleet_survives_a_hundred_kills(world: World, data_directory: Path) -> None:
    survive(world, ROUNDS, data_directory, QUESTIONS)
