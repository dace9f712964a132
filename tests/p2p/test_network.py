"""Nodes among themselves, over sockets: connections, gossip, requests."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import PATIENCE_S
from tests.p2p.nodes import FakeHost, Node, running
from tests.p2p.vectors import recorded
from tests.ports import free_port
from tests.test_loop import KINDS

from fastnode.errors import DatabaseFull, DatabaseUnreadable, DatabaseUnwritable, PeerFault, PeerUnavailable
from fastnode.p2p.gossip.cache import Verdict
from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.judging.host import Judgement
from fastnode.p2p.judging.standing import Penalty
from fastnode.p2p.messages.request_forms import AuthRequest, AuthResponse, StatusMessage
from fastnode.p2p.node.dialling import Candidate
from fastnode.p2p.node.known_back_offs import KnownBackOffs
from fastnode.p2p.node.options import StaticPeer
from fastnode.p2p.node.peer import Peer
from fastnode.p2p.node.request_limits import Request
from fastnode.p2p.transport.identity import Identity
from fastnode.p2p.transport.link import Link, Stream

Start = Callable[..., Node]


@pytest.fixture
def start() -> Iterator[Start]:
    with running() as started:
        yield started


def test_two_nodes_meet_and_are_in_each_others_mesh(start: Start) -> None:
    first = start()
    second = start(first)
    for node, other in ((first, second), (second, first)):
        node.wait_for_mesh(1)
        (peer,) = node.network.snapshot.peers
        assert peer.peer_id == other.identity.peer_id
        assert peer.latest_block == 5
        assert peer.agent.startswith("fastnode/")
    assert [peer.is_outbound for node in (first, second) for peer in node.network.snapshot.peers] == [False, True]


def test_a_transaction_goes_through_a_node_that_accepts_it(start: Start) -> None:
    middle = start()
    one, other = start(middle), start(middle)
    for node in (one, other):
        node.wait_for_mesh(1)
    middle.wait_for_mesh(2)
    assert one.network.publish(Topic.TX, b"a transaction") == 1
    assert one.network.publish(Topic.TX, b"a transaction") is None  # once only
    middle.host.wait_for(b"a transaction")
    other.host.wait_for(b"a transaction")
    assert b"a transaction" not in one.host.received


HAS_IPV6 = Path("/proc/net/if_inet6").exists() and bool(Path("/proc/net/if_inet6").read_text())


@pytest.mark.skipif(not HAS_IPV6, reason="no IPv6 here")
def test_two_nodes_meet_over_ipv6(start: Start) -> None:
    first = start(listen_host="::1")
    second = start(static_peers=(StaticPeer("::1", first.network.snapshot.port),))
    second.wait_for_mesh(1)
    first.wait_for_mesh(1)
    second.network.publish(Topic.TX, b"a transaction")
    first.host.wait_for(b"a transaction")


@pytest.mark.parametrize("verdict", [Verdict.IGNORE, Verdict.REJECT])
def test_what_is_not_accepted_is_not_forwarded(start: Start, verdict: Verdict) -> None:
    host = FakeHost()
    host.verdicts[b"bad"] = Judgement(
        verdict, Penalty.MID_TOLERANCE if verdict is Verdict.REJECT else None, "it is bad"
    )
    middle = start(host=host)
    one, other = start(middle), start(middle)
    for node in (one, other):
        node.wait_for_mesh(1)
    middle.wait_for_mesh(2)
    one.network.publish(Topic.TX, b"bad")
    host.wait_for(b"bad")
    one.network.publish(Topic.BLOCK_PROPOSAL, b"good")
    other.host.wait_for(b"good")  # sent later
    assert b"bad" not in other.host.received
    middle.wait_until(lambda snapshot: snapshot.gossip.get(("tx", verdict.value)) == 1)
    scores = {peer.peer_id: peer.application_score for peer in middle.network.snapshot.peers}
    assert scores[one.identity.peer_id] == (-10 if verdict is Verdict.REJECT else 0)


def test_a_node_of_another_network_is_left(start: Start) -> None:
    first = start()
    other = start(first, host=FakeHost("00-1-00000000-1-00000000-00000000"))
    other.wait_until(lambda snapshot: snapshot.events.get("left wrong_network", 0) >= 1)
    assert first.network.snapshot.mesh["tx"] == 0


class SlowHost(FakeHost):
    """It says how it is when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.was_asked, self.may_answer = threading.Event(), threading.Event()

    def status(self) -> StatusMessage:
        if threading.current_thread().name.startswith("p2p-answering"):
            self.was_asked.set()
            assert self.may_answer.wait(PATIENCE_S)
        return super().status()


