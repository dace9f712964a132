"""What nodes say on the bus of transactions that they hand on, where the bus loses the end of what it acknowledged."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import pytest
from tests.bus.test_transactions import HeldPool
from tests.bus.txs import tx_of
from tests.clock import Clock
from tests.simulation.bus_server import ApiError, Stream, matches

from fastnode.bus.connection import Message, Outgoing, StreamSetup
from fastnode.bus.handing_on import CLAIMED, FREE, REFUSED, TAKEN
from fastnode.bus.lease import LEASE_S
from fastnode.bus.subjects import Subjects
from fastnode.bus.transactions import SharedTxs
from fastnode.errors import Refused, UpstreamUnavailable, UpstreamUndecided
from fastnode.mempool.validation import EXISTING_NULLIFIER, UNKNOWN_ANCHOR
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx

SUBJECTS: Final = Subjects("fastnode-1-1")
TXS: Final = tuple(Tx.from_json(tx_of(number), FOUR) for number in range(6))
SENT: Final = {tx.hash: json.dumps(tx_of(number)).encode() for number, tx in enumerate(TXS)}
VIEW: Final[Any] = SimpleNamespace(
    chain=SimpleNamespace(tx_location=lambda _: None, chain=SimpleNamespace(release=FOUR))
)


class Servers:
    """Streams of a bus, in memory; ``failing``: chance that a request has no answer, stored or not."""

    def __init__(self, dice: random.Random) -> None:
        self.dice, self.clock = dice, Clock()
        self.streams: dict[str, Stream] = {}
        self.failing = 0.0
        self.losses = 0

    def lose_power(self, *, messages: int | None = None) -> None:
        """Some of what was not synced is gone, or so many messages about transactions."""
        self.losses += 1
        for name, stream in self.streams.items():
            if messages is None:
                stream.cut(self.dice)
            elif name == SUBJECTS.tx_stream:
                kept: Any = SimpleNamespace(randint=lambda _, last: last - messages)
                stream.cut(kept)

    def hands(self) -> dict[str, dict[str, Any]]:
        """What was said last of each transaction, by its subject."""
        there, pattern = self.streams[SUBJECTS.tx_stream].messages.values(), f"{SUBJECTS.tx_stream}.hand.*"
        return {each.subject: json.loads(each.data) for each in there if matches(pattern, each.subject)}

    def hand_of(self, tx_hash: bytes) -> dict[str, Any]:
        return self.hands()[SUBJECTS.hand(tx_hash)]

    def stream(self, name: str) -> Stream:
        if self.dice.random() < self.failing:
            raise UpstreamUnavailable("the bus has not answered")
        stream = self.streams[name]
        stream.tidy(self.clock.now)
        return stream


class CutBus:
    """A connection to them, with as much of a bus as transactions need; it is never there for clients that wait."""

    is_connected = False

    def __init__(self, servers: Servers, name: str) -> None:
        self._servers = servers
        self.clock = servers.clock
        self.options = SimpleNamespace(name=name, tx_s=0.0)

    @property
    def connection_number(self) -> int:
        return self._servers.losses

    def state(self, name: str) -> dict[str, Any] | None:
        if name not in self._servers.streams:
            return None
        stream = self._servers.stream(name)
        return {"created": stream.created, "last_seq": stream.last}

    def set_up(self, setup: StreamSetup) -> None:
        config = {"name": setup.name, "subjects": list(setup.subjects)}
        self._servers.streams.setdefault(setup.name, Stream(config, self.clock.now))

    def listen(self, *_: object) -> None:
        """Nothing is pushed: the loops look by themselves."""

    def publish(self, message: Outgoing) -> int | None:
        [name] = [name for name, stream in self._servers.streams.items() if stream.takes(message.subject)]
        headers = {} if message.expected is None else {"nats-expected-last-subject-sequence": str(message.expected)}
        try:
            place, _ = self._servers.stream(name).store(message.subject, headers, b"", message.data, self.clock.now)
        except ApiError:
            return None
        self._servers.stream(name)  # the acknowledgement may be lost
        return place

    def last(self, name: str, subject: str) -> Message | None:
        found = self._servers.stream(name).newest(subject)
        return None if found is None else Message(subject, found.sequence, found.data)

    def since(self, name: str, place: int, pattern: str) -> list[Message]:
        there = self._servers.stream(name).messages.values()
        found = [each for each in there if each.sequence >= place and matches(pattern, each.subject)]
        return [Message(each.subject, each.sequence, each.data) for each in found[: self._servers.dice.randint(1, 4)]]

    def subjects(self, name: str, pattern: str) -> set[str]:
        there = self._servers.stream(name).messages.values()
        return {each.subject for each in there if matches(pattern, each.subject)}


class Pool(HeldPool):
    def __init__(self) -> None:
        super().__init__()
        self.has_block = True

    def unforwarded_hashes(self) -> list[bytes]:
        return [tx_hash for tx_hash, is_forwarded in self.waiting.items() if not is_forwarded]

    def entry(self, tx_hash: bytes) -> Any:
        is_forwarded = self.waiting.get(tx_hash)
        return None if is_forwarded is None else SimpleNamespace(forwarded=is_forwarded)

    def tx_json(self, tx_hash: bytes) -> Any:
        return SENT[tx_hash] if tx_hash in self.waiting else None


class Upstream:
    """Takes transactions, or refuses them, or does not answer."""

    def __init__(self) -> None:
        self.answers = "takes"
        #: Transactions that it refuses without saying whether it has them.
        self.undecided: set[bytes] = set()
        self.taken: Counter[bytes] = Counter()
        #: What happens while a transaction waits for its turn.
        self.on_asked: Callable[[], object] = lambda: None

    def forward(self, tx_json: bytes, is_wanted: Callable[[], bool]) -> bool:
        self.on_asked()
        if not is_wanted():
            return False
        tx_hash = Tx.from_json(json.loads(tx_json), FOUR).hash
        if tx_hash in self.undecided:
            raise UpstreamUndecided("it refuses, and does not say whether it has it")
        if self.answers == "refuses":
            raise Refused("Tx does not please")
        if self.answers == "takes":
            self.taken[tx_hash] += 1
        return self.answers == "takes"


class NodeOfFleet:
    """``upstream`` None: it hands nothing on."""

    def __init__(self, servers: Servers, upstream: Upstream | None, name: str) -> None:
        self.pool = Pool()
        bus: Any = CutBus(servers, name)
        sink: Any = upstream
        pool: Any = self.pool
        members: Any = SimpleNamespace(is_dead=lambda *_: False)
        self.txs = SharedTxs(bus, SUBJECTS, pool, lambda: VIEW, members, session=f"of {name}", sink=sink)

    def read(self) -> None:
        self.txs._read_on()

    def hand_on(self) -> None:
        self.txs.handing_on._hand_on()

    def take(self, tx: Tx) -> bool:
        """From a client; False: it was told that the bus does not have it."""
        if self.pool.is_waiting(tx.hash):
            return True
        self.pool.receive(tx, None, forwarded=False)
        try:
            self.txs.share(tx, SENT[tx.hash])
        except Refused:
            return False
        return True


def fleet_of(servers: Servers, upstream: Upstream) -> list[NodeOfFleet]:
    nodes = [NodeOfFleet(servers, upstream, name) for name in ("one", "two")]
    for node in nodes:
        node.read()
    return nodes


def settle(servers: Servers, nodes: list[NodeOfFleet]) -> None:
    """Half a minute without trouble."""
    for _ in range(30):
        for node in servers.dice.sample(nodes, len(nodes)):
            node.read()
            if node.txs.handing_on.has_sink:
                node.hand_on()
        servers.clock.now += 1.0


@pytest.mark.parametrize("seed", range(30))
def test_no_claim_of_a_node_that_lives_stands_for_ever_whatever_the_bus_lost(seed: int) -> None:
    dice = random.Random(seed)
    servers, upstream = Servers(dice), Upstream()
    nodes = fleet_of(servers, upstream)
    for _ in range(120):
        node = dice.choice(nodes)
        deed = dice.choice(["read", "read", "hand on", "hand on", "send", "trouble", "pass by"])
        if deed == "read":
            node.read()
        elif deed == "hand on":
            node.hand_on()
        elif deed == "send":
            node.take(dice.choice(TXS))
        elif deed == "trouble":
            servers.failing = dice.choice([0.0, 0.0, 0.1])
            upstream.answers = dice.choice(["takes", "refuses", "silent", "silent"])
            if dice.random() < 0.3:
                servers.lose_power()
        else:
            servers.clock.now += dice.choice([0.1, 1.0, 1.0, 4.0])

    servers.failing, upstream.answers = 0.0, "takes"
    settle(servers, nodes)
    assert [hand for hand in servers.hands().values() if hand["state"] == CLAIMED] == []
    for node in nodes:
        assert [tx_hash for tx_hash in node.pool.unforwarded_hashes() if tx_hash not in upstream.taken] == []


@pytest.mark.parametrize("seed", range(20))
def test_what_an_upstream_cannot_decide_does_not_hold_up_the_rest_of_the_fleet(seed: int) -> None:
    dice = random.Random(seed)
    servers, upstream = Servers(dice), Upstream()
    nodes = fleet_of(servers, upstream)
    upstream.undecided = {tx.hash for tx in TXS if dice.random() < 0.5}
    for tx in dice.sample(TXS, len(TXS)):
        dice.choice(nodes).take(tx)
    settle(servers, nodes)
    assert set(upstream.taken) == {tx.hash for tx in TXS} - upstream.undecided
    for node in nodes:
        assert set(node.pool.unforwarded_hashes()) == upstream.undecided
    for hand in (node.txs.handing_on for node in nodes):
        assert (hand.trouble is None) == (not hand.lease.is_held or not upstream.undecided)

    upstream.undecided = set()
    settle(servers, nodes)
    assert upstream.taken == {tx.hash: 1 for tx in TXS}
    assert [node.txs.handing_on.trouble for node in nodes] == [None, None]


@pytest.mark.parametrize("answers", ["takes", "refuses", "silent"])
def test_the_end_of_a_claim_that_the_bus_lost_is_said_again_though_another_node_hands_on_now(answers: str) -> None:
    servers, upstream = Servers(random.Random(1)), Upstream()
    one, two = nodes = fleet_of(servers, upstream)
    tx = TXS[0]
    assert one.take(tx)
    two.read()
    upstream.answers = answers
    one.hand_on()
    assert servers.hand_of(tx.hash)["state"] == {"takes": TAKEN, "refuses": REFUSED, "silent": FREE}[answers]
    one.read()

    servers.lose_power(messages=1)
    two.hand_on()
    servers.clock.now += LEASE_S
    two.hand_on()
    assert two.txs.handing_on.lease.is_held
    assert servers.hand_of(tx.hash)["state"] == CLAIMED

    upstream.answers = "takes"
    settle(servers, nodes)
    assert servers.hand_of(tx.hash)["state"] == (REFUSED if answers == "refuses" else TAKEN)
    assert upstream.taken == ({} if answers == "refuses" else {tx.hash: 1})
    assert [node.pool.unforwarded_hashes() for node in nodes] == [[], []]


def test_what_leaves_the_pool_while_it_waits_for_its_turn_goes_to_nobody_and_does_not_stop_the_others() -> None:
    servers, upstream = Servers(random.Random(1)), Upstream()
    one, _ = fleet_of(servers, upstream)
    left, other = TXS[:2]
    for tx in (left, other):
        assert one.take(tx)
    one.pool.obstacles[left.hash] = "a block was taken back"
    upstream.on_asked = lambda: one.pool.drop(left.hash, one.pool.obstacles[left.hash])
    one.hand_on()
    assert upstream.taken == {other.hash: 1}
    assert [servers.hand_of(tx.hash)["state"] for tx in (left, other)] == [FREE, TAKEN]


@pytest.mark.parametrize("seed", range(30))
def test_what_the_fleet_has_taken_is_handed_on_or_refused_whatever_pools_have_no_place_for(seed: int) -> None:
    """Some nodes have no upstream.  Each pool has no place for some transactions, and lets others go again."""
    dice = random.Random(seed)
    servers, upstream = Servers(dice), Upstream()
    giving = [NodeOfFleet(servers, upstream, name) for name in ("one", "two")]
    nodes = [*giving, NodeOfFleet(servers, None, "three")]
    for node in nodes:
        node.read()
        node.pool.refused = {tx.hash for tx in TXS if dice.random() < 0.4}
    acknowledged: set[bytes] = set()
    for _ in range(80):
        node = dice.choice(nodes)
        deed = dice.choice(["read", "hand on", "send", "let go", "trouble", "pass by"])
        if deed == "read":
            node.read()
        elif deed == "hand on":
            dice.choice(giving).hand_on()
        elif deed == "send":
            tx = dice.choice(TXS)
            if tx.hash not in node.pool.refused and node.take(tx):
                acknowledged.add(tx.hash)
        elif deed == "let go":
            waiting = [tx_hash for tx_hash in node.pool.waiting if tx_hash in acknowledged]
            if waiting:
                node.pool.drop(dice.choice(waiting), "low priority")
        elif deed == "trouble":
            upstream.answers = dice.choice(["takes", "refuses", "silent", "silent"])
        else:
            servers.clock.now += dice.choice([0.1, 1.0, 4.0])

    upstream.answers = "takes"
    settle(servers, nodes)
    states = {tx_hash: servers.hand_of(tx_hash)["state"] for tx_hash in acknowledged}
    assert set(states.values()) <= {TAKEN, REFUSED}
    assert {tx_hash for tx_hash, state in states.items() if state == TAKEN} <= set(upstream.taken)
    for node in nodes:
        for tx_hash in states.keys() - node.pool.waiting.keys():
            standing = node.txs.standing_of(tx_hash)
            assert standing is not None
            assert standing.is_pending == (states[tx_hash] == TAKEN)
            assert standing.is_pending or "refused upstream" in standing.reason


def test_what_the_pool_has_no_place_for_is_handed_on_when_its_anchor_is_back() -> None:
    servers, upstream = Servers(random.Random(1)), Upstream()
    one, two = nodes = fleet_of(servers, upstream)
    anchored, spent = TXS[:2]
    two.pool.refused = {anchored.hash, spent.hash}
    for tx in (anchored, spent):
        assert one.take(tx)
        one.pool.drop(tx.hash, "low priority")
    for node in nodes:
        node.pool.obstacles = {anchored.hash: UNKNOWN_ANCHOR, spent.hash: EXISTING_NULLIFIER}
    settle(servers, nodes)
    assert not upstream.taken
    for node in nodes:
        node.pool.obstacles.clear()
    settle(servers, nodes)
    assert upstream.taken == {anchored.hash: 1}
