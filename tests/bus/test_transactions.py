"""A transaction that one node has taken is with all of them, and goes on to the network once."""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from tests import forked_nodes
from tests.bus.nats import PATIENCE_S, NatsServer, open_bus
from tests.bus.txs import hash_of, tx_of
from tests.ports import free_ports
from tests.sources.recorded_chain import RecordedChain
from tests.sources.scripted_upstream import RejectionError, ScriptedUpstream, scripted_upstream

from fastnode.bus.connection import Bus, Outgoing, StreamSetup
from fastnode.bus.handing_on import CLAIMED, FREE, REFUSED, TAKEN
from fastnode.bus.sharing import UNSHARED_S
from fastnode.bus.subjects import BUS_VERSION, Subjects
from fastnode.bus.transactions import SharedTxs, Standing
from fastnode.errors import DatabaseFull, Refused, UpstreamUnavailable
from fastnode.mempool.entries import PoolEntry
from fastnode.mempool.pool import Added
from fastnode.mempool.rules import TxRejected
from fastnode.mempool.validation import EXPIRED, UNKNOWN_ANCHOR
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx

StartNode = Callable[..., Any]


class TakingUpstream:
    """Another node that takes transactions, and counts them."""

    def __init__(self, upstream: ScriptedUpstream) -> None:
        self.upstream = upstream
        self.taken: Counter[str] = Counter()
        self.refuses = False
        self._lock = threading.Lock()
        upstream.answers["node_sendTx"] = self._take

    def _take(self, parameters: list[Any]) -> Any:
        if self.refuses:
            raise RejectionError(-32000, "Tx does not please", {"code": "NOT_PLEASING"})
        with self._lock:
            self.taken[hash_of(parameters[0])] += 1


@pytest.fixture
def network(tmp_path: Path, sample_chain: Path) -> Iterator[TakingUpstream]:
    chain = RecordedChain(tmp_path / "recorded", sample_chain)
    while not chain.is_complete:
        chain.reveal()
    chain.move_tips()
    with scripted_upstream(chain) as upstream:
        del upstream.answers["node_getCurrentMinFees"]
        yield TakingUpstream(upstream)
    chain.close()


def until(condition: Callable[[], object], what: object = "") -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def pending(node: Any) -> int:
    count: int = node.call("node_getPendingTxCount")["result"]
    return count


def fetched(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_S) as response:
        text: str = response.read().decode()
    return text


def nodes_of(server: NatsServer) -> dict[str, dict[str, Any]]:
    """What ``fastnode fleet status`` says, by name."""
    command = [sys.executable, "-m", "fastnode", "fleet", "status", "--bus-url", server.url, "--json"]
    done = forked_nodes.run(command, text=True, timeout=PATIENCE_S)
    assert done.returncode in (0, 1), done.stderr
    return {node["name"]: node for nodes in json.loads(done.stdout).values() for node in nodes}


