"""The noise handshake: recorded bytes, both sides against each other, and messages that are wrong."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.p2p.vectors import recorded_json

from fastnode.errors import PeerFault
from fastnode.p2p.transport import noise
from fastnode.p2p.transport.identity import Identity
from fastnode.p2p.transport.noise import PLAINTEXT_BYTES_MAX, Handshake, Session

ALICE, BOB = Identity(b"\1" * 32), Identity(b"\2" * 32)


def shaken() -> tuple[Session, Session]:
    """Both ends of a connection."""
    first, second = Handshake(ALICE, is_initiator=True), Handshake(BOB, is_initiator=False)
    answer = second.receive(first.begin()[2:])
    assert second.receive(first.receive(answer[2:])[2:]) == b""
    assert first.session is not None
    assert second.session is not None
    return first.session, second.session


def opened(session: Session, sealed: bytes) -> bytes:
    out, at = b"", 0
    while at < len(sealed):
        size = int.from_bytes(sealed[at : at + 2], "big")
        out += session.open(sealed[at + 2 : at + 2 + size])
        at += 2 + size
    return out


def test_the_recorded_handshake_with_a_published_node_is_repeated_byte_by_byte() -> None:
    vector = recorded_json("noise-handshake.json")
    first, second, third = (bytes.fromhex(text) for _, text in vector["messages"])
    static, ephemeral = (
        X25519PrivateKey.from_private_bytes(bytes.fromhex(vector[name])) for name in ("static", "ephemeral")
    )
    identity = Identity(bytes.fromhex(vector["identity"]))
    handshake = Handshake(identity, is_initiator=True, static=static, ephemeral=ephemeral)
    assert handshake.begin() == len(first).to_bytes(2, "big") + first
    assert handshake.receive(second) == len(third).to_bytes(2, "big") + third
    assert handshake.session is not None
    assert handshake.session.peer_id == vector["remote"]


def test_the_handshake_is_that_of_independent_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    vector = recorded_json("noise-xx.json")
    monkeypatch.setattr(noise, "_check_payload", lambda payload, static: f"payload {payload!r}")
    sides = []
    for name in ("initiator", "responder"):
        static, ephemeral = (
            X25519PrivateKey.from_private_bytes(bytes.fromhex(vector[f"{name}_{kind}"]))
            for kind in ("static", "ephemeral")
        )
        side = Handshake(ALICE, is_initiator=name == "initiator", static=static, ephemeral=ephemeral)
        side._payload = b""  # libp2p says who it is there, and the vectors do not
        sides.append(side)
    initiator, responder = sides
    messages = [initiator.begin()]
    messages.append(responder.receive(messages[0][2:]))
    messages.append(initiator.receive(messages[1][2:]))
    assert responder.receive(messages[2][2:]) == b""
    assert [message[2:].hex() for message in messages] == vector["empty_payloads"]
    for sender, receiver, (plain, sealed) in zip(sides, sides[::-1], vector["transport"], strict=True):
        assert sender.session is not None
        assert receiver.session is not None
        assert sender.session.seal(bytes.fromhex(plain))[2:].hex() == sealed
        assert receiver.session.open(bytes.fromhex(sealed)).hex() == plain


def test_each_side_learns_who_the_other_is() -> None:
    first, second = shaken()
    assert (first.peer_id, second.peer_id) == (BOB.peer_id, ALICE.peer_id)


@given(data=st.binary(max_size=3 * PLAINTEXT_BYTES_MAX))
@settings(max_examples=20, deadline=None)
def test_what_one_side_seals_the_other_opens(data: bytes) -> None:
    first, second = shaken()
    assert opened(second, first.seal(data)) == data
    assert opened(first, second.seal(data)) == data


def test_a_message_opens_once_and_in_its_turn_only() -> None:
    first, second = shaken()
    one, two = first.seal(b"one")[2:], first.seal(b"two")[2:]
    with pytest.raises(PeerFault, match="does not open"):
        second.open(two)
    first, second = shaken()
    one = first.seal(b"one")[2:]
    assert second.open(one) == b"one"
    with pytest.raises(PeerFault, match="does not open"):
        second.open(one)


@pytest.mark.parametrize("message", range(3))
@pytest.mark.parametrize("place", [0, 20, -1])
def test_no_bit_of_a_handshake_may_change(message: int, place: int) -> None:
    first, second = Handshake(ALICE, is_initiator=True), Handshake(BOB, is_initiator=False)

    def shake() -> None:
        sent = first.begin()
        for index, receiver in enumerate((second, first, second)):
            plain = bytearray(sent[2:])
            if index == message:
                plain[place] ^= 1
            sent = receiver.receive(bytes(plain))

    with pytest.raises(PeerFault):  # at the latest when the other side answers
        shake()


@pytest.mark.parametrize("size", [0, 1, 31, 32, 40])
def test_a_message_that_is_too_short_ends_it(size: int) -> None:
    first = Handshake(ALICE, is_initiator=True)
    first.begin()
    with pytest.raises(PeerFault):
        first.receive(bytes(size))


def test_a_key_of_low_order_is_refused() -> None:
    with pytest.raises(PeerFault, match="low order"):
        Handshake(BOB, is_initiator=False).receive(bytes(32))


def test_the_static_key_must_be_signed_by_the_identity() -> None:
    class Liar(Identity):
        def sign(self, data: bytes) -> bytes:
            return super().sign(hashlib.sha256(data).digest())

    first, second = Handshake(Liar(b"\1" * 32), is_initiator=True), Handshake(BOB, is_initiator=False)
    third = first.receive(second.receive(first.begin()[2:])[2:])
    with pytest.raises(PeerFault, match="signature of the identity key is wrong"):
        second.receive(third[2:])