def test_a_connection_that_is_lost_before_the_peer_is_known_leaves_the_other_one_to_it(start: Start) -> None:
    host = SlowHost()
    first = start(host=host)
    second = start(first)
    assert host.was_asked.wait(PATIENCE_S)
    overlay, loop = first.network._overlay, first.network._loop
    assert overlay is not None
    assert loop is not None
    back = Candidate(second.address, is_static=False, found_at=0.0)
    asyncio.run_coroutine_threadsafe(overlay.swarm.dial(back), loop).result(PATIENCE_S)
    (peer,) = second.peers()
    second.wait_until(lambda _: len(peer.links) == 2)
    used, other = peer.links
    assert second.network._loop is not None
    second.network._loop.call_soon_threadsafe(used.close, "it is lost")
    second.wait_until(lambda _: peer.links == [other])
    host.may_answer.set()
    second.wait_for_mesh(1)
    first.wait_for_mesh(1)
    assert "left wrong_network" not in second.network.snapshot.events
    assert peer.links == [other]


def test_a_peer_that_gives_no_status_in_time_is_not_called_one_of_another_network(start: Start) -> None:
    """Its line may be bad: the connection is given up, and another one made."""
    host = SlowHost()
    first = start(host=host)
    second = start(first, request_timeout_s=0.3)
    assert host.was_asked.wait(PATIENCE_S)
    second.wait_until(lambda snapshot: snapshot.events.get("lost", 0) >= 1)
    host.may_answer.set()
    second.wait_for_mesh(1)
    first.wait_for_mesh(1)
    assert "left wrong_network" not in second.network.snapshot.events


def test_a_peer_that_connects_anew_is_heard_over_that_and_not_over_what_is_dead(start: Start) -> None:
    first = start()
    before = start(first, key=b"\7" * 32)
    first.wait_for_mesh(1)
    (peer,) = first.peers()
    (old,) = peer.links
    old.opened_at -= 60
    stands = threading.Event()
    assert before.network._loop is not None
    before.network._loop.call_soon_threadsafe(stands.wait, PATIENCE_S)  # as one that hangs, and closes nothing
    try:
        again = start(first, key=b"\7" * 32)
        again.wait_for_mesh(1)
        first.wait_until(lambda _: old not in peer.links)
        first.network.publish(Topic.TX, b"a transaction")
        again.host.wait_for(b"a transaction")
    finally:
        stands.set()


def test_all_connections_of_a_peer_that_dials_a_second_time_are_dead(start: Start) -> None:
    first = start()
    before = start(first, key=b"\7" * 32)
    first.wait_for_mesh(1)
    overlay, loop = first.network._overlay, first.network._loop
    assert overlay is not None
    assert loop is not None
    back = Candidate(before.address, is_static=False, found_at=0.0)
    asyncio.run_coroutine_threadsafe(overlay.swarm.dial(back), loop).result(PATIENCE_S)
    (peer,) = first.peers()
    dead = list(peer.links)
    assert [link.is_dialer for link in dead] == [False, True]
    stands = threading.Event()
    assert before.network._loop is not None
    before.network._loop.call_soon_threadsafe(stands.wait, PATIENCE_S)
    try:
        again = start(first, key=b"\7" * 32)
        first.wait_until(lambda _: peer.links and not {*dead} & {*peer.links})
        again.wait_for_mesh(1)
        first.wait_for_mesh(1)
        again.network.publish(Topic.TX, b"a transaction")
        first.host.wait_for(b"a transaction")
    finally:
        stands.set()