def test_a_transaction_goes_from_any_node_to_all_of_them_and_on_once(
    tmp_path: Path, server: NatsServer, network: TakingUpstream, start_node: StartNode
) -> None:
    ports = dict(zip(("one", "two", "three", "four"), free_ports(4), strict=True))

    def start(name: str, *flags: str) -> Any:
        own = ("--data-directory", tmp_path / name, "--metrics-port", ports[name], "--disable-admin-api-key")
        return start_node(*own, "--bus-url", server.url, "--bus-name", name, *flags).wait_until_serving()

    source = ("--upstream-url", network.upstream.url, "--bus-publish")
    nodes = {
        "one": start("one", *source),
        "two": start("two", *source),
        "three": start("three"),
        "four": start("four", "--workers=1"),
    }
    nodes["four"].wait_for_line("worker serves")
    until(lambda: all(node.call("node_isReady")["result"] for node in nodes.values()))

    sent = tx_of(1)
    assert "error" not in nodes["three"].call("node_sendTx", sent)
    until(lambda: [pending(node) for node in nodes.values()] == [1, 1, 1, 1])
    until(lambda: network.taken[hash_of(sent)] == 1)

    # What the network refuses leaves all pools.
    network.refuses = True
    assert "error" not in nodes["four"].call("node_sendTx", tx_of(2))
    until(lambda: "refused upstream: Tx does not please" in (tmp_path / "node-3.log").read_text())
    until(lambda: [pending(node) for node in nodes.values()] == [1, 1, 1, 1])
    network.refuses = False
    # All know why, and none has seen a hash that nobody sent.
    for node in nodes.values():
        receipt = node.call("node_getTxReceipt", hash_of(tx_of(2)))["result"]
        assert receipt["error"] == "Tx dropped by P2P node: refused upstream: Tx does not please"
        assert node.call("node_getTxReceipt", hash_of(tx_of(99)))["result"] == {
            "txHash": hash_of(tx_of(99)),
            "status": "dropped",
            "error": "Tx dropped by P2P node",
            "unknownHere": True,
        }
    # A client may try again what was refused.
    assert "error" not in nodes["four"].call("node_sendTx", tx_of(2))
    until(lambda: network.taken[hash_of(tx_of(2))] == 1)

    # Metrics and the status page say how the fleet is.
    assert 'fastnode_fleet_nodes{role="replica"} 2.0' in fetched(ports["one"], "/metrics")
    assert "fastnode_bus_connected 1.0" in fetched(ports["three"], "/metrics")
    assert 'fastnode_fleet_txs_total{what="shared"} 2.0' in fetched(ports["four"], "/metrics")
    overview = json.loads(fetched(nodes["three"].admin_port, "/status-page/overview"))["fleet"]
    assert {node["name"] for node in overview["nodes"]} == set(nodes)
    assert {publisher["name"] for publisher in overview["publishers"]} == {"one", "two"}

    # Who hands on is known; when it is killed another node does.
    until(lambda: sum(node["handsOn"] for node in nodes_of(server).values()) == 1)
    listed = nodes_of(server)
    assert {name: node["role"] for name, node in listed.items()} == {
        "one": "publisher",
        "two": "publisher",
        "three": "replica",
        "four": "replica",
    }
    [holder] = [name for name, node in listed.items() if node["handsOn"]]
    nodes.pop(holder).stop(signal.SIGKILL)
    assert "error" not in nodes["three"].call("node_sendTx", tx_of(3))
    until(lambda: network.taken[hash_of(tx_of(3))] == 1)
    assert set(network.taken.values()) == {1}

    # Without the bus a client is told so, and reads go on.
    server.stop()
    until(lambda: nodes["four"].call("fastnode_getSyncStatus")["result"]["state"] == "degraded")
    answer = nodes["four"].call("node_sendTx", tx_of(4))
    assert answer["error"]["data"]["code"] == "BUS_UNAVAILABLE"
    assert pending(nodes["four"]) == 3
    assert nodes["four"].call("node_getBlockNumber")["result"] == network.upstream.chain.tip
    server.start()
    until(lambda: "error" not in nodes["four"].call("node_sendTx", tx_of(4)))
    until(lambda: network.taken[hash_of(tx_of(4))] == 1)


