"""Everything that reads what peers send, with spoiled inputs: `scripts/fuzz peers` runs it under sanitizers.

    python -m tests.p2p.fuzz INPUTS [SEED]

Each input is a message as it should be (recorded, or made), spoiled; what is read must be refused in the way that its
reader says, or be written again as the same bytes where that can be told.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests._ext import fuzz_alone  # noqa: F401 - before all that imports pytest
from tests._ext.fuzz import Calls, spoiled
from tests._ext.fuzz_peers import peer_frames_calls, rlp_calls
from tests.p2p.vectors import FOLDER, VERSION, recorded

from fastnode.errors import DecodeError, PeerFault
from fastnode.kernels import peer_frames
from fastnode.p2p.discovery import wire as discovery_wire
from fastnode.p2p.discovery.enr import NodeRecord, make_record
from fastnode.p2p.discovery.messages import (
    FindNode,
    Ping,
    Pong,
    TalkRequest,
    nodes_messages,
    read_message,
    write_message,
)
from fastnode.p2p.gossip import wire as gossip_wire
from fastnode.p2p.gossip.router import Gossip
from fastnode.p2p.gossip.score_parameters import parameters_of
from fastnode.p2p.gossip.scores import PeerScores
from fastnode.p2p.gossip.topics import Topic, decompressed, topic_name, unpack
from fastnode.p2p.messages.proposals import BlockProposal, CheckpointAttestation, CheckpointProposal
from fastnode.p2p.messages.request_forms import (
    BlockTxsRequest,
    BlockTxsResponse,
    StatusMessage,
    read_hashes,
    read_txs,
    write_hashes,
)
from fastnode.p2p.node.identify import read_identify
from fastnode.p2p.transport.encoding import compress, decompress
from fastnode.p2p.transport.identity import Identity, read_public_key
from fastnode.p2p.transport.limits import Limits
from fastnode.p2p.transport.multistream import Selection
from fastnode.p2p.transport.noise import Handshake
from fastnode.p2p.transport.yamux import Muxer
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx

#: How a reader refuses.
REFUSALS: Final = (ValueError, DecodeError, PeerFault)
Random = random.Random
#: What it is read by, and inputs that are right.
Subject = tuple[Callable[[bytes], Any], Callable[[Random], bytes]]

IDENTITY: Final = Identity(b"\1" * 32)
OTHER: Final = Identity(b"\2" * 32)
NODE_ID: Final = bytes(range(32))
NAMES: Final = {topic: topic_name(topic, VERSION) for topic in Topic}


def _payload(name: str) -> bytes:
    return unpack(decompressed(Topic(name.partition("-")[0]), recorded(f"{name}.message")))


def _one_of(*inputs: bytes) -> Callable[[Random], bytes]:
    return lambda dice: dice.choice(inputs)


def _record(dice: Random) -> bytes:
    ip = dice.choice((None, "1.2.3.4"))
    return make_record(IDENTITY, VERSION, sequence=dice.randrange(1 << 40), ip=ip, port=9, client="4").raw


RECORDS: Final = [_record(Random(seed)) for seed in range(4)]


def _message(dice: Random) -> bytes:
    request = dice.randbytes(dice.randrange(9))
    nodes = list(nodes_messages(request, [dice.choice(RECORDS) for _ in range(dice.randrange(6))]))
    made = (
        Ping(request, 7),
        Pong(request, 1, bytes(4), 9),
        FindNode(request, (0, 256)),
        TalkRequest(request, b"", b"x"),
    )
    return write_message(dice.choice((*made, nodes[0])))


def _packet(dice: Random) -> bytes:
    message, kind = _message(dice), dice.randrange(4)
    if kind == 0:
        return discovery_wire.random_packet(NODE_ID, NODE_ID)[0]
    if kind == 1:
        return discovery_wire.challenge_packet(NODE_ID, bytes(12), dice.randrange(99))[0]
    if kind == 2:
        return discovery_wire.message_packet(NODE_ID, NODE_ID, bytes(16), message)[0]
    record = dice.choice((b"", RECORDS[0]))
    parts = {"signature": bytes(64), "ephemeral": IDENTITY.compressed, "record": record}
    return discovery_wire.handshake_packet(NODE_ID, NODE_ID, bytes(16), b"hello", **parts)


def _opened(data: bytes) -> bytes | None:
    return discovery_wire.open_message(bytes(16), discovery_wire.read_packet(data, NODE_ID))


def _rpc(dice: Random) -> bytes:
    ids = [dice.randbytes(20) for _ in range(dice.randrange(4))]
    name = dice.choice(list(NAMES.values()))
    rpc = gossip_wire.subscriptions([name]) + gossip_wire.message(name, compress(dice.randbytes(30)))
    return rpc + gossip_wire.control(gossip_wire.ihave(name, ids), gossip_wire.iwant(ids), gossip_wire.graft(name))


def _gossip(data: bytes) -> None:
    """A new one each time: what it keeps of messages is bounded elsewhere."""
    parameters = parameters_of(
        NAMES, slot_s=36, heartbeat_s=0.7, committee_size=4, block_proposals_per_slot=0, colocation_weight=0
    )
    scores = PeerScores(parameters, lambda peer: 0.0)
    gossip = Gossip(NAMES, scores, options=gossip_wire.GossipOptions(), limits=Limits())
    gossip.add_peer("peer", "1.2.3.4", is_outbound=True, is_direct=False)
    list(gossip.receive("peer", data, 1.0))
    gossip.heartbeat(2.0)
    gossip.take_output()


def _frames(dice: Random) -> bytes:
    muxer = Muxer(Limits(), is_dialer=True)
    for _ in range(dice.randrange(1, 4)):
        stream = muxer.open()
        muxer.send(stream, dice.randbytes(dice.randrange(60)))
        dice.choice((muxer.finish, muxer.reset, muxer.ping))(stream)
    return bytes(muxer.output)


def _muxer(data: bytes) -> None:
    for _ in Muxer(Limits(), is_dialer=False).receive(data, 0.0):
        pass


def _selection(data: bytes) -> None:
    Selection(["/a", "/b"], is_dialer=False).receive(data)


def _snappy(data: bytes) -> None:
    assert len(decompress(data, 5000)) <= 5000


STATIC, EPHEMERAL = (X25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in (3, 4))


def _first_of_noise(dice: Random) -> bytes:
    return Handshake(OTHER, is_initiator=True, static=STATIC, ephemeral=EPHEMERAL).begin()[2:]


def _noise(data: bytes) -> None:
    Handshake(IDENTITY, is_initiator=False, static=STATIC, ephemeral=EPHEMERAL).receive(data)


def _again(read: Callable[[bytes], Any], data: bytes) -> None:
    """What was read is written as it was; what was behind it is not."""
    assert data.startswith(read(data).to_buffer())


def _text_of_record(dice: Random) -> bytes:
    return NodeRecord.from_bytes(dice.choice(RECORDS)).to_text().encode()


TX: Final = _payload("tx-1")
HASHES: Final = write_hashes([bytes([number]) * 32 for number in range(5)])
SUBJECTS: Final[dict[str, Subject]] = {
    "status": (lambda data: _again(StatusMessage.from_buffer, data), _one_of(recorded("status-request.bin"))),
    "hashes": (read_hashes, _one_of(HASHES, HASHES[:4] + HASHES)),
    "txs": (
        lambda data: read_txs(data, FOUR),
        _one_of((2).to_bytes(4, "big") + TX + TX[:200], (1).to_bytes(4, "big") + TX),
    ),
    "block_txs request": (
        lambda data: BlockTxsRequest.from_buffer(data, FOUR),
        _one_of(recorded("block_txs-request.bin"), recorded("block_txs-request-of-node.bin")),
    ),
    "block_txs answer": (
        lambda data: BlockTxsResponse.from_buffer(data, FOUR),
        _one_of(
            BlockTxsResponse(bytes(32), (), (True, False)).to_buffer(),
            BlockTxsResponse(bytes(32), (TX,), ()).to_buffer(),
        ),
    ),
    "tx": (lambda data: Tx.from_buffer(data, FOUR), _one_of(TX)),
    "block proposal": (
        lambda data: BlockProposal.from_buffer(data, FOUR).signer(),
        _one_of(_payload("block_proposal-1"), _payload("block_proposal-9-txs")),
    ),
    "checkpoint proposal": (
        lambda data: CheckpointProposal.from_buffer(data, FOUR).signer(),
        _one_of(_payload("checkpoint_proposal-1"), _payload("checkpoint_proposal-last-block")),
    ),
    "attestation": (
        lambda data: CheckpointAttestation.from_buffer(data, FOUR).signer(),
        _one_of(_payload("checkpoint_attestation-1")),
    ),
    "snappy": (_snappy, _one_of(*(compress(bytes(size)) for size in (0, 10, 5000, 6000)))),
    "gossip data": (
        lambda data: unpack(decompressed(Topic.TX, data)),
        _one_of(compress(bytes(4)), compress(b"\0\0\0\1x")),
    ),
    "gossip": (_gossip, _rpc),
    "yamux": (_muxer, _frames),
    "multistream": (_selection, _one_of(Selection(["/b"], is_dialer=True).begin(), b"\x03ls\n")),
    "noise": (_noise, _first_of_noise),
    "identify": (read_identify, _one_of(recorded("identify-response.bin"))),
    "public key": (read_public_key, _one_of(IDENTITY.public_key)),
    "stored key": (lambda data: Identity.from_text(data.decode("latin-1")), _one_of(IDENTITY.to_text().encode())),
    "record": (NodeRecord.from_bytes, _one_of(*RECORDS)),
    "record as text": (lambda data: NodeRecord.from_text(data.decode("latin-1")), _text_of_record),
    "packet": (_opened, _packet),
    "discovery message": (read_message, _message),
    "varint": (
        lambda data: peer_frames.read_varint(data, 0),
        lambda dice: peer_frames.write_varint(dice.randrange(1 << 64)),
    ),
}
#: Those that take so long that they get fewer inputs.
SLOW: Final = {"tx": 20, "txs": 4, "noise": 10, "gossip": 4, "record": 2, "record as text": 2}


def inputs(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """So many of them, of all subjects."""
    dice, names = Random(seed), list(SUBJECTS)
    for _ in range(count):
        name = dice.choice(names)
        if dice.randrange(SLOW.get(name, 1)):
            name = "discovery message"
        yield name, spoiled(dice, SUBJECTS[name][1](dice))


def fuzz(count: int, seed: int) -> tuple[Counter[str], Counter[str]]:
    """How many inputs each reader got, and how many of them it has refused; AssertionError names what went wrong."""
    made, refused = Counter[str](), Counter[str]()
    for name, data in inputs(count, seed):
        made[name] += 1
        try:
            SUBJECTS[name][0](data)
        except REFUSALS:
            refused[name] += 1
        except BaseException as error:
            raise AssertionError(f"{name}, seed {seed}: {data.hex()}: {error!r}") from error
    return made, refused


def main(count: int, seed: int) -> None:
    started, calls = time.monotonic(), Calls()
    made, refused = Counter[str](), Counter[str]()
    while made.total() + calls.made.total() < count:
        for counted, more in zip((made, refused), fuzz(min(10_000, count), seed), strict=True):
            counted.update(more)
        for turn in range(500):  # the kernels by themselves, beside their twins
            peer_frames_calls(Random(f"{seed} {turn}"), calls, spoiled)
            rlp_calls(Random(f"{seed} {turn}"), calls, spoiled)
        seed += 1
        inputs_so_far = made.total() + calls.made.total()
        print(f"{inputs_so_far} inputs, {time.monotonic() - started:.0f} s, next seed {seed}", flush=True)
    made.update({f"kernel {name}": count for name, count in calls.made.items()})
    refused.update({f"kernel {name}": count for name, count in calls.refused.items()})
    for name, count in sorted(made.items()):
        print(f"    {name:<22} {count:>9} inputs, {refused[name]:>9} refused")


if __name__ == "__main__":
    assert FOLDER.is_dir()
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time()))
