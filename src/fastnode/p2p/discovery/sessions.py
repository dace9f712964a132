"""Identities of nodes in discovery: challenges, handshakes and the keys that follow, without a socket.

    initiator                                recipient
    message that cannot be opened    ──►
                                     ◄──     challenge
    handshake with the message       ──►     from here on both have keys

A session belongs to a node and an address together: a packet from elsewhere is challenged again.  Everything is
bounded; the oldest is forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from coincurve import PrivateKey, PublicKey

from fastnode.p2p.discovery.enr import NodeRecord, node_id_of
from fastnode.p2p.discovery.wire import (
    Packet,
    challenge_packet,
    handshake_packet,
    id_digest,
    message_packet,
    open_message,
    random_packet,
    session_keys,
)
from fastnode.p2p.transport.identity import Identity, verify_compact

__all__ = ["Address", "Contact", "Sessions"]

#: Host and UDP port.
Address = tuple[str, int]

_SESSIONS_MAX: Final = 1000
_SESSION_S: Final = 24 * 3600.0
_CHALLENGES_MAX: Final = 1000
_CHALLENGE_S: Final = 2.0


class Contact(NamedTuple):
    """A node, and where it is spoken to."""

    record: NodeRecord
    node_id: bytes
    address: Address

    @classmethod
    def of(cls, record: NodeRecord) -> Contact | None:
        """None if the record does not say where its node is."""
        host, port = record.ip, record.port("udp")
        return None if host is None or port is None else cls(record, record.node_id, (host, port))


class _Session(NamedTuple):
    #: Record of the other side.
    record: NodeRecord
    sending: bytes
    receiving: bytes
    #: Receiving key of the session before, which the other side still uses when both have begun one at the same time.
    received_before: bytes | None
    since: float


class _Challenge(NamedTuple):
    data: bytes
    since: float
    #: As it is in the node's record here; None if there is none.
    record: NodeRecord | None


class Sessions:
    """Times are of one monotonic clock, in s."""

    def __init__(self, identity: Identity) -> None:
        self._key = identity.key
        self.own_id = node_id_of(identity.key.public_key)
        self._sessions: OrderedDict[tuple[bytes, Address], _Session] = OrderedDict()
        self._challenges: OrderedDict[tuple[bytes, Address], _Challenge] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def _find(self, node_id: bytes, address: Address, now: float) -> _Session | None:
        session = self._sessions.get((node_id, address))
        if session is not None and now - session.since > _SESSION_S:
            del self._sessions[node_id, address]
            return None
        return session

    def _keep(self, record: NodeRecord, address: Address, sending: bytes, receiving: bytes, now: float) -> None:
        node_id = record.node_id
        before = self._sessions.get((node_id, address))
        received_before = None if before is None else before.receiving
        self._sessions[node_id, address] = _Session(record, sending, receiving, received_before, now)
        self._sessions.move_to_end((node_id, address))
        while len(self._sessions) > _SESSIONS_MAX:
            self._sessions.popitem(last=False)

    def contact(self, node_id: bytes, address: Address) -> Contact | None:
        """A node that there is a session with, whatever its record says of where it is."""
        session = self._sessions.get((node_id, address))
        return None if session is None else Contact(session.record, node_id, address)

    def renew(self, record: NodeRecord, address: Address) -> None:
        """The node of a session has a newer record."""
        session = self._sessions.get((record.node_id, address))
        if session is not None:
            self._sessions[record.node_id, address] = session._replace(record=record)

    # ---- sending -----------------------------------------------------------------------------

    def has_session(self, node_id: bytes, address: Address, now: float) -> bool:
        return self._find(node_id, address, now) is not None

    def seal(self, node_id: bytes, address: Address, message: bytes, now: float) -> tuple[bytes, bytes]:
        """A packet with the message, and its nonce; without a session a packet that makes the node ask for one."""
        session = self._find(node_id, address, now)
        if session is None:
            return random_packet(node_id, self.own_id)
        self._sessions.move_to_end((node_id, address))
        return message_packet(node_id, self.own_id, session.sending, message)

    def answer_challenge(
        self, contact: Contact, challenge: Packet, message: bytes, own: NodeRecord, now: float
    ) -> bytes:
        """The handshake, with the message that the challenge was about."""
        ephemeral = PrivateKey()
        public = ephemeral.public_key.format()
        sending, receiving = session_keys(ephemeral, contact.record.key, self.own_id, contact.node_id, challenge.head)
        signature = self._key.sign_recoverable(id_digest(challenge.head, public, contact.node_id), hasher=None)[:64]
        self._keep(contact.record, contact.address, sending, receiving, now)
        return handshake_packet(
            contact.node_id,
            self.own_id,
            sending,
            message,
            signature=bytes(signature),
            ephemeral=public,
            record=own.raw if int.from_bytes(challenge.second, "big") < own.sequence else b"",
        )

    # ---- receiving ---------------------------------------------------------------------------

    def open(self, packet: Packet, address: Address, now: float) -> bytes | None:
        """The message; None if it is of no session: who sends it has to be challenged."""
        session = self._find(packet.source, address, now)
        if session is None:
            return None
        message = open_message(session.receiving, packet)
        if message is None and session.received_before is not None:
            message = open_message(session.received_before, packet)
        return message

    def challenge(self, packet: Packet, address: Address, known: NodeRecord | None, now: float) -> bytes:
        """Challenge for the sender of a packet that cannot be opened.  ``known``: record of the node it names."""
        asked, data = challenge_packet(packet.source, packet.nonce, 0 if known is None else known.sequence)
        self._challenges[packet.source, address] = _Challenge(data, now, known)
        self._challenges.move_to_end((packet.source, address))
        while len(self._challenges) > _CHALLENGES_MAX:
            self._challenges.popitem(last=False)
        return asked

    def accept(self, packet: Packet, address: Address, now: float) -> tuple[NodeRecord, bytes]:
        """The sender of a handshake and its message; ValueError unless it answers a challenge of the last seconds."""
        challenge = self._challenges.get((packet.source, address))
        if challenge is None or now - challenge.since > _CHALLENGE_S:
            raise ValueError("a handshake that was not asked for")
        record = challenge.record
        if packet.record:
            sent = NodeRecord.from_bytes(packet.record)
            if record is None or sent.sequence > record.sequence:
                record = sent
        if record is None or record.node_id != packet.source:
            raise ValueError("a handshake without the record of its sender")
        digest = id_digest(challenge.data, packet.second, self.own_id)
        if not verify_compact(record.key, packet.first, digest):
            raise ValueError("a handshake with a wrong signature")
        receiving, sending = session_keys(
            self._key, PublicKey(packet.second), packet.source, self.own_id, challenge.data
        )
        message = open_message(receiving, packet)
        if message is None:
            raise ValueError("a handshake whose message does not open")
        del self._challenges[packet.source, address]
        self._keep(record, address, sending, receiving, now)
        return record, message