def test_what_another_node_has_taken_is_pending_before_it_is_here(server: NatsServer) -> None:
    subjects = Subjects("fastnode-1-1")
    taken, refused, unknown = (bytes([number]) * 32 for number in (1, 2, 4))
    body, pool = json.dumps(tx_of(1)).encode(), HeldPool()
    gone = Tx.from_json(tx_of(1), FOUR).hash
    bus = open_bus(server.url, name="one")
    try:
        bus.set_up(
            StreamSetup(name=subjects.tx_stream, subjects=(subjects.all_txs,), live=(subjects.all_txs, "live.>"))
        )
        txs = SharedTxs(bus, subjects, pool, lambda: None, None, session="s")  # type: ignore[arg-type]
        for tx_hash, data in ((gone, body), (refused, b"{}"), (taken, b"{}")):
            bus.publish(Outgoing(subjects.tx(tx_hash), data))
        record = {"version": BUS_VERSION, "state": "refused", "reason": "Tx does not please"}
        bus.publish(Outgoing(subjects.hand(refused), json.dumps(record).encode()))
        txs._next = 2  # the first one was read
        assert txs.standing_of(taken) == Standing(
            is_pending=True, reason="Another node of this fleet has taken it; it is on its way here"
        )
        assert txs.standing_of(refused) == Standing(is_pending=False, reason="refused upstream: Tx does not please")
        assert txs.standing_of(gone) == Standing(
            is_pending=True, reason="A node of this fleet has taken it; it is not in this node's pool"
        )
        pool.obstacles[gone] = UNKNOWN_ANCHOR
        assert txs.standing_of(gone) == Standing(
            is_pending=False, reason=f"a node of this fleet had taken it: {UNKNOWN_ANCHOR}"
        )
        # An upstream took it, which may have the block that it is built on.
        record = {"version": BUS_VERSION, "state": TAKEN}
        bus.publish(Outgoing(subjects.hand(gone), json.dumps(record).encode()))
        assert txs.standing_of(gone) == Standing(
            is_pending=True, reason="A node of this fleet has handed it on; it is not in this node's pool"
        )
        pool.obstacles[gone] = EXPIRED
        assert not txs.standing_of(gone).is_pending  # type: ignore[union-attr]
        assert txs.standing_of(unknown) is None
        # Sent once more after it was refused.
        bus.publish(Outgoing(subjects.tx(refused), b"{}"))
        assert txs.standing_of(refused).is_pending  # type: ignore[union-attr]
    finally:
        bus.close()
    with pytest.raises(UpstreamUnavailable):
        txs.standing_of(taken)


#: Records of a transaction after it was sent, each way to where it is in the end.
SAID: Final = (
    [],
    [CLAIMED],
    [CLAIMED, TAKEN],
    [CLAIMED, REFUSED],
    [CLAIMED, FREE, CLAIMED, TAKEN],
    [CLAIMED, REFUSED, "sent"],
    [CLAIMED, REFUSED, "sent", CLAIMED, TAKEN],
)


class HeldPool:
    """Transactions by hash, and whether another node has them; none is taken before the block that it is built on, or
    while the disk is full."""

    def __init__(self) -> None:
        self.pool = self
        self.release = FOUR
        self.has_block = self.is_full = False
        #: Transactions that it has no place for, and reasons why no block can have one.
        self.refused: set[bytes] = set()
        self.obstacles: dict[bytes, str] = {}
        self.since = time.monotonic()
        self.waiting: dict[bytes, bool] = {}
        self.bodies: dict[bytes, bytes] = {}

    def receive(self, tx: Tx, _: Any, *, forwarded: bool) -> Added:
        if self.is_full:
            raise DatabaseFull("the disk is full")
        if not self.has_block:
            raise Refused(UNKNOWN_ANCHOR, data={})
        if tx.hash in self.refused:
            raise TxRejected("LOW_PRIORITY_FEE", "it does not pay enough")
        self.waiting[tx.hash] = forwarded
        return Added.ACCEPTED

    def obstacle_to(self, entry: PoolEntry) -> str | None:
        return self.obstacles.get(entry.hash)

    def is_waiting(self, tx_hash: bytes) -> bool:
        return tx_hash in self.waiting

    waits_for_block = is_waiting

    def mark_forwarded(self, tx_hash: bytes) -> None:
        if tx_hash in self.waiting:
            self.waiting[tx_hash] = True

    def drop(self, tx_hash: bytes, _: str) -> None:
        self.waiting.pop(tx_hash, None)

    def pending_hashes(self) -> list[bytes]:
        return list(self.waiting)

    def unforwarded_hashes(self) -> list[bytes]:
        return [tx_hash for tx_hash, is_forwarded in self.waiting.items() if not is_forwarded]

    def unforwarded_since(self, tx_hash: bytes) -> float | None:
        return None if self.waiting.get(tx_hash, True) else self.since

    def tx_json(self, tx_hash: bytes) -> bytes | None:
        return self.bodies.get(tx_hash)


