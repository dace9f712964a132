"""Packets and messages of discovery: the vectors of its specification, recorded packets, and packets that are wrong."""

from __future__ import annotations

from typing import Any

import pytest
from coincurve import PrivateKey, PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st
from tests.p2p.vectors import VERSION, recorded_json

from fastnode.p2p.discovery import wire
from fastnode.p2p.discovery.enr import NodeRecord, make_record, node_id_of
from fastnode.p2p.discovery.messages import (
    FindNode,
    Message,
    Nodes,
    Ping,
    Pong,
    TalkAnswer,
    TalkRequest,
    nodes_messages,
    read_message,
    write_message,
)
from fastnode.p2p.discovery.sessions import Contact, Sessions
from fastnode.p2p.transport.identity import Identity, verify_compact

VECTORS: dict[str, Any] = recorded_json("discv5-wire.json")
ALICE, BOB = (Identity(bytes.fromhex(VECTORS["keys"][name])) for name in "ab")
A, B = (bytes.fromhex(VECTORS["node_ids"][name]) for name in "ab")
NONCE, MASK = bytes.fromhex(VECTORS["nonce"]), bytes.fromhex(VECTORS["mask"])
ADDRESS = ("127.0.0.1", 30303)


def ping(sequence: int) -> bytes:
    return write_message(Ping(b"\0\0\0\1", sequence))


def test_the_ids_of_the_specification_are_those_of_its_keys() -> None:
    assert [node_id_of(identity.key.public_key) for identity in (ALICE, BOB)] == [A, B]


def test_a_ping_is_written_and_read_as_in_the_specification() -> None:
    vector = VECTORS["ping"]
    data, key = bytes.fromhex(vector["packet"]), bytes.fromhex(vector["key"])
    assert wire.message_packet(B, A, key, ping(vector["sequence"]), nonce=NONCE, mask=b"\0" * 16)[0] == data
    packet = wire.read_packet(data, B)
    assert (packet.flag, packet.source, packet.nonce) == (wire.MESSAGE, A, NONCE)
    opened = wire.open_message(key, packet)
    assert opened is not None
    assert read_message(opened) == Ping(b"\0\0\0\1", 2)
    assert wire.open_message(b"\1" * 16, packet) is None


def test_a_challenge_is_written_and_read_as_in_the_specification() -> None:
    vector = {name: bytes.fromhex(text) for name, text in VECTORS["challenge"].items()}
    written = wire.challenge_packet(B, vector["nonce"], 0, id_nonce=vector["id_nonce"], mask=MASK)
    assert written == (vector["packet"], vector["data"])
    packet = wire.read_packet(vector["packet"], B)
    assert packet.flag == wire.CHALLENGE
    assert (packet.first, int.from_bytes(packet.second, "big"), packet.head) == (vector["id_nonce"], 0, vector["data"])


@pytest.mark.parametrize("vector", VECTORS["handshakes"], ids=["record known", "record sent"])
def test_a_handshake_is_written_and_read_as_in_the_specification(vector: dict[str, Any]) -> None:
    data, key = bytes.fromhex(vector["packet"]), bytes.fromhex(vector["key"])
    challenge = bytes.fromhex(VECTORS["challenge"]["data"])[:-8] + vector["known_sequence"].to_bytes(8, "big")
    ephemeral = PrivateKey(bytes.fromhex(VECTORS["ephemeral"]))
    public = bytes.fromhex(VECTORS["ephemeral_public"])
    assert ephemeral.public_key.format() == public
    assert wire.session_keys(ephemeral, BOB.key.public_key, A, B, challenge)[0] == key
    assert wire.session_keys(BOB.key, PublicKey(public), A, B, challenge)[0] == key
    packet = wire.read_packet(data, B)
    assert (packet.flag, packet.source, packet.second) == (wire.HANDSHAKE, A, public)
    signature = ALICE.sign_digest_compact(wire.id_digest(challenge, public, B))
    assert packet.first == signature
    assert verify_compact(ALICE.key.public_key, signature, wire.id_digest(challenge, public, B))
    opened = wire.open_message(key, packet)
    assert opened == ping(1)
    written = wire.handshake_packet(
        B, A, key, opened, signature=signature, ephemeral=public, record=packet.record, nonce=NONCE, mask=MASK
    )
    assert written == data
    assert bool(packet.record) == (vector["known_sequence"] == 0)
    if packet.record:
        assert NodeRecord.from_bytes(packet.record).node_id == A


