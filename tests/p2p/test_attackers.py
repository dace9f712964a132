"""Peers that mean harm: memory stays in the budget, they are dropped, and others go on."""

from __future__ import annotations

import random
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

import pytest
from tests.conftest import PATIENCE_S
from tests.p2p.nodes import FakeHost, Node, running
from tests.p2p.vectors import VERSION

from fastnode.errors import PeerFault
from fastnode.kernels import peer_frames
from fastnode.p2p.gossip import wire as gossip_wire
from fastnode.p2p.gossip.cache import Verdict
from fastnode.p2p.gossip.topics import Topic, pack, topic_name
from fastnode.p2p.judging.host import Judgement
from fastnode.p2p.judging.standing import Penalty
from fastnode.p2p.messages.request_forms import write_hashes
from fastnode.p2p.node.options import StaticPeer
from fastnode.p2p.node.overlay import Overlay
from fastnode.p2p.node.request_limits import Request
from fastnode.p2p.transport.connection import Connection
from fastnode.p2p.transport.encoding import protobuf
from fastnode.p2p.transport.identity import Identity
from fastnode.p2p.transport.limits import Limits
from fastnode.p2p.transport.multistream import Selection
from fastnode.p2p.transport.yamux import Event, Opened, Received

MESH = "/meshsub/1.1.0"
EVERYTHING = [MESH, "/aztec/id/1.0.0", *(request.protocol for request in Request)]
#: Of a victim that listens to gossip of a peer that says nothing of itself.
TRUSTING = {"checks_status": False}
TX = topic_name(Topic.TX, VERSION)
#: Below it a peer is told nothing (reference).
GOSSIP_THRESHOLD = -500
PROMISE_TIME = "fastnode.p2p.gossip.router._PROMISE_S"
Start = Callable[..., Node]
Attack = Callable[..., "Attacker"]
QUICK = Limits(handshake_time_s=1.0, request_time_s=1.0, write_time_s=1.0)


@pytest.fixture
def start() -> Iterator[Start]:
    with running() as started:
        yield started


@pytest.fixture
def attack() -> Iterator[Attack]:
    """Makes attackers, and closes their sockets."""
    with ExitStack() as stack:

        def make(node: Node, *, shakes: bool = True, is_silent: bool = False, **more: Any) -> Attacker:
            attacker = Attacker(node, **more)
            attacker.is_silent = is_silent
            stack.callback(attacker.socket.close)
            if shakes:
                attacker.shake()
            return attacker

        yield make


