"""Nodes that find each other over UDP, from one record."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.p2p.nodes import FakeHost, Node, discovering, running
from tests.p2p.vectors import VERSION
from tests.ports import free_port

from fastnode.errors import PeerUnavailable
from fastnode.p2p.discovery import service as discovery
from fastnode.p2p.discovery.enr import NodeRecord
from fastnode.p2p.discovery.messages import FindNode, Message, Nodes, Ping, TalkAnswer, TalkRequest
from fastnode.p2p.discovery.options import DiscoveryOptions
from fastnode.p2p.discovery.own_record import RECORD_FILE, OwnRecord
from fastnode.p2p.discovery.packet_limits import AddressVotes, PacketGate, is_relayed_well
from fastnode.p2p.discovery.service import Discovery
from fastnode.p2p.discovery.sessions import Contact
from fastnode.p2p.discovery.table import distance
from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.node.known_peers import PEERS_FILE
from fastnode.p2p.transport.identity import Identity

Start = Callable[..., Node]


@pytest.fixture
def start() -> Iterator[Start]:
    with running() as started:
        yield started


def test_a_second_node_joins_from_one_record(start: Start) -> None:
    first = start(**discovering())
    second = start(**discovering(first))
    for node, other in ((first, second), (second, first)):
        node.wait_for_mesh(1)
        assert node.network.snapshot.peers[0].peer_id == other.identity.peer_id
    # The bootstrap node itself is not dialled: it has dialled who came to it.
    assert first.network.snapshot.peers[0].is_outbound
    second.network.publish(Topic.TX, b"a transaction")
    first.host.wait_for(b"a transaction")


def test_bootstrap_nodes_are_dialled_where_they_are_to_be(start: Start) -> None:
    first = start(**discovering())
    # Its record says nothing of where it is, so that it cannot be dialled.
    second = start(**discovering(first, announced=None, dials_bootnodes=True))
    second.wait_for_mesh(1)
    assert second.network.snapshot.peers[0].is_outbound


@pytest.mark.parametrize("was_a_peer", [True, False])
def test_a_bootstrap_node_that_comes_back_under_another_identity_is_dialled(start: Start, was_a_peer: bool) -> None:
    """Without its key and its memory it cannot find anybody itself."""
    port = free_port()
    first = start(listen_port=port, **discovering())
    told = discovering(first, dials_bootnodes=was_a_peer)
    if was_a_peer:
        second = start(check_interval_s=0.5, **told)
        second.wait_for_peers(1)
        first.network.stop()
        second.wait_for_peers(0)
    else:
        first.network.stop()
        second = start(check_interval_s=0.5, **told)
    again = start(listen_port=port, **discovering())
    second.wait_for_mesh(1)
    assert second.network.snapshot.peers[0].peer_id == again.identity.peer_id


def test_ten_nodes_find_each_other_from_one_record(start: Start) -> None:
    first = start(**discovering())
    nodes = [first, *(start(**discovering(first)) for _ in range(9))]
    for node in nodes:
        node.wait_until(lambda snapshot: len(snapshot.peers) == 9, 60)
        assert node.network.snapshot.known_nodes == 9
        assert node.network.snapshot.events.get("internal errors", 0) == 0


def test_nodes_of_another_network_are_not_found(start: Start) -> None:
    first = start(**discovering())
    other = start(host=FakeHost("00-1-00000000-1-00000000-00000000"), **discovering(first))
    # A bootstrap node is of all networks, so it is asked; but it does not want to know who asks.
    other.wait_until(lambda snapshot: snapshot.known_nodes == 1)
    first.wait_until(lambda snapshot: snapshot.events.get("discovery handshakes", 0) == 1)
    strict = start(
        host=FakeHost("00-1-00000000-1-00000000-00000000"), **discovering(first, checks_bootnode_version=True)
    )
    strict.wait_until(lambda snapshot: snapshot.events.get("discovery lookups", 0) >= 2)
    assert strict.network.snapshot.known_nodes == first.network.snapshot.known_nodes == 0
    assert not first.network.snapshot.peers


def test_a_node_learns_its_address_from_others_and_says_it_in_its_record(start: Start, tmp_path: Path) -> None:
    first = start(**discovering())
    others = [first, *(start(**discovering(first)) for _ in range(2))]
    learner = start(folder=tmp_path, **discovering(*others, announced=None))
    assert learner.record.ip is None or learner.record.ip == "127.0.0.1"
    learner.wait_until(lambda snapshot: NodeRecord.from_text(snapshot.enr).ip == "127.0.0.1")
    record = learner.record
    assert record.port("udp") == record.port("tcp") == learner.network.snapshot.port
    for node in others:
        node.wait_until(lambda snapshot: snapshot.known_nodes == 3)
    assert NodeRecord.from_text((tmp_path / RECORD_FILE).read_text()).raw == record.raw


def test_without_discovery_there_is_no_udp_socket(start: Start) -> None:
    node = start(listen_port=free_port())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", node.network.snapshot.port))
    assert node.network.snapshot.known_nodes is None


# ---- restarts ------------------------------------------------------------------------------------


def test_a_restart_keeps_who_the_node_is_and_whom_it_knows(start: Start, tmp_path: Path) -> None:
    first = start(**discovering())
    key, port = os.urandom(32), free_port()
    second = start(key=key, folder=tmp_path, listen_port=port, **discovering(first))
    second.wait_for_mesh(1)
    record = second.record
    second.network.stop()
    first.wait_for_peers(0)
    # No bootstrap node is named any more: it knows the other one.
    again = start(key=key, folder=tmp_path, listen_port=port, **discovering())
    again.wait_for_mesh(1)
    assert again.record.raw == record.raw
    assert again.network.snapshot.peers[0].peer_id == first.identity.peer_id


def test_a_restart_keeps_peers_that_were_dialled_by_their_address(start: Start, tmp_path: Path) -> None:
    first = start()
    second = start(first, folder=tmp_path)
    second.wait_for_mesh(1)
    second.network.stop()
    assert first.identity.peer_id in (tmp_path / PEERS_FILE).read_text()
    again = start(folder=tmp_path)
    again.wait_for_mesh(1)


def test_a_damaged_file_of_peers_is_read_as_far_as_it_makes_sense(start: Start, tmp_path: Path) -> None:
    first = start()
    address = first.address
    lines = ["enr:-nonsense", "no peer", f"{address.host}:{address.port} {first.identity.peer_id}", "[::1]:99999 x"]
    (tmp_path / PEERS_FILE).write_text("\n".join(lines))
    (tmp_path / RECORD_FILE).write_text("enr:nonsense")
    start(folder=tmp_path).wait_for_mesh(1)


def test_the_sequence_of_the_record_only_grows(tmp_path: Path) -> None:
    identity = Identity(b"\7" * 32)

    def record(now: float, ip: str | None = None, port: int = 40400, client: str = "4.1.2") -> NodeRecord:
        return OwnRecord(identity, VERSION, ip=ip, port=port, client=client, folder=tmp_path, now=lambda: now).record

    first = record(1000.0)
    assert (first.sequence, first.ip) == (1000, None)
    assert record(5.0).raw == first.raw  # nothing has changed
    assert record(5.0, ip="1.2.3.4").sequence == 1001
    kept = record(5.0)  # what was learnt is kept
    assert (kept.sequence, kept.ip) == (1001, "1.2.3.4")
    assert record(5.0, client="4.1.3").sequence == 1002
    other = OwnRecord(Identity(b"\6" * 32), VERSION, ip=None, port=1, client="4", folder=tmp_path, now=lambda: 9.0)
    assert other.record.sequence == 9  # of another key: its own count
    assert other.moved("5.6.7.8")
    assert not other.moved("5.6.7.8")
    assert other.record.sequence == 10


# ---- one node by hand ----------------------------------------------------------------------------


USUAL_ANSWER_S = discovery._ANSWER_S
#: For all that a test does.
ALONE_S = 60.0


class Lone:
    """Discovery without a network around it."""

    def __init__(self, **options: Any) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        identity = Identity()
        port = self.socket.getsockname()[1]
        self.own = OwnRecord(identity, VERSION, ip="127.0.0.1", port=port, client="4.1.2", folder=None)
        self.counts: Counter[str] = Counter()
        self.found: list[NodeRecord] = []
        self.discovery = Discovery(
            identity,
            VERSION,
            self.own,
            DiscoveryOptions(**options),
            self.counts,
            limits_addresses=False,
            fixes_address=True,
            found=self.found.append,
            is_looking=lambda: False,
        )
        self.discovery.start(self.socket, ())

    @property
    def contact(self) -> Contact:
        contact = Contact.of(self.own.record)
        assert contact is not None
        return contact


def alone(work: Callable[..., Any], count: int = 2) -> None:
    """Run it with so many nodes that do nothing by themselves."""

    async def run() -> None:
        nodes = [Lone() for _ in range(count)]
        try:
            async with asyncio.timeout(ALONE_S):
                await work(*nodes)
        finally:
            for node in nodes:
                await node.discovery.stop()

    with pytest.MonkeyPatch.context() as patch:
        if discovery._ANSWER_S == USUAL_ANSWER_S:  # a machine that holds everything up for a while is no silent node
            patch.setattr(discovery, "_ANSWER_S", ALONE_S)
        asyncio.run(run())


def test_a_ping_is_answered_and_brings_both_into_the_tables() -> None:
    async def work(one: Lone, two: Lone) -> None:
        await one.discovery.ping(two.contact)
        assert [record.raw for record in one.found] == [two.own.record.raw]
        assert [record.raw for record in two.found] == [one.own.record.raw]
        assert len(one.discovery.table) == len(two.discovery.table) == 1

    alone(work)


def test_nobody_is_told_of_private_peers() -> None:
    async def work(asker: Lone, shown: Lone, hidden: Lone) -> None:
        teller = Lone(private=(hidden.own.record,))
        for node in (shown, hidden):
            await teller.discovery.ping(node.contact)
        everywhere = tuple(range(257))
        (answer,) = await asker.discovery._ask(teller.contact, lambda request: FindNode(request, everywhere))
        await teller.discovery.stop()
        assert isinstance(answer, Nodes)
        ids = {NodeRecord.from_bytes(raw).node_id for raw in answer.records}
        assert ids == {each.contact.node_id for each in (teller, shown, asker)}

    alone(work, 3)


def test_a_talk_request_is_answered_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(one: Lone, two: Lone) -> None:
        await one.discovery.ping(two.contact)
        answered: list[Message] = []
        one.discovery._be_answered = lambda source, address, message: answered.append(message)  # type: ignore[method-assign]
        monkeypatch.setattr(discovery, "_ANSWER_S", 0.3)
        while not answered:
            with suppress(PeerUnavailable):  # nobody waits for such an answer
                await one.discovery._ask(two.contact, lambda request: TalkRequest(request, b"sync", b"?"))
        assert isinstance(answered[0], TalkAnswer)
        assert answered[0].content == b""

    alone(work)


def test_a_newer_record_is_fetched_after_a_pong() -> None:
    async def work(one: Lone, two: Lone) -> None:
        old = two.contact
        await one.discovery.ping(old)
        two.own.record = two.own._make(two.own.record.sequence + 1, "127.0.0.1")
        await one.discovery.ping(old)
        while one.found[-1].sequence != two.own.record.sequence:
            await asyncio.sleep(0.01)

    alone(work)


def test_a_session_that_the_other_side_has_lost_is_made_anew() -> None:
    async def work(one: Lone, two: Lone) -> None:
        await one.discovery.ping(two.contact)
        two.discovery._sessions._sessions.clear()
        await one.discovery.ping(two.contact)
        one.discovery._sessions._sessions.clear()
        await two.discovery.ping(one.contact)
        await asyncio.gather(one.discovery.ping(two.contact), two.discovery.ping(one.contact))

    alone(work)


def test_a_node_is_asked_one_question_at_a_time_however_many_wait() -> None:
    questions = discovery._Questions()
    asking = most = 0

    async def ask(rests: int) -> None:
        nonlocal asking, most
        for _ in range(rests):
            await asyncio.sleep(0)
        async with questions.turn(b"node"):
            asking += 1
            most = max(most, asking)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            asking -= 1
        questions.invariant()

    async def all_of_them() -> None:
        await asyncio.gather(*(ask(rests) for rests in range(20)))

    asyncio.run(all_of_them())
    assert most == 1
    assert len(questions) == 0


def test_a_node_that_does_not_answer_loses_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(one: Lone, two: Lone) -> None:
        await one.discovery.ping(two.contact)
        await two.discovery.stop()
        monkeypatch.setattr("fastnode.p2p.discovery.service._ANSWER_S", 0.1)
        for _ in range(2):
            with pytest.raises(PeerUnavailable):
                await one.discovery.ping(two.contact)
        assert len(one.discovery.table) == 0
        assert len(one.discovery._questions) == 0
        one.discovery._questions.invariant()  # nothing that was sent is kept

    alone(work)


def test_a_lookup_finds_who_is_known_to_those_in_between() -> None:
    async def work(*nodes: Lone) -> None:
        last, found = nodes[-1].contact.node_id, set[bytes]()
        while last not in found:
            # A chain: each knows its neighbours, until one is so slow that it is forgotten.
            for one, two in itertools.pairwise(nodes):
                with suppress(PeerUnavailable):
                    await one.discovery.ping(two.contact)
            found = {contact.node_id for contact in await nodes[0].discovery.lookup(os.urandom(32))}

    alone(work, 6)


def test_answers_to_what_was_not_asked_are_refused() -> None:
    async def work(one: Lone, two: Lone) -> None:
        await one.discovery.ping(two.contact)
        two.discovery._answer(one.contact.node_id, one.contact.address, Nodes(b"12345678", 1, (two.own.record.raw,)))
        while not one.counts["discovery packets refused"]:
            await asyncio.sleep(0.01)

    alone(work)


def test_records_at_other_distances_than_were_asked_for_are_left_out() -> None:
    async def work(one: Lone, two: Lone) -> None:
        stranger = OwnRecord(Identity(), VERSION, ip="127.0.0.1", port=1, client="4", folder=None).record
        two.discovery._told = lambda distances, host: [stranger.raw]  # type: ignore[method-assign]
        target = one.contact.node_id
        contacts = await one.discovery._find(two.contact, target)
        assert contacts is not None
        nearest = distance(two.contact.node_id, target)
        near = {nearest - 1, nearest, nearest + 1, 255, 256}
        assert bool(contacts) == (distance(two.contact.node_id, stranger.node_id) in near)

    alone(work)


def test_a_flood_is_dropped_before_it_costs_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastnode.p2p.discovery.packet_limits._PER_S", 20)
    monkeypatch.setattr("fastnode.p2p.discovery.service._ANSWER_S", 0.5)

    async def work(one: Lone, two: Lone) -> None:
        flood, began = os.urandom(63), time.monotonic()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
            while one.counts["discovery packets dropped"] < 100:
                for _ in range(50):
                    attacker.sendto(flood, one.contact.address)
                await asyncio.sleep(0)
        assert one.counts["discovery packets refused"] <= 20 * (time.monotonic() - began + 1)
        while True:  # until a second has begun in which there is no flood
            with suppress(PeerUnavailable):
                await two.discovery.ping(one.contact)
                break

    alone(work)


# ---- limits --------------------------------------------------------------------------------------


def test_an_address_has_a_share_of_what_is_looked_at() -> None:
    gate = PacketGate()
    assert sum(gate.take("1.1.1.1", 0.0) for _ in range(1000)) == 100
    assert sum(gate.take(f"1.1.2.{number}", 0.5) for number in range(1000)) == 400
    assert len(gate._of_address) <= 501
    assert gate.wait_s(0.5) == 0
    for _ in range(3000):
        gate.take("1.1.1.1", 0.6)
    assert gate.wait_s(0.7) == pytest.approx(0.3)
    assert gate.wait_s(1.0) == 0
    assert gate.take("1.1.1.1", 1.0)
    assert sum(gate.take_handshake() for _ in range(100)) == 50


@pytest.mark.parametrize(
    ("host", "sender", "is_so"),
    [
        ("8.8.8.8", "9.9.9.9", True),
        ("8.8.8.8", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", True),
        ("127.0.0.1", "9.9.9.9", False),
        ("10.0.0.1", "9.9.9.9", False),
        ("10.0.0.1", "10.0.0.2", True),
        ("0.0.0.0", "127.0.0.1", False),
        ("224.0.0.1", "9.9.9.9", False),
        ("255.255.255.255", "10.0.0.1", False),
    ],
)
def test_nobody_outside_of_a_network_says_who_is_in_it(host: str, sender: str, is_so: bool) -> None:
    assert is_relayed_well(host, sender) is is_so


def test_one_network_has_one_vote() -> None:
    votes = AddressVotes()
    here, there = b"\x08\x08\x08\x08", b"\x08\x08\x04\x04"
    for number in range(50):
        assert votes.vote(bytes([number]), f"9.9.9.{number}", there, 0.0) is None
    assert votes.vote(b"a", "9.9.8.1", here, 0.0) is None
    assert votes.vote(b"b", "9.9.7.1", here, 0.0) is None
    assert votes.vote(b"c", "9.9.6.1", here, 0.0) == "8.8.8.8"
    for number in range(200):
        votes.vote(b"", f"7.7.{number}.1", bytes([8, 8, 3, number]), 0.0)
    assert len(votes._votes) <= 64
    assert votes.vote(b"", "9.9.6.1", here, 10_000.0) is None  # the others have expired
    assert votes.vote(b"", "9.9.6.1", b"\x0a\0\0\1", 10_000.0) is None  # nobody outside can know that


def test_a_lookup_without_anybody_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastnode.p2p.discovery.service._ANSWER_S", 600.0)

    async def work(one: Lone) -> None:
        assert await one.discovery.lookup(os.urandom(32)) == []

    alone(work, 1)


def test_a_ping_of_who_is_not_there_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastnode.p2p.discovery.service._ANSWER_S", 0.05)

    async def work(one: Lone) -> None:
        gone = OwnRecord(Identity(), VERSION, ip="127.0.0.1", port=9, client="4", folder=None).record
        contact = Contact.of(gone)
        assert contact is not None
        with pytest.raises(PeerUnavailable):
            await one.discovery._ask(contact, lambda request: FindNode(request, (0,)))
        with pytest.raises(PeerUnavailable):
            await one.discovery._ask(contact, lambda request: Ping(request, 1))
        assert not one.found

    alone(work, 1)