def test_keys_signatures_and_sealing_are_those_of_the_specification() -> None:
    ecdh, derived, signed, sealing = (VECTORS[name] for name in ("ecdh", "key_derivation", "id_signature", "sealing"))
    shared = PublicKey(bytes.fromhex(ecdh["public"])).multiply(bytes.fromhex(ecdh["secret"])).format()
    assert shared.hex() == ecdh["shared"]
    challenge = bytes.fromhex(VECTORS["challenge"]["data"])
    secret = PrivateKey(bytes.fromhex(derived["secret"]))
    keys = wire.session_keys(secret, PublicKey(bytes.fromhex(derived["public"])), A, B, challenge)
    assert [key.hex() for key in keys] == [derived["initiator_key"], derived["recipient_key"]]
    digest = wire.id_digest(challenge, bytes.fromhex(signed["ephemeral_public"]), B)
    signer = Identity(bytes.fromhex(signed["secret"]))
    assert signer.sign_digest_compact(digest).hex() == signed["signature"]
    sealed = AESGCM(bytes.fromhex(sealing["key"])).encrypt(
        *(bytes.fromhex(sealing[name]) for name in ("nonce", "message", "authenticated"))
    )
    assert sealed.hex() == sealing["sealed"]


def test_messages_are_those_of_the_specification() -> None:
    ping_text, pong_text = VECTORS["messages"]["ping"], VECTORS["messages"]["pong"]
    assert read_message(bytes.fromhex(ping_text)) == Ping(b"\1", 1)
    assert write_message(Ping(b"\1", 1)).hex() == ping_text
    assert read_message(bytes.fromhex(pong_text)) == Pong(b"\1", 1, b"\x7f\0\0\1", 5000)
    assert write_message(Pong(b"\1", 1, b"\x7f\0\0\1", 5000)).hex() == pong_text


def test_a_recorded_session_with_a_published_node_opens() -> None:
    vector = recorded_json("discv5-session.json")
    remote = NodeRecord.from_text(vector["remoteEnr"])
    own = Identity(bytes.fromhex(vector["identity"]))
    own_id = node_id_of(own.key.public_key)
    first, challenge, handshake, answer = (bytes.fromhex(data) for _, data in vector["packets"])
    assert wire.read_packet(first, remote.node_id).source == own_id
    asked = wire.read_packet(challenge, own_id)
    assert asked.nonce == wire.read_packet(first, remote.node_id).nonce
    ephemeral = PrivateKey(bytes.fromhex(vector["ephemeral"][0]))
    sending, receiving = wire.session_keys(ephemeral, remote.key, own_id, remote.node_id, asked.head)
    shaken = wire.read_packet(handshake, remote.node_id)
    digest = wire.id_digest(asked.head, shaken.second, remote.node_id)
    assert own.sign_digest_compact(digest) == shaken.first
    sent, received = wire.open_message(sending, shaken), wire.open_message(receiving, wire.read_packet(answer, own_id))
    assert sent is not None
    assert received is not None
    assert read_message(sent) == Ping(bytes(range(1, 9)), 1)
    assert isinstance(read_message(received), Pong)


@pytest.mark.parametrize(
    "message",
    [
        FindNode(b"\1\2", (0, 1, 256)),
        Nodes(b"", 1, ()),
        TalkRequest(b"\0", b"topic", b"\0"),
        TalkAnswer(b"\0" * 8, b""),
        Pong(b"1", 1 << 63, bytes(16), 0),
    ],
)
def test_every_message_is_read_as_it_was_written(message: Message) -> None:
    assert read_message(write_message(message)) == message


@pytest.mark.parametrize(
    "plain", [b"", b"\1", b"\1\xc0", b"\7\xc2\1\1", b"\1\xc2\xc0\1", b"\4\xc3\1\x11\xc0", b"\3\xc2\1\1"]
)
def test_what_is_no_message_is_refused(plain: bytes) -> None:
    with pytest.raises(ValueError, match=r"discovery|RLP"):
        read_message(plain)


def test_an_answer_with_many_records_fits_into_its_packets() -> None:
    records = [
        make_record(Identity(), VERSION, sequence=1, ip="1.2.3.4", port=40400, client="4").raw for _ in range(20)
    ]
    parts = list(nodes_messages(b"12345678", records))
    assert [record for part in parts for record in part.records] == records[:16]
    assert {part.total for part in parts} == {len(parts)}
    for part in parts:
        assert len(wire.message_packet(B, A, bytes(16), write_message(part))[0]) <= wire.PACKET_BYTES_MAX
        assert read_message(write_message(part)) == part
    assert list(nodes_messages(b"1", [])) == [Nodes(b"1", 1, ())]


# ---- sessions ------------------------------------------------------------------------------------


def record_of(identity: Identity) -> NodeRecord:
    return make_record(identity, "V", sequence=7, ip=ADDRESS[0], port=ADDRESS[1], client="4.1.2")


def shaken() -> tuple[Sessions, Sessions, bytes]:
    """Both sides, and what the second one has been told in the handshake."""
    alice, bob = Sessions(ALICE), Sessions(BOB)
    contact = Contact.of(record_of(BOB))
    assert contact is not None
    first, _ = alice.seal(B, ADDRESS, b"hello", 0.0)
    challenge = bob.challenge(wire.read_packet(first, B), ADDRESS, None, 0.0)
    handshake = alice.answer_challenge(contact, wire.read_packet(challenge, A), b"hello", record_of(ALICE), 0.0)
    record, message = bob.accept(wire.read_packet(handshake, B), ADDRESS, 0.1)
    assert record.raw == record_of(ALICE).raw
    return alice, bob, message