class Attacker:
    """A connection by hand, over a blocking socket."""

    def __init__(self, node: Node, host: str = "127.0.0.1", identity: Identity | None = None) -> None:
        """``host``: where it comes from, an address of this machine."""
        self.socket = socket.create_connection(("127.0.0.1", node.network.snapshot.port), PATIENCE_S, (host, 0))
        self.identity = identity or Identity()
        self.connection = Connection(self.identity, Limits(), is_dialer=True)
        self.is_gone = False
        self.opened: dict[int, Selection] = {}
        #: On which it gossips; 0: none yet.
        self.mesh_stream = 0
        #: Questions are left without an answer; else they are given up at once.
        self.is_silent = False

    def shake(self) -> None:
        while self.connection.muxer is None:
            self.pump()
            assert not self.is_gone, "it is not let in"

    def wait_for_end(self) -> None:
        """Of a connection on which nothing is agreed."""
        try:
            while self.socket.recv(1000):
                pass
        except ConnectionError:
            pass

    def pump(self, wait_s: float = PATIENCE_S) -> None:
        """Send what waits, and take what comes first; TimeoutError when nothing does.

        Sending has its own time: a part of a frame would be lost with it.
        """
        try:
            self.flush()
            coming = select.poll()
            coming.register(self.socket, select.POLLIN)
            if not coming.poll(wait_s * 1000):
                raise TimeoutError
            data = self.socket.recv(1 << 20)
        except ConnectionError:
            data = b""
        self.is_gone = not data
        for event in self.connection.receive(data, time.monotonic()):
            self.agree(event)

    def agree(self, event: Event) -> None:
        """Take every stream that the node opens, for whatever it is, and say nothing on it but that of gossip."""
        muxer = self.connection.muxer
        assert muxer is not None
        if isinstance(event, Opened):
            self.opened[event.stream] = Selection(EVERYTHING, is_dialer=False)
        elif isinstance(event, Received) and event.stream in self.opened:
            selection = self.opened[event.stream]
            if selection.chosen is None:
                muxer.send(event.stream, selection.receive(event.chunk))
            muxer.consumed(event.stream, len(event.chunk))
            if selection.chosen not in (None, MESH) and not self.is_silent:
                muxer.reset(event.stream)

    def flush(self) -> None:
        self.socket.sendall(self.connection.take_output())

    def stream(self, protocol: str, data: bytes = b"") -> int:
        """A stream of which the beginning is said at once, with what is to follow."""
        muxer = self.connection.muxer
        assert muxer is not None
        number = muxer.open()
        muxer.send(number, Selection([protocol], is_dialer=True).begin())
        self.say(number, data)
        return number

    def say(self, number: int, data: bytes) -> None:
        """On a stream, as far as the node takes it."""
        muxer = self.connection.muxer
        assert muxer is not None
        at = 0
        while at < len(data):
            try:
                count = muxer.send(number, data[at:])
            except PeerFault:  # the node has given the stream up
                break
            if not count:
                self.pump()
                if self.is_gone:
                    return
            at += count
        try:
            self.flush()
        except ConnectionError:
            self.is_gone = True

    def gossip(self, *rpcs: bytes) -> None:
        self.mesh_stream = self.mesh_stream or self.stream(MESH)
        self.say(self.mesh_stream, b"".join(peer_frames.write_varint(len(rpc)) + rpc for rpc in rpcs))

    def pump_until(self, is_so: Callable[[], bool]) -> None:
        """Take what comes until something is so."""
        end = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < end
            assert not self.is_gone, "the node has left it"
            try:
                self.pump(0.05)
            except TimeoutError:
                continue
            except PeerFault:
                self.is_gone = True

    def wait_until_gone(self) -> None:
        end = time.monotonic() + PATIENCE_S
        while not self.is_gone:
            assert time.monotonic() < end, "it is still there"
            try:
                self.pump()
            except TimeoutError:
                continue
            except PeerFault:
                return


def is_well(node: Node, start: Start) -> None:
    """Others connect, and what they publish is received."""
    friend = start(node)
    friend.wait_for_mesh(1)
    payload = b"good %d" % time.monotonic_ns()
    friend.network.publish(Topic.TX, payload)
    node.host.wait_for(payload)


def test_a_thousand_connections_that_say_nothing_are_dropped(start: Start, attack: Attack) -> None:
    limits = replace(QUICK, handshake_time_s=10 * PATIENCE_S)
    node = start(limits=limits)
    silents = [attack(node, shakes=False) for _ in range(1000)]
    node.wait_until(lambda snapshot: snapshot.events.get("accepted", 0) == 1000)
    assert node.network.snapshot.events["refused"] > 500
    object.__setattr__(limits, "handshake_time_s", 1.0)  # it begins when all are there, however long that takes
    assert node.budget.peak_bytes < 8 << 20
    for silent in silents:  # refused at once, or given up when no handshake came
        silent.wait_for_end()
    is_well(node, start)


def test_noise_that_is_none_ends_the_connection(start: Start, attack: Attack) -> None:
    node = start()
    attacker = attack(node, shakes=False)
    attacker.socket.sendall(Selection(["/noise"], is_dialer=True).begin() + struct.pack(">H", 200) + bytes(200))
    attacker.wait_for_end()
    is_well(node, start)