def test_a_connection_over_which_gossip_is_not_answered_is_given_up_for_another_one(start: Start) -> None:
    first = start(request_timeout_s=0.3)
    silent = start()
    overlay, loop, other = first.network._overlay, first.network._loop, silent.network._overlay
    assert overlay is not None
    assert loop is not None
    assert other is not None
    events, served = other.swarm._events, count(1)

    def serve_two(link: Link, stream: Stream) -> None:
        if next(served) <= 2:  # who it is, and its status
            events.stream(link, stream)

    other.swarm._events = replace(events, stream=serve_two)
    candidate = Candidate(silent.address, is_static=False, found_at=0.0)
    asyncio.run_coroutine_threadsafe(overlay.swarm.dial(candidate), loop).result(PATIENCE_S)
    other.swarm._events = events
    first.wait_until(lambda snapshot: snapshot.events.get("lost", 0) >= 1)
    first.wait_for_mesh(1)
    silent.wait_for_mesh(1)


def test_missing_transactions_of_a_block_are_fetched(start: Start) -> None:
    holder = start()
    asker = start(holder)
    asker.wait_for_mesh(1)
    root, hashes = b"\7" * 32, [bytes([n]) * 32 for n in range(3)]
    private = 38557  # bytes of data
    txs = [tx_hash + bytes(private) + (1935).to_bytes(4, "big") + bytes(1935 * 32) + b"\0\0" for tx_hash in hashes]
    holder.host.blocks[root] = hashes
    holder.host.txs = dict(zip(hashes[:2], txs[:2], strict=True))
    found = asker.network.fetch_txs(root, hashes, {hashes[0], hashes[1], hashes[2]}, None, 10)
    assert sorted(found) == sorted(txs[:2])


def test_a_peer_is_asked_again_until_it_has_given_all_that_is_missing(start: Start) -> None:
    host = FakeHost()
    body = bytes(38557) + (1935).to_bytes(4, "big") + bytes(1935 * 32) + b"\0\0"
    hashes = [number.to_bytes(32, "big") for number in range(1, 22)]
    host.blocks[b"a" * 32] = hashes
    host.txs = {tx_hash: tx_hash + body for tx_hash in hashes}
    giver = start(host=host)
    asker = start(giver)
    asker.wait_for_mesh(1)
    given = asker.network.fetch_txs(b"a" * 32, hashes, set(hashes), None, 10)
    assert [item[:32] for item in given] == hashes


def test_a_validators_key_answers_those_that_the_operator_named_and_nobody_else(start: Start) -> None:
    host = FakeHost()
    host.has_validators = True
    known, stranger = Identity(), Identity()
    validator = start(host=host, protected=frozenset({known.peer_id}))
    answers = []
    for identity in (known, stranger):
        node = start(validator, key=identity.key.secret)
        node.wait_for_mesh(1)
        answers.append(ask(node, Request.AUTH, recorded("auth-request.bin")))
    message = AuthRequest.from_buffer(recorded("auth-request.bin")).signed
    assert answers == [AuthResponse(host.status(), host.authenticate(message) or b"").to_buffer(), b""]


def test_a_node_without_validators_does_not_know_the_request(start: Start) -> None:
    first = start()
    node = start(first)
    node.wait_for_mesh(1)
    with pytest.raises((PeerUnavailable, PeerFault)):
        ask(node, Request.AUTH, recorded("auth-request.bin"))


def ask(node: Node, request: Request, data: bytes) -> bytes:
    """The answer of its only peer."""

    async def asked(overlay: Any) -> bytes:
        (peer,) = overlay.swarm.peers.values()
        answer: bytes = await overlay.requests.ask(peer, request, data)
        return answer

    return node.network._call(asked, 10)


def test_a_peer_is_not_asked_more_often_than_it_allows(start: Start) -> None:
    first = start()
    node = start(first)
    node.wait_for_mesh(1)
    for _ in range(7):  # two more than in a second
        assert ask(node, Request.PING, b"ping") == b"pong"
    counts = first.network.snapshot.requests
    assert not [key for key in counts if key[2] == "rate_limit_exceeded"]
    assert first.network.snapshot.peers[0].application_score == 0