def test_after_a_handshake_both_sides_open_what_the_other_seals() -> None:
    alice, bob, message = shaken()
    assert message == b"hello"
    packet, _ = bob.seal(A, ADDRESS, b"to alice", 1.0)
    assert alice.open(wire.read_packet(packet, A), ADDRESS, 1.0) == b"to alice"
    packet, _ = alice.seal(B, ADDRESS, b"to bob", 1.0)
    assert bob.open(wire.read_packet(packet, B), ADDRESS, 1.0) == b"to bob"
    assert bob.open(wire.read_packet(packet, B), ("127.0.0.2", 30303), 1.0) is None  # from elsewhere
    assert bob.open(wire.read_packet(packet, B), ADDRESS, 100_000.0) is None  # much later


def test_a_handshake_counts_once_and_in_time_only() -> None:
    alice, bob = Sessions(ALICE), Sessions(BOB)
    contact = Contact.of(record_of(BOB))
    assert contact is not None
    first, _ = alice.seal(B, ADDRESS, b"hello", 0.0)
    challenge = bob.challenge(wire.read_packet(first, B), ADDRESS, None, 0.0)
    data = alice.answer_challenge(contact, wire.read_packet(challenge, A), b"hello", record_of(ALICE), 0.0)
    packet = wire.read_packet(data, B)
    for place in range(4):
        wrong = [packet.first, packet.second, packet.record, packet.body]
        wrong[place] = bytes([wrong[place][0] ^ 1]) + wrong[place][1:]
        spoiled = packet._replace(first=wrong[0], second=wrong[1], record=wrong[2], body=wrong[3])
        with pytest.raises(ValueError, match=r"handshake|record|key|RLP"):
            bob.accept(spoiled, ADDRESS, 0.1)
    with pytest.raises(ValueError, match="not asked for"):
        bob.accept(packet, ADDRESS, 10.0)
    with pytest.raises(ValueError, match="not asked for"):
        bob.accept(packet, ("127.0.0.2", 1), 0.1)
    assert bob.accept(packet, ADDRESS, 0.1)[1] == b"hello"
    with pytest.raises(ValueError, match="not asked for"):
        bob.accept(packet, ADDRESS, 0.1)


def test_both_sides_may_begin_at_the_same_time() -> None:
    alice, bob = Sessions(ALICE), Sessions(BOB)
    to_bob, to_alice = Contact.of(record_of(BOB)), Contact.of(record_of(ALICE))
    assert to_bob is not None
    assert to_alice is not None
    one, _ = alice.seal(B, ADDRESS, b"", 0.0)
    two, _ = bob.seal(A, ADDRESS, b"", 0.0)
    asked_alice = bob.challenge(wire.read_packet(one, B), ADDRESS, None, 0.0)
    asked_bob = alice.challenge(wire.read_packet(two, A), ADDRESS, None, 0.0)
    one = alice.answer_challenge(to_bob, wire.read_packet(asked_alice, A), b"one", record_of(ALICE), 0.0)
    two = bob.answer_challenge(to_alice, wire.read_packet(asked_bob, B), b"two", record_of(BOB), 0.0)
    assert bob.accept(wire.read_packet(one, B), ADDRESS, 0.0)[1] == b"one"
    assert alice.accept(wire.read_packet(two, A), ADDRESS, 0.0)[1] == b"two"
    packet, _ = alice.seal(B, ADDRESS, b"answer to two", 0.0)
    assert bob.open(wire.read_packet(packet, B), ADDRESS, 0.0) == b"answer to two"
    packet, _ = bob.seal(A, ADDRESS, b"answer to one", 0.0)
    assert alice.open(wire.read_packet(packet, A), ADDRESS, 0.0) == b"answer to one"


def test_sessions_and_challenges_are_bounded() -> None:
    bob = Sessions(BOB)
    for number in range(3000):
        packet = wire.Packet(0, bytes(12), number.to_bytes(32, "big"), b"", b"", b"", b"", b"")
        bob.challenge(packet, ADDRESS, None, 0.0)
        bob._keep(record_of(ALICE), ("127.0.0.1", number), bytes(16), bytes(16), 0.0)
    assert len(bob) == len(bob._challenges) == 1000


@given(data=st.binary(max_size=1400))
def test_random_packets_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="discovery"):
        wire.read_packet(data, A)


def test_no_bit_of_a_sealed_packet_may_change() -> None:
    data, _ = wire.message_packet(B, A, bytes(16), ping(1))
    for place in range(len(data)):
        spoiled = bytearray(data)
        spoiled[place] ^= 1
        try:
            packet = wire.read_packet(bytes(spoiled), B)
        except ValueError:
            continue
        assert wire.open_message(bytes(16), packet) is None
