"""A node under attack by its peers on the peer-to-peer network: what do clients of its RPC notice, what does it cost?

    .venv/bin/python bench/strain_peers.py [--attack NAME ...] [--attackers 1 4] [--seconds 6] [--json FILE]

Each round starts a node with the sample chain and one honest peer.  Attackers, each with an address and a process of
its own, do their worst on the ports for peers; meanwhile the *victim* asks the RPC port for the block number a hundred
times a second (see strain.py, whose rules for figures and verdicts hold here).  A round holds if the victim's p99 is at
most 20 ms, memory at most the budget and 200 MB, the node answers afterwards, the honest peer is still there, and
nothing of what attackers sent is in the pool or in the chain.  *dropped*: how many connections the attackers have lost.

Bad proofs go to a node that verifies them (FASTNODE_TEST_BB names the program), duplicate proposals to one that follows
an anvil with a committee (FASTNODE_ANVIL); see peer_targets.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

import peer_targets
import strain
from fastnode.errors import PeerFault
from fastnode.kernels import peer_frames
from fastnode.p2p.discovery import wire as discovery_wire
from fastnode.p2p.discovery.enr import NodeRecord
from fastnode.p2p.gossip import wire as gossip_wire
from fastnode.p2p.gossip.topics import Topic, pack, topic_name
from fastnode.p2p.messages.request_forms import StatusMessage, write_hashes
from fastnode.p2p.node.request_limits import Request
from fastnode.p2p.transport.connection import Connection
from fastnode.p2p.transport.encoding import compress
from fastnode.p2p.transport.identity import Identity
from fastnode.p2p.transport.limits import Limits
from fastnode.p2p.transport.multistream import Selection
from fastnode.p2p.transport.yamux import Opened, Received

MESH = "/meshsub/1.1.0"
EVERYTHING = [MESH, "/aztec/id/1.0.0", *(request.protocol for request in Request)]
MIB = strain.MIB


class Attacker:
    """A peer by hand, that says it is of the network, over a blocking socket."""

    def __init__(self, record: NodeRecord, host: str, identity: Identity | None = None) -> None:
        self.version = record.version or ""
        self.socket = socket.create_connection((record.ip, record.port("tcp")), 10, source_address=(host, 0))
        self.socket.settimeout(10)
        self.connection = Connection(identity or Identity(), Limits(), is_dialer=True)
        self.streams: dict[int, Selection] = {}
        self.answered: set[int] = set()
        #: The node has opened its stream of gossip: it takes it for a peer.
        self.is_met = False

    def meet(self) -> None:
        """Shake hands, and say that it is of the network."""
        while self.connection.muxer is None or not self.is_met:
            self.pump()

    def pump(self) -> None:
        self.socket.sendall(self.connection.take_output())
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError
        for event in self.connection.receive(data, time.monotonic()):
            muxer = self.connection.muxer
            assert muxer is not None
            if isinstance(event, Opened):
                self.streams[event.stream] = Selection(EVERYTHING, is_dialer=False)
            elif isinstance(event, Received) and event.stream in self.streams:
                self._answer(event.stream, event.chunk)

    def _answer(self, number: int, chunk: bytes) -> None:
        muxer, selection = self.connection.muxer, self.streams[number]
        assert muxer is not None
        if selection.chosen is None:
            muxer.send(number, selection.receive(chunk))
        muxer.consumed(number, len(chunk))
        if number in self.answered:
            return
        if selection.chosen == Request.STATUS.protocol:
            self.answered.add(number)
            muxer.send(number, b"\0")
            muxer.send(number, compress(StatusMessage(self.version, 1, "0x01", 0).to_buffer()))
            muxer.finish(number)
        elif selection.chosen == MESH:
            self.is_met = True
        elif selection.chosen is not None:
            self.answered.add(number)
            muxer.reset(number)

    def stream(self, protocol: str) -> int:
        assert self.connection.muxer is not None
        number = self.connection.muxer.open()
        self.connection.muxer.send(number, Selection([protocol], is_dialer=True).begin())
        return number

    def say(self, number: int, data: bytes) -> None:
        muxer, at = self.connection.muxer, 0
        assert muxer is not None
        while at < len(data):
            count = muxer.send(number, data[at : at + 65_536])
            at += count
            if count:
                self.socket.sendall(self.connection.take_output())
            else:
                self.pump()


# ---- what attackers do: once, again and again ------------------------------------------------------

Attack = Callable[[NodeRecord, str], None]


def says_nothing(record: NodeRecord, host: str) -> None:
    sockets = []
    for number in range(250):
        address = f"127.{int(host.split('.')[3])}.{number // 5}.{1 + number % 5}"
        with contextlib.suppress(OSError):
            sockets.append(socket.create_connection((record.ip, record.port("tcp")), 10, source_address=(address, 0)))
    time.sleep(1)
    for each in sockets:
        each.close()


def shakes_wrongly(record: NodeRecord, host: str) -> None:
    with socket.create_connection((record.ip, record.port("tcp")), 10, source_address=(host, 0)) as wrong:
        noise = struct.pack(">H", 200) + random.randbytes(200)
        wrong.sendall(Selection(["/noise"], is_dialer=True).begin() + noise)
        while wrong.recv(1000):
            pass


def shakes_hands(record: NodeRecord, host: str) -> None:
    attacker = Attacker(record, host)
    while attacker.connection.muxer is None:
        attacker.pump()
    attacker.socket.close()


def _floods(frames: bytes) -> Attack:
    def attack(record: NodeRecord, host: str) -> None:
        attacker = Attacker(record, host)
        attacker.meet()
        assert attacker.connection.muxer is not None
        while True:
            attacker.connection.muxer.output += frames
            attacker.socket.sendall(attacker.connection.take_output())

    return attack


def _gossips(make: Callable[[str, int], bytes], topic: Topic = Topic.TX) -> Attack:
    def attack(record: NodeRecord, host: str) -> None:
        attacker = Attacker(record, host)
        attacker.meet()
        # Of several attackers each says something else.
        name, mesh, turn = topic_name(topic, attacker.version), attacker.stream(MESH), random.randrange(1 << 20)
        beginning = gossip_wire.subscriptions([name])
        attacker.say(mesh, peer_frames.write_varint(len(beginning)) + beginning)
        while True:
            rpc = make(name, turn)
            attacker.say(mesh, peer_frames.write_varint(len(rpc)) + rpc)
            turn += 1

    return attack


def _ids(turn: int, count: int) -> list[bytes]:
    return [(turn * 5000 + number).to_bytes(20, "big") for number in range(count)]


def never_ends(record: NodeRecord, host: str) -> None:
    attacker = Attacker(record, host)
    attacker.meet()
    mesh = attacker.stream(MESH)
    attacker.say(mesh, peer_frames.write_varint(10 * MIB) + bytes(10 * MIB - 1))
    time.sleep(5)


def asks_and_does_not_read(record: NodeRecord, host: str) -> None:
    attacker = Attacker(record, host)
    attacker.meet()
    assert attacker.connection.muxer is not None
    for _ in range(100):
        number = attacker.stream(Request.BLOCK.protocol)
        attacker.connection.muxer.send(number, (3).to_bytes(32, "big"))
        attacker.connection.muxer.finish(number)
        attacker.socket.sendall(attacker.connection.take_output())
    time.sleep(2)


def asks_for_txs(record: NodeRecord, host: str) -> None:
    attacker = Attacker(record, host)
    attacker.meet()
    assert attacker.connection.muxer is not None
    hashes = write_hashes([random.randbytes(32) for _ in range(2000)])
    while True:
        number = attacker.stream(Request.TX.protocol)
        attacker.say(number, hashes)
        attacker.connection.muxer.finish(number)
        attacker.pump()


def sends_packets(make: Callable[[NodeRecord], bytes]) -> Attack:
    def attack(record: NodeRecord, host: str) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.bind((host, 0))
            packets = [make(record) for _ in range(200)]
            while True:
                for packet in packets:
                    with contextlib.suppress(OSError):
                        udp.sendto(packet, (record.ip, record.port("udp")))

    return attack


def _handshake(record: NodeRecord) -> bytes:
    parts = {"signature": random.randbytes(64), "ephemeral": Identity().compressed, "record": b""}
    return discovery_wire.handshake_packet(record.node_id, random.randbytes(32), bytes(16), b"x", **parts)


def _graft(name: str, turn: int) -> bytes:
    return gossip_wire.control(gossip_wire.prune(name)) + gossip_wire.control(*[gossip_wire.graft(name)] * 100)


ATTACKS: dict[str, Attack] = {
    "connections": says_nothing,
    "wrong noise": shakes_wrongly,
    "handshakes": shakes_hands,
    "pings": _floods(struct.pack(">BBHII", 0, 2, 1, 0, 1) * 1000),
    "frames of nothing": _floods(struct.pack(">BBHII", 0, 1, 0, 99, 1) * 5000),
    "streams": _floods(b"".join(struct.pack(">BBHII", 0, 1, 1, number, 0) for number in range(1001, 3001, 2))),
    "no snappy": _gossips(lambda name, turn: gossip_wire.message(name, b"\xff" * 50 + struct.pack(">Q", turn))),
    "nonsense": _gossips(lambda name, turn: gossip_wire.message(name, pack(struct.pack(">Q", turn) * 1000)[1])),
    "offers": _gossips(lambda name, turn: gossip_wire.control(gossip_wire.ihave(name, _ids(turn, 5000)))),
    "wishes": _gossips(lambda name, turn: gossip_wire.control(gossip_wire.iwant(_ids(turn, 5000)))),
    "grafts": _gossips(_graft),
    "subscriptions": _gossips(lambda name, turn: gossip_wire.subscriptions([f"topic {turn} {n}" for n in range(500)])),
    "a message without end": never_ends,
    "unread answers": asks_and_does_not_read,
    "transactions that are not there": asks_for_txs,
    "packets": sends_packets(lambda record: discovery_wire.random_packet(record.node_id, random.randbytes(32))[0]),
    "packets of handshakes": sends_packets(_handshake),
    "packets of nothing": sends_packets(lambda record: random.randbytes(500)),
    "bad proofs": _gossips(lambda name, turn: gossip_wire.message(name, pack(peer_targets.false_proof(turn))[1])),
    "duplicate proposals": _gossips(
        lambda name, turn: gossip_wire.message(name, pack(peer_targets.turns[0].proposal(turn))[1]),
        Topic.BLOCK_PROPOSAL,
    ),
}
#: The node that is attacked, where the sample chain does not do.
TARGETS = {"bad proofs": peer_targets.with_verifier, "duplicate proposals": peer_targets.with_committee}


# ---- rounds --------------------------------------------------------------------------------------


def attack_for(name: str, number: int, record: str, seconds: float, dropped: Any) -> None:
    os.nice(10)
    end = time.monotonic() + seconds
    target = NodeRecord.from_text(record)
    # What an attack waits for is not waited for at the end.
    threading.Timer(seconds, os._exit, (0,)).start()
    while time.monotonic() < end:
        try:
            ATTACKS[name](target, f"127.0.1.{number + 1}")
        except (OSError, PeerFault):
            with dropped.get_lock():
                dropped.value += 1
            time.sleep(0.02)


def ask(port: int, method: str) -> Any:
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(strain.post(orjson.dumps(strain.call(method)), "Connection: close"))
        data = b"".join(iter(lambda: connection.recv(1 << 20), b""))
    return orjson.loads(data.partition(b"\r\n\r\n")[2]).get("result")


def state_of(port: int) -> tuple[Any, Any]:
    """What waits in the pool, and the chain."""
    return ask(port, "node_getPendingTxCount"), ask(port, "node_getL2Tips")


def run_round(name: str, count: int, options: argparse.Namespace) -> dict[str, Any]:
    peers = ["--p2p-enabled", "--p2p-ip=127.0.0.1", "--p2p-port=0", "--p2p-listen-addr=127.0.0.1"]
    with TARGETS.get(name, strain.node_at_rest)([f"--rpc-memory-budget={options.budget}", *peers]) as node:
        while not (record := ask(node.port, "node_getEncodedEnr")):
            time.sleep(0.05)  # it serves before it listens to peers
        friend = Attacker(NodeRecord.from_text(record), "127.0.0.2")
        friend.meet()
        before = state_of(node.port)
        strain.be_victim(node.port, 0.5)
        rest, _ = node.memory()
        node.forget_peak()
        dropped = multiprocessing.Value("i", 0)
        attacking = [
            multiprocessing.Process(target=attack_for, args=(name, number, record, options.seconds, dropped))
            for number in range(count)
        ]
        for process in attacking:
            process.start()
        time.sleep(0.5)
        try:
            took = strain.be_victim(node.port, options.seconds - 1)
        except (OSError, RuntimeError) as error:
            print(f"the victim: {error}")
            took = [float("inf")]
        for process in attacking:
            process.join()
        _, peak = node.memory() if node.is_alive else (0, 0)
        time.sleep(options.settle)
        after = node.memory()[0] if node.is_alive else 0
        try:
            answers = node.is_alive and strain.be_victim(node.port, 0.1) != []
            friend.socket.setblocking(False)
            is_there = _is_open(friend.socket)
            unchanged = state_of(node.port) == before
        except (OSError, RuntimeError):
            answers = is_there = unchanged = False
    found = {
        "attack": name,
        "attackers": count,
        "answers": len(took),
        "p50_ms": strain.percentile(took, 0.5) * 1e3,
        "p99_ms": strain.percentile(took, 0.99) * 1e3,
        "max_ms": max(took) * 1e3,
        "rest_mb": rest // MIB,
        "peak_mb": peak // MIB,
        "after_mb": after // MIB,
        "dropped": dropped.value,
        "answers_after": answers and is_there and unchanged,
    }
    found["holds"] = strain.holds_of(found, options)
    return found


def _is_open(connection: socket.socket) -> bool:
    try:
        while data := connection.recv(1 << 20):
            del data
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


COLUMNS = strain.COLUMNS.replace("{attack:18}", "{attack:31}").replace("{verdict}", "dropped {dropped:4}  {verdict}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attack", nargs="*", choices=list(ATTACKS), help="names; default: all")
    parser.add_argument("--attackers", nargs="*", type=int, default=[1, 4])
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--settle", type=float, default=2.0)
    parser.add_argument("--budget", type=int, default=strain.MEMORY_BUDGET)
    parser.add_argument("--json", type=Path, help="append each round's figures to this file")
    options = parser.parse_args()
    strain._come_first()
    fails = 0
    for name in options.attack or ATTACKS:
        for count in options.attackers:
            found = run_round(name, count, options)
            fails += not found["holds"]
            verdict = "holds" if found["holds"] else "FAILS"
            columns = strain.COLUMNS.replace("{attack:18}", "{attack:31}").replace(
                "{verdict}", "dropped {dropped:4}  {verdict}"
            )
            print(columns.format(**found, verdict=verdict), flush=True)
            if options.json is not None:
                with options.json.open("a") as file:
                    file.write(json.dumps(found) + "\n")
    print("all hold" if not fails else f"{fails} rounds fail")
    return 1 if fails else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