class Lines:
    """Between a node and the bus, which turn a byte over now and then."""

    def __init__(self, bus: Bus, dice: random.Random) -> None:
        self._dice = dice
        self.damaged = 0.0
        since, last = bus.since, bus.last
        bus.since = lambda *asked: [*map(self._carried, since(*asked))]  # type: ignore[method-assign]
        bus.last = lambda *asked: self._carried(last(*asked))  # type: ignore[method-assign]

    def _carried(self, message: Any) -> Any:
        if message is None or self._dice.random() >= self.damaged:
            return message
        data = bytearray(message.data)
        data[self._dice.randrange(len(data))] ^= 0x80  # no JSON is like that
        return replace(message, data=bytes(data))


@pytest.mark.parametrize("seed", range(8))
def test_what_the_fleet_says_of_a_transaction_is_heeded_whenever_it_comes_into_the_pool(
    server: NatsServer, seed: int
) -> None:
    """The block that transactions are built on comes late here, after some of what is said of them; the disk is full
    now and then, and messages arrive damaged."""
    dice = random.Random(seed)
    subjects = Subjects(f"fastnode-1-{seed}")
    held = HeldPool()
    view: Any = SimpleNamespace(
        chain=SimpleNamespace(tx_location=lambda _: None, chain=SimpleNamespace(release=FOUR)),
    )
    bodies = {bytes.fromhex(hash_of(tx)[2:]): json.dumps(tx).encode() for tx in map(tx_of, range(8))}
    told = {tx_hash: ["sent", *dice.choice(SAID)] for tx_hash in bodies}
    left = {tx_hash: list(said) for tx_hash, said in told.items()}
    bus = open_bus(server.url, name="one")
    try:
        sink: Any = SimpleNamespace()
        txs = SharedTxs(bus, subjects, held, lambda: view, None, session="s", sink=sink)  # type: ignore[arg-type]
        txs._look_at_stream()
        lines = Lines(bus, dice)
        while any(left.values()):
            tx_hash = dice.choice([each for each, said in left.items() if said])
            said = left[tx_hash].pop(0)
            if said == "sent":
                bus.publish(Outgoing(subjects.tx(tx_hash), bodies[tx_hash]))
            else:
                record = {"version": BUS_VERSION, "state": said, "by": "two", "session": "t"}
                bus.publish(Outgoing(subjects.hand(tx_hash), json.dumps(record).encode()))
            held.has_block |= dice.random() < 0.1
            held.is_full = dice.random() < 0.2
            lines.damaged = dice.choice([0.0, 0.02])
            if dice.random() < 0.6:
                txs._read_on()
        lines.damaged = 0.0
        held.has_block, held.is_full = True, False
        txs._read_on()
        assert txs.troubles()["sharedTransactions"] is None
        # One that this pool had let go, and a client sends here.
        for tx_hash in [each for each, said in told.items() if said[-1] == TAKEN][:2]:
            tx = Tx.from_json(json.loads(bodies[tx_hash]), FOUR)
            held.receive(tx, None, forwarded=False)
            txs.share(tx, bodies[tx_hash])
    finally:
        bus.close()
    assert held.waiting == {each: said[-1] == TAKEN for each, said in told.items() if said[-1] != REFUSED}