def test_a_peer_that_sends_nonsense_is_banned_and_dropped(start: Start) -> None:
    host = FakeHost()
    host.verdicts = {bytes([n]): Judgement(Verdict.REJECT, Penalty.LOW_TOLERANCE, "nonsense") for n in range(3)}
    victim = start(host=host)
    attacker = start(victim)
    attacker.wait_for_mesh(1)
    for n in range(3):
        attacker.network.publish(Topic.TX, bytes([n]))
    victim.wait_until(lambda snapshot: snapshot.events.get("left banned", 0) >= 1)


def test_a_message_that_must_wait_is_handed_on_when_its_time_has_come(start: Start) -> None:
    first = start()
    second = start(first)
    third = start(second)
    second.wait_for_mesh(2)
    second.host.verdicts[b"fresh"] = Judgement(Verdict.ACCEPT, wait_s=0.3)
    first.network.publish(Topic.TX, b"fresh")
    assert third.host.wait_for(b"fresh") - second.host.wait_for(b"fresh") >= 0.3


def test_what_nobody_needs_any_more_after_its_wait_is_not_handed_on(start: Start) -> None:
    first = start()
    second = start(first)
    third = start(second)
    second.wait_for_mesh(2)
    second.host.verdicts[b"taken back"] = Judgement(Verdict.ACCEPT, wait_s=0.1, is_wanted=lambda: False)
    second.host.verdicts[b"later"] = Judgement(Verdict.ACCEPT, wait_s=0.3)
    for payload in (b"taken back", b"later"):
        first.network.publish(Topic.TX, payload)
    third.host.wait_for(b"later")
    assert b"taken back" not in third.host.received


def test_a_node_that_stops_says_no_goodbye_and_is_dialled_again(start: Start) -> None:
    port = free_port()
    first = start(listen_port=port)
    second = start(first)
    second.wait_for_mesh(1)
    first.network.stop()
    second.wait_for_peers(0)
    # A node of release 4.1.2 would leave the one that comes again.
    assert ("in", "goodbye", "success") not in second.network.snapshot.requests
    again = start(listen_port=port)
    second.wait_for_mesh(1)
    assert second.network.snapshot.peers[0].peer_id == again.identity.peer_id


@pytest.mark.parametrize("is_direct", [False, True])
def test_a_peer_that_comes_back_under_another_identity_is_taken_as_any_other(start: Start, is_direct: bool) -> None:
    port = free_port()
    first = start(listen_port=port)
    named = first.address._replace(peer_id=first.identity.peer_id, is_direct=is_direct)
    second = start(static_peers=(named,), protected=frozenset({first.identity.peer_id}))
    second.wait_for_peers(1)
    assert [peer.is_protected for peer in second.peers()] == [True]
    first.network.stop()
    second.wait_for_peers(0)
    again = start(listen_port=port)
    second.wait_for_mesh(1)
    (peer,) = second.peers()
    assert peer.id == again.identity.peer_id
    assert not peer.is_protected, "the operator has not named this one"


def test_who_was_never_a_peer_must_be_who_its_record_says(start: Start) -> None:
    first, second = start(), start()
    assert second.network._overlay is not None
    swarm = second.network._overlay.swarm
    stranger = first.address._replace(peer_id=Identity().peer_id)
    assert second.network._loop is not None
    second.network._loop.call_soon_threadsafe(swarm.found, stranger)
    second.wait_until(lambda snapshot: snapshot.events.get("dialled", 0) >= 2)
    assert "connected" not in second.network.snapshot.events


def test_a_node_that_stops_as_others_connect_leaves_no_connection_open(start: Start) -> None:
    node = start()
    loop, stopping = node.network._loop, node.network._stopping
    assert loop is not None
    assert stopping is not None
    is_held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        is_held.set()
        go_on.wait(PATIENCE_S)
        loop.call_soon(stopping.set)  # in the turn in which they are accepted

    loop.call_soon_threadsafe(hold)
    assert is_held.wait(PATIENCE_S)
    address = ("127.0.0.1", node.network.snapshot.port)
    clients = [socket.create_connection(address, PATIENCE_S) for _ in range(5)]
    go_on.set()
    for client in clients:
        with client, suppress(ConnectionError):
            assert client.recv(1) == b""