def test_a_message_that_never_ends_is_held_within_the_budget(start: Start, attack: Attack) -> None:
    node = start(**TRUSTING)
    node.budget.bytes_max = 4 << 20
    attacker = attack(node)
    attacker.stream(MESH, peer_frames.write_varint(10 << 20) + bytes(9 << 20))
    attacker.wait_until_gone()
    assert node.budget.refused_count == 1
    assert node.budget.peak_bytes <= 4 << 20
    node.wait_until(lambda snapshot: not snapshot.peers)
    assert node.budget.used_bytes == 0
    is_well(node, start)


def test_a_message_that_says_it_is_too_long_ends_the_connection_at_once(start: Start, attack: Attack) -> None:
    node = start(**TRUSTING)
    attacker = attack(node)
    attacker.stream(MESH, peer_frames.write_varint(1 << 30))
    attacker.wait_until_gone()
    assert node.budget.peak_bytes < 2 << 20


def test_a_peer_that_asks_and_does_not_read_is_dropped(start: Start, attack: Attack) -> None:
    host = FakeHost()
    host.txs = {b"\1" * 32: bytes(range(256)) * 4000}
    node = start(host=host, limits=replace(QUICK, handshake_time_s=PATIENCE_S))
    attacker = attack(node)
    muxer = attacker.connection.muxer
    assert muxer is not None
    for _ in range(60):
        number = attacker.stream(Request.TX.protocol, write_hashes([b"\1" * 32]))
        muxer.finish(number)
    attacker.flush()
    node.wait_until(lambda snapshot: not snapshot.peers)
    assert node.budget.peak_bytes < 64 << 20
    is_well(node, start)


def test_a_peer_that_does_not_say_of_which_network_it_is_is_left(start: Start, attack: Attack) -> None:
    node = start(request_timeout_s=0.3)
    attacker = attack(node, is_silent=True)
    attacker.wait_until_gone()
    assert node.network.snapshot.mesh == dict.fromkeys(node.network.snapshot.mesh, 0)


def test_streams_without_end_are_given_up_and_too_many_end_the_connection(start: Start, attack: Attack) -> None:
    node = start(limits=replace(QUICK, handshake_time_s=PATIENCE_S))
    patient = attack(node, is_silent=True)
    muxer = patient.connection.muxer
    assert muxer is not None
    for _ in range(25):
        muxer.open()
    patient.flush()
    patient.pump_until(lambda: len(muxer._streams) <= 5)
    greedy = attack(node, is_silent=True)
    frames = b"".join(struct.pack(">BBHII", 0, 1, 1, number, 0) for number in range(1, 401, 2))
    assert greedy.connection.muxer is not None
    greedy.connection.muxer.output += frames
    greedy.wait_until_gone()


@pytest.mark.parametrize("seed", range(3))
def test_streams_that_are_opened_and_given_up_cost_points_and_a_banned_peer_is_not_let_in(
    start: Start, attack: Attack, seed: int
) -> None:
    """Given up before anything is said, after a protocol was chosen, or ended without a word."""
    dice = random.Random(seed)
    node = start(**TRUSTING)
    attacker = attack(node)
    muxer = attacker.connection.muxer
    assert muxer is not None
    node.wait_for_peers(1)
    for _ in range(100):
        kind = dice.randrange(3)
        number = muxer.open() if kind < 2 else attacker.stream(Request.TX.protocol)
        if kind == 0:
            muxer.finish(number)
        else:
            muxer.reset(number)
        if dice.random() < 0.3:
            attacker.flush()
    attacker.wait_until_gone()
    again = attack(node, shakes=False, identity=attacker.identity)
    with suppress(AssertionError):
        again.shake()
    again.wait_until_gone()
    node.wait_for_peers(0)
    is_well(node, start)


