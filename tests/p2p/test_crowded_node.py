"""A whole node that a crowd comes to: one address fills no place that another peer needs, and noise ends with a ban."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import PATIENCE_S, NodeProcess
from tests.mempool.made import hash_of, made_txs
from tests.p2p.nodes import FakeHost, Node, running
from tests.p2p.test_attackers import Attacker
from tests.p2p.test_nodes import ON_NETWORK, is_pending, wait_until

from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.node.options import StaticPeer
from fastnode.p2p.node.overlay import Overlay
from fastnode.p2p.node.request_limits import Request
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx

VERSION = "00-31337-322813fd-3658137161-2672340d-1dd2644a"
#: Places of the node; the crowd has more identities.
PLACES = 6
CROWD = 12
StartPeer = Callable[..., Node]


class LoopFrom:
    """A loop whose connections come from an address of this machine."""

    def __init__(self, loop: Any, host: str) -> None:
        self._loop = loop
        self._host = host

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def create_connection(self, protocol: Any, host: str, port: int) -> Any:
        return await self._loop.create_connection(protocol, host, port, local_addr=(self._host, 0))


@pytest.fixture
def peers() -> Iterator[StartPeer]:
    """``peers()``: one that dials nobody; ``peers("127.0.1.9", port)``: one that dials the node from that address."""
    with running() as start:

        def begin(host: str | None = None, port: int = 0) -> Node:
            peer = start(host=FakeHost(VERSION))
            if host is not None:
                peer.network._call(lambda overlay: dial(overlay, host, port), PATIENCE_S)
            return peer

        yield begin


async def dial(overlay: Overlay, host: str, port: int) -> None:
    overlay.swarm._loop = LoopFrom(overlay.swarm._loop, host)  # type: ignore[assignment]
    overlay.swarm.plan.discovered(StaticPeer("127.0.0.1", port), overlay.swarm._loop.time(), is_trusted=True)


def is_peer(peer: Node) -> bool:
    return len(peer.network.snapshot.peers) == 1


def test_one_address_with_many_identities_keeps_nobody_out(
    start_node: Callable[..., NodeProcess], sample_chain: Path, peers: StartPeer
) -> None:
    dialled = peers()
    node = start_node(
        *("--chain-file", sample_chain, *ON_NETWORK, f"--p2p-max-peers={PLACES}", "--p2p-peer-check-interval-ms=500"),
        f"--p2p-peer=127.0.0.1:{dialled.address.port}",
    ).wait_until_serving()
    port = node.wait_for_line("on the peer-to-peer network")["port"]
    wait_until(lambda: is_peer(dialled) and node.readiness().startswith("OK"))
    with ExitStack() as stack:
        # Handshakes that never end, from wherever.
        for number in range(40):
            silent = socket.create_connection(("127.0.0.1", port), PATIENCE_S, (f"127.0.9.{number + 1}", 0))
            stack.callback(silent.close)
        crowd = [peers("127.0.1.9", port) for _ in range(CROWD)]
        wait_until(lambda: sum(map(is_peer, crowd)) >= PLACES // 2)
        honest = [peers(f"127.0.{net}.7", port) for net in (2, 3)]
        wait_until(lambda: all(map(is_peer, honest)))
        early, late = made_txs(2)
        honest[0].wait_for_mesh(1)
        honest[0].network.publish(Topic.TX, Tx.from_json(early, FOUR).to_buffer())
        wait_until(lambda: is_pending(node, hash_of(early)))
        honest[1].network.publish(Topic.TX, Tx.from_json(late, FOUR).to_buffer())
        wait_until(lambda: is_pending(node, hash_of(late)))
        assert is_peer(dialled), "who was dialled keeps its place"
        assert all(map(is_peer, honest))
        wait_until(lambda: sum(map(is_peer, crowd)) <= PLACES - len(honest))
    assert node.stop() == 0


def test_streams_that_are_opened_and_given_up_end_with_a_ban_and_others_go_on(
    start_node: Callable[..., NodeProcess], sample_chain: Path, peers: StartPeer
) -> None:
    node = start_node("--chain-file", sample_chain, *ON_NETWORK).wait_until_serving()
    port = node.wait_for_line("on the peer-to-peer network")["port"]
    friend = peers("127.0.2.7", port)
    wait_until(lambda: is_peer(friend))
    target: Any = SimpleNamespace(network=SimpleNamespace(snapshot=SimpleNamespace(port=port)))
    dice = random.Random(1)
    attacker = Attacker(target, "127.0.1.9")
    attacker.is_silent = True  # it is not left yet for what it answers
    attacker.shake()
    muxer = attacker.connection.muxer
    assert muxer is not None
    for _ in range(100):
        if dice.random() < 0.5:
            muxer.reset(muxer.open())
        else:
            muxer.reset(attacker.stream(Request.TX.protocol))
    with suppress(ConnectionError):
        attacker.flush()
    attacker.wait_until_gone()
    attacker.socket.close()
    again = Attacker(target, "127.0.1.9", attacker.identity)
    with suppress(AssertionError, ConnectionError):
        again.shake()
    again.wait_until_gone()
    again.socket.close()
    told = [entry for entry in node.entries() if entry.get("peer") == attacker.identity.peer_id]
    assert len(told) <= 5, told
    assert {"it opens streams and gives them up", "it is banned"} <= {entry.get("reason") for entry in told}
    assert is_peer(friend)
    assert node.stop() == 0
