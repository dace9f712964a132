"""Nodes of the peer-to-peer network on this machine, with a host that takes what it is told to."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.conftest import PATIENCE_S
from tests.p2p.vectors import VERSION

from fastnode.http.allowance import MemoryBudget
from fastnode.p2p.discovery.enr import NodeRecord
from fastnode.p2p.discovery.options import DiscoveryOptions
from fastnode.p2p.gossip.cache import Verdict
from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.gossip.wire import GossipOptions
from fastnode.p2p.judging.host import Judgement
from fastnode.p2p.messages.request_forms import StatusMessage
from fastnode.p2p.node.network import PeerNetwork
from fastnode.p2p.node.options import PeerOptions, StaticPeer
from fastnode.p2p.node.peer import Peer
from fastnode.p2p.transport.identity import Identity

#: Fast, so that tests are.
QUICK = GossipOptions(heartbeat_s=0.1)


def discovering(*bootnodes: Node, announced: str | None = "127.0.0.1", **options: Any) -> dict[str, Any]:
    """Options of a node that finds others by the records of ``bootnodes``."""
    made: dict[str, Any] = {"look_s": 0.5} | options
    records = tuple(node.record for node in bootnodes)
    return {"announced_ip": announced, "discovery": DiscoveryOptions(bootnodes=records, **made)}


class FakeHost:
    """Keeps what comes; ``verdicts`` by the payload, else all is accepted."""

    def __init__(self, version: str = VERSION) -> None:
        self.version = version
        self.received: dict[bytes, float] = {}
        self.verdicts: dict[bytes, Judgement] = {}
        self.txs: dict[bytes, bytes] = {}
        self.blocks: dict[bytes, list[bytes]] = {}
        self.has_validators = False
        self.news = threading.Condition()

    def status(self) -> StatusMessage:
        return StatusMessage(self.version, 5, "0x05", 1)

    def judge(self, topic: Topic, payload: bytes, peer: str) -> Judgement:
        with self.news:
            self.received[payload] = time.monotonic()
            self.news.notify_all()
        return self.verdicts.get(payload, Judgement(Verdict.ACCEPT))

    def authenticate(self, message: bytes) -> bytes | None:
        return hashlib.sha256(message).digest() * 2 + bytes([0, 0, 0, 27])

    def tx(self, tx_hash: bytes) -> bytes | None:
        return self.txs.get(tx_hash)

    def block(self, number: int) -> bytes | None:
        return b"block" if number == 1 else None

    def tx_hashes_of(self, archive_root: bytes) -> Sequence[bytes] | None:
        return self.blocks.get(archive_root)

    def wait_for(self, payload: bytes, timeout_s: float = PATIENCE_S) -> float:
        """When it came."""
        with self.news:
            assert self.news.wait_for(lambda: payload in self.received, timeout_s), "it has not come"
            return self.received[payload]


class Node:
    def __init__(self, options: dict[str, Any], host: FakeHost | None = None, key: bytes | None = None) -> None:
        self.host = host or FakeHost()
        self.budget = MemoryBudget(256 << 20)
        made: dict[str, Any] = {
            "listen_host": "127.0.0.1",
            "listen_port": 0,
            "counts_colocation": False,
            "gossip": QUICK,
        }
        self.identity = Identity(key)
        self.network = PeerNetwork(
            self.identity,
            self.host.version,
            self.host,
            PeerOptions(**(made | options)),
            self.budget,
            slot_s=36,
            committee_size=4,
            snapshot_s=0.05,
        )

    @property
    def record(self) -> NodeRecord:
        return NodeRecord.from_text(self.network.snapshot.enr or "")

    @property
    def address(self) -> StaticPeer:
        return StaticPeer("127.0.0.1", self.network.snapshot.port)

    def peers(self) -> list[Peer]:
        """As they are now."""
        assert self.network._overlay is not None
        return list(self.network._overlay.swarm.peers.values())

    def wait_until(self, is_so: Callable[[Any], bool], timeout_s: float = PATIENCE_S) -> None:
        """Of its snapshot, which is made each second."""
        end = time.monotonic() + timeout_s
        while not is_so(self.network.snapshot):
            assert time.monotonic() < end, self.network.snapshot.to_json()
            time.sleep(0.02)

    def wait_for_peers(self, count: int) -> None:
        self.wait_until(lambda snapshot: len(snapshot.peers) == count)

    def wait_for_mesh(self, count: int) -> None:
        self.wait_until(lambda snapshot: snapshot.mesh.get("tx", 0) >= count)


@contextmanager
def running() -> Iterator[Callable[..., Node]]:
    """Makes nodes and starts them; stops all at the end."""
    with ExitStack() as stack:

        def start(*dialled: Node, host: FakeHost | None = None, key: bytes | None = None, **options: Any) -> Node:
            node = Node({"static_peers": tuple(other.address for other in dialled)} | options, host, key)
            stack.callback(node.network.stop)
            node.network.start()
            return node

        yield start