@pytest.mark.parametrize("seed", range(3))
def test_the_most_crowded_network_gives_up_its_places(start: Start, attack: Attack, seed: int) -> None:
    """Many identities of one address or /24, and a few peers from elsewhere who come last."""
    dice = random.Random(seed)
    node = start(counts_colocation=True, max_peers=8, check_interval_s=0.2, **TRUSTING)
    one_address = dice.random() < 0.5
    sybils: list[Attacker] = []
    while len(sybils) < 12:
        host = "127.0.1.9" if one_address else f"127.0.1.{dice.randint(1, 250)}"
        sybil = attack(node, shakes=False, host=host)
        with suppress(AssertionError, ConnectionError):  # five a second are let in from one address
            sybil.shake()
            sybils.append(sybil)
            continue
        time.sleep(0.2)
    node.wait_until(lambda snapshot: len(snapshot.peers) == 8)
    honest = [attack(node, host=f"127.0.{net}.{dice.randint(1, 250)}") for net in dice.sample(range(2, 250), 4)]
    ids = {peer.identity.peer_id for peer in honest}
    node.wait_until(
        lambda snapshot: len(snapshot.peers) == 8 and ids <= {peer.peer_id for peer in snapshot.peers},
        timeout_s=PATIENCE_S,
    )
    for peer in honest:
        with suppress(TimeoutError):
            peer.pump(0.01)
        assert not peer.is_gone


def discover(node: Node, friend: Node) -> None:
    """As discovery does."""
    where = StaticPeer("127.0.0.1", friend.network.snapshot.port, friend.identity.peer_id)

    async def tell(overlay: Overlay) -> None:
        overlay.swarm.found(where)

    node.network._call(tell, PATIENCE_S)


def test_places_are_kept_for_peers_that_were_dialled(start: Start, attack: Attack) -> None:
    """However many come by themselves, from wherever."""
    node = start(counts_colocation=True, max_peers=8, check_interval_s=0.2, **TRUSTING)
    for net in range(1, 12):
        attack(node, host=f"127.0.{net}.1")
    node.wait_for_peers(8)
    found = [start(), start()]
    for friend in found:
        discover(node, friend)
    ids = {friend.identity.peer_id for friend in found}
    node.wait_until(
        lambda snapshot: len(snapshot.peers) == 8 and ids <= {peer.peer_id for peer in snapshot.peers},
        timeout_s=PATIENCE_S,
    )


def test_handshakes_that_do_not_end_keep_nobody_from_another_address_out(start: Start, attack: Attack) -> None:
    node = start(counts_colocation=True, **TRUSTING)
    silents = [attack(node, shakes=False, host=f"127.0.1.{number}") for number in range(1, 41)]
    node.wait_until(lambda snapshot: snapshot.events.get("accepted", 0) == len(silents))
    attack(node, host="127.0.2.1")
    node.wait_for_peers(1)
    assert node.network.snapshot.events["displaced"] == 1
    one = [attack(node, shakes=False, host="127.0.3.1") for _ in range(3)]
    attack(node, host="127.0.3.1")
    assert one
    node.wait_for_peers(2)


def test_questions_without_end_are_refused_and_cost_points(start: Start, attack: Attack) -> None:
    node = start()
    attacker = attack(node, is_silent=True)
    for _ in range(60):
        assert attacker.connection.muxer is not None
        attacker.connection.muxer.finish(attacker.stream(Request.PING.protocol, b"ping"))
    attacker.wait_until_gone()  # 55 x 2 points
    node.wait_until(lambda snapshot: snapshot.events.get("left banned", 0) == 1)


# ---- gossip --------------------------------------------------------------------------------------


def score(node: Node) -> float:
    return min((peer.score for peer in node.network.snapshot.peers), default=0.0)


def test_who_grafts_without_end_is_left(start: Start, attack: Attack) -> None:
    node = start(**TRUSTING)
    attacker = attack(node)
    # Pruned by itself, it may not come back for a minute.
    again = [gossip_wire.control(gossip_wire.prune(TX)), *[gossip_wire.control(gossip_wire.graft(TX))] * 30]
    attacker.gossip(gossip_wire.subscriptions([TX]), gossip_wire.control(gossip_wire.graft(TX)), *again)
    attacker.wait_until_gone()
    node.wait_until(lambda snapshot: snapshot.events.get("left low_score", 0) == 1)
    is_well(node, start)
    assert node.budget.peak_bytes < 2 << 20