@pytest.mark.parametrize("seed", range(8))
def test_one_that_waits_here_and_is_not_on_the_bus_is_shared_after_a_while(server: NatsServer, seed: int) -> None:
    """As the pool keeps one whose client was told that the disk refuses it, and as a node leaves one that is killed."""
    dice = random.Random(seed)
    subjects, held = Subjects(f"fastnode-1-missing-{seed}"), HeldPool()
    held.bodies = {bytes.fromhex(hash_of(tx)[2:]): json.dumps(tx).encode() for tx in map(tx_of, range(90))}
    there = {tx_hash for tx_hash in held.bodies if dice.random() < 0.3}
    held.waiting = {tx_hash: dice.random() < 0.3 for tx_hash in held.bodies}
    missing = {tx_hash for tx_hash, is_forwarded in held.waiting.items() if not is_forwarded} - there
    bus = open_bus(server.url, name="one")
    try:
        txs = SharedTxs(bus, subjects, held, lambda: None, None, session="s")  # type: ignore[arg-type]
        held.waiting, waiting = {}, held.waiting
        txs._read_on()  # the stream is made
        held.waiting = waiting
        for tx_hash in there:
            bus.publish(Outgoing(subjects.tx(tx_hash), held.bodies[tx_hash], expected=0))

        def on_the_bus() -> set[bytes]:
            found = bus.subjects(subjects.tx_stream, f"{subjects.tx_stream}.tx.*")
            return {tx_hash for tx_hash in held.bodies if subjects.tx(tx_hash) in found}

        txs._next_look_at = 0.0
        txs._read_on()
        assert on_the_bus() == there, "they may be on their way"
        held.since -= UNSHARED_S
        while on_the_bus() != there | missing:
            txs._next_look_at = 0.0
            txs._read_on()
            assert txs.troubles()["sharedTransactions"] is None
        last = bus.state(subjects.tx_stream)["last_seq"]  # type: ignore[index]
        txs._next_look_at = 0.0
        txs._read_on()
        assert bus.state(subjects.tx_stream)["last_seq"] == last == len(there | missing)  # type: ignore[index]
    finally:
        bus.close()


@pytest.mark.parametrize("is_repeated", [True, False])
def test_one_that_the_bus_does_not_take_leaves_the_pool_unless_others_may_have_it(
    server: NatsServer, *, is_repeated: bool
) -> None:
    held, body = HeldPool(), json.dumps(tx_of(1)).encode()
    tx = Tx.from_json(json.loads(body), FOUR)
    bus = open_bus(server.url, name="one")
    try:
        txs = SharedTxs(bus, Subjects("fastnode-1-away"), held, lambda: None, None, session="s")  # type: ignore[arg-type]
        txs._read_on()
        held.waiting[tx.hash] = False
        if is_repeated:
            txs.share(tx, body)
        server.stop()
        until(lambda: not bus.is_connected)
        with pytest.raises(Refused, match="cannot be told of the transaction now"):
            (txs.share_repeated if is_repeated else txs.share)(tx, body)
        assert held.is_waiting(tx.hash) == is_repeated
    finally:
        bus.close()


@pytest.mark.parametrize("has_claim", [True, False])
@pytest.mark.parametrize("outcome", [TAKEN, REFUSED, FREE])
def test_an_outcome_that_servers_have_lost_is_said_again(server: NatsServer, outcome: str, *, has_claim: bool) -> None:
    """With the claim before it or without: a claim that stands keeps all others from handing on."""
    subjects = Subjects(f"fastnode-1-{outcome}-{has_claim}")
    bus = open_bus(server.url, name="one")
    tx_hash, held = bytes(32), HeldPool()

    def forward(_: bytes, _is_wanted: object = None) -> bool:
        if outcome == REFUSED:
            raise Refused("it does not please", data={})
        return outcome == TAKEN

    try:
        sink: Any = SimpleNamespace(forward=forward)
        txs = SharedTxs(bus, subjects, held, lambda: None, None, session="s", sink=sink)  # type: ignore[arg-type]
        txs._look_at_stream()
        hand = txs.handing_on
        hand.lease = SimpleNamespace(is_held=True, tick=lambda: False)  # type: ignore[assignment]
        hand._hand_on_one(tx_hash, b"{}", hand._waiting[0])
        found = hand.hand_of(tx_hash)
        assert found is not None
        assert found[1]["state"] == outcome
        bus.purge(subjects.tx_stream, subject=subjects.hand(tx_hash))
        if has_claim:
            bus.publish(hand._outgoing(tx_hash, hand._record(CLAIMED), 0))
        txs._connection = None  # it was away
        txs._look_at_stream()
        hand._hand_on()
        found = hand.hand_of(tx_hash)
        assert (None if found is None else found[1]["state"]) == (outcome if has_claim or outcome == TAKEN else None)
    finally:
        bus.close()