def test_of_a_peer_so_many_messages_a_second_are_looked_at() -> None:
    peer = Peer("peer", SimpleNamespace(address=("1.2.3.4", 5), is_dialer=True), 0.0)  # type: ignore[arg-type]
    assert [peer.rpc_wait_s(0.25, 100) for _ in range(100)] == [0] * 100
    assert peer.rpc_wait_s(0.25, 100) == 0.75
    assert peer.rpc_wait_s(1.0, 100) == 0


def test_who_was_pruned_does_not_graft_again_after_a_restart(start: Start, tmp_path: Path) -> None:
    other, key = start(), Identity().key.secret
    node = start(other, key=key, folder=tmp_path)
    node.wait_for_mesh(1)
    other.wait_for_mesh(1)
    overlay = other.network._overlay
    assert overlay is not None
    overlay._loop.call_soon_threadsafe(overlay._penalize, node.identity.peer_id, Penalty.MID_TOLERANCE, "a test")
    node.wait_until(lambda snapshot: snapshot.mesh["tx"] == 0)
    node.wait_until(lambda _: len(KnownBackOffs(tmp_path).load()) == len(Topic))
    node.network.stop()
    again = start(other, key=key, folder=tmp_path)
    again.wait_for_peers(1)
    restarted = again.network._overlay
    assert restarted is not None
    again.wait_until(lambda _: restarted.gossip._beats >= 5)
    assert again.network.snapshot.mesh["tx"] == 0
    assert overlay.scores._peers[node.identity.peer_id].behaviour == 0, "it has grafted too early"


@pytest.mark.parametrize("kind", [DatabaseFull, DatabaseUnreadable, DatabaseUnwritable])
def test_a_disk_that_fails_is_no_bug_of_the_network_nor_a_fault_of_a_peer(
    start: Start, kind: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    middle = start()
    one, other = start(middle), start(middle)
    for node in (one, other):
        node.wait_for_mesh(1)
    middle.wait_for_mesh(2)
    judge = middle.host.judge

    def judge_with_a_broken_disk(topic: Topic, payload: bytes, peer: str) -> Judgement:
        if payload == b"unlucky":
            raise kind("the disk fails")
        return judge(topic, payload, peer)

    middle.host.judge = judge_with_a_broken_disk  # type: ignore[method-assign]
    one.network.publish(Topic.TX, b"unlucky")
    one.network.publish(Topic.BLOCK_PROPOSAL, b"good")
    other.host.wait_for(b"good")
    middle.wait_until(lambda snapshot: snapshot.gossip.get(("tx", Verdict.IGNORE.value)) == 1)
    assert b"unlucky" not in other.host.received
    assert [peer.application_score for peer in middle.network.snapshot.peers] == [0, 0]
    assert middle.network.snapshot.events.get("internal errors", 0) == 0
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("kind", [type(kind).__name__ for kind in KINDS if isinstance(kind, Exception)])
def test_the_network_goes_on_after_any_exception_in_its_chores(start: Start, kind: str) -> None:
    error = next(each for each in KINDS if type(each).__name__ == kind)
    first = start()
    overlay = first.network._overlay
    assert overlay is not None
    gossip, swarm = overlay.gossip, overlay.swarm
    beat, snapshot = gossip.heartbeat, overlay.snapshot
    failed: set[str] = set()

    def fail(name: str) -> Any:
        failed.add(name)
        raise error

    gossip.heartbeat = lambda now: fail("heartbeat")  # type: ignore[method-assign]
    overlay.snapshot = lambda: fail("snapshot")  # type: ignore[method-assign]
    first.wait_until(lambda _: failed == {"heartbeat", "snapshot"} and kind in (first.network.trouble or ""))
    gossip.heartbeat, overlay.snapshot = beat, snapshot  # type: ignore[method-assign]
    second = start(first)
    for node in (first, second):
        node.wait_for_mesh(1)
    assert swarm.counts["internal errors"] > 0