def test_who_offers_and_does_not_deliver_is_not_listened_to_any_more(
    start: Start, attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PROMISE_TIME, 0.2)
    node = start(**TRUSTING)
    attacker = attack(node)
    attacker.gossip(gossip_wire.subscriptions([TX]))
    number = 0

    def lie() -> bool:
        nonlocal number
        number += 1
        ids = [(1000 * number + each).to_bytes(20, "big") for each in range(100)]
        attacker.gossip(gossip_wire.control(gossip_wire.ihave(TX, ids)))
        return score(node) < GOSSIP_THRESHOLD or attacker.is_gone

    attacker.pump_until(lie)
    # What is counted late is counted at once, and may be enough to leave it.
    node.wait_until(lambda snapshot: score(node) < GOSSIP_THRESHOLD or snapshot.events.get("left low_score", 0) == 1)
    is_well(node, start)
    assert node.budget.peak_bytes < 4 << 20


def test_who_sends_what_does_not_decompress_is_left(start: Start, attack: Attack) -> None:
    node = start(**TRUSTING)
    attacker = attack(node)
    bomb = peer_frames.write_varint(1 << 30) + b"\0" * 100  # says that it is 1 GiB
    wrong = [b"\xff" * 20 + bytes([number]) for number in range(20)]
    signed = protobuf((2, protobuf((1, b"author"), (2, pack(b"signed")[1]), (4, TX))))
    attacker.gossip(
        gossip_wire.subscriptions([TX]), signed, *(gossip_wire.message(TX, data) for data in (bomb, *wrong))
    )
    attacker.wait_until_gone()
    is_well(node, start)
    assert b"signed" not in node.host.received
    assert node.budget.peak_bytes < 2 << 20


def test_bad_transactions_never_reach_others_and_their_sender_is_banned(start: Start, attack: Attack) -> None:
    host = FakeHost()
    middle = start(host=host)
    other = start(middle)
    attacker = start(middle)
    for node in (other, attacker):
        node.wait_for_mesh(1)
    middle.wait_for_mesh(2)
    bad = [b"bad proof %d" % number for number in range(10)]
    host.verdicts = {payload: Judgement(Verdict.REJECT, Penalty.LOW_TOLERANCE, "proof") for payload in bad}
    for payload in bad:
        attacker.network.publish(Topic.TX, payload)
    middle.wait_until(lambda snapshot: snapshot.events.get("left banned", 0) >= 1)
    middle.network.publish(Topic.TX, b"good")
    other.host.wait_for(b"good")
    assert not set(bad) & set(other.host.received)


class SlowHost(FakeHost):
    """Takes as long for bad proofs as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.judged = 0

    def judge(self, topic: Topic, payload: bytes, peer: str) -> Judgement:
        if not payload.startswith(b"bad"):
            return super().judge(topic, payload, peer)
        self.judged += 1
        self.go_on.wait(PATIENCE_S)
        return Judgement(Verdict.REJECT, Penalty.LOW_TOLERANCE, "proof")


def test_who_sends_bad_proofs_keeps_nobody_waiting_and_those_after_its_ban_are_not_looked_at(
    start: Start, attack: Attack
) -> None:
    host = SlowHost()
    node = start(host=host, **TRUSTING)
    attacker = attack(node)
    bad = [gossip_wire.message(TX, pack(b"bad %d" % number)[1]) for number in range(50)]
    attacker.gossip(gossip_wire.subscriptions([TX]), *bad)
    attacker.pump_until(lambda: node.network.snapshot.gossip.get(("tx", "received"), 0) == 50)
    is_well(node, start)
    host.go_on.set()
    attacker.wait_until_gone()
    node.wait_until(lambda snapshot: snapshot.gossip.get(("tx", "passed over"), 0) >= 40)
    assert host.judged < 10
