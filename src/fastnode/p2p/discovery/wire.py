"""Packets of discovery (discv5, version 5.1) as they are written: masked, sealed and signed.

packet      masking nonce 16 | head, masked under the first half of the receiver's id | message, sealed
head        see ``peer_frames.discovery_header``
sealing     AES-GCM; masking nonce and head are authenticated with the message
keys        from ECDH of an ephemeral and a node's key, and the bytes of the challenge that asked for them
"""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import Final, NamedTuple

from coincurve import PrivateKey, PublicKey
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from fastnode.kernels import peer_frames

__all__ = [
    "CHALLENGE",
    "HANDSHAKE",
    "MESSAGE",
    "MESSAGE_BYTES_MAX",
    "PACKET_BYTES_MAX",
    "Packet",
    "challenge_packet",
    "handshake_packet",
    "id_digest",
    "message_packet",
    "open_message",
    "random_packet",
    "read_packet",
    "session_keys",
]

PACKET_BYTES_MAX: Final = 1280
_PACKET_BYTES_MIN: Final = 63
_MASK_BYTES: Final = 16
_NONCE_BYTES: Final = 12
#: Bytes of the longest head, that of a handshake with a record.
_HEAD_BYTES_MAX: Final = 23 + 34 + 97 + 300
#: Bytes of the longest message of a session: less mask, head and tag.
MESSAGE_BYTES_MAX: Final = PACKET_BYTES_MAX - _MASK_BYTES - 23 - 32 - 16

MESSAGE, CHALLENGE, HANDSHAKE = range(3)


class Packet(NamedTuple):
    """A packet whose head is read; nothing in it is proven yet."""

    flag: int
    nonce: bytes
    #: Node id; empty in a challenge.
    source: bytes
    #: Signature of a handshake, nonce of a challenge.
    first: bytes
    #: Ephemeral key of a handshake, sequence number (8 bytes) of a challenge.
    second: bytes
    #: Sender's record of a handshake; may be empty.
    record: bytes
    #: Masking nonce and head, which are authenticated.
    head: bytes
    #: The sealed message.
    body: bytes


def _masked(node_id: bytes, mask: bytes, data: bytes) -> bytes:
    return Cipher(AES(node_id[:16]), CTR(mask)).encryptor().update(data)


def read_packet(data: bytes, own_id: bytes) -> Packet:
    """ValueError for what is no packet to the node ``own_id``."""
    if not _PACKET_BYTES_MIN <= len(data) <= PACKET_BYTES_MAX:
        raise ValueError("no packet of discovery")
    mask = data[:_MASK_BYTES]
    head = _masked(own_id, mask, data[_MASK_BYTES : _MASK_BYTES + _HEAD_BYTES_MAX])
    flag, nonce, source, first, second, record, end = peer_frames.discovery_header(head)
    return Packet(flag, nonce, source, first, second, record, mask + head[:end], data[_MASK_BYTES + end :])


def _head(flag: int, nonce: bytes, rest: bytes) -> bytes:
    return b"discv5\0\1" + bytes([flag]) + nonce + len(rest).to_bytes(2, "big") + rest


def message_packet(
    receiver: bytes,
    own_id: bytes,
    key: bytes,
    message: bytes,
    *,
    nonce: bytes | None = None,
    mask: bytes | None = None,
) -> tuple[bytes, bytes]:
    """A packet with a message of a session, and its nonce.  ``nonce`` and ``mask``: random unless a test gives them."""
    nonce, mask = nonce or os.urandom(_NONCE_BYTES), mask or os.urandom(_MASK_BYTES)
    head = _head(MESSAGE, nonce, own_id)
    return mask + _masked(receiver, mask, head) + AESGCM(key).encrypt(nonce, message, mask + head), nonce


def random_packet(receiver: bytes, own_id: bytes) -> tuple[bytes, bytes]:
    """A packet that cannot be opened, so that its receiver asks who sends it; and its nonce."""
    nonce, mask = os.urandom(_NONCE_BYTES), os.urandom(_MASK_BYTES)
    return mask + _masked(receiver, mask, _head(MESSAGE, nonce, own_id)) + os.urandom(44), nonce


def challenge_packet(
    receiver: bytes, nonce: bytes, sequence: int, *, id_nonce: bytes | None = None, mask: bytes | None = None
) -> tuple[bytes, bytes]:
    """Ask who has sent the packet with ``nonce``; and what keys and signature will be of.

    ``sequence``: of its record here; 0 if there is none.
    """
    mask = mask or os.urandom(_MASK_BYTES)
    head = _head(CHALLENGE, nonce, (id_nonce or os.urandom(16)) + sequence.to_bytes(8, "big"))
    return mask + _masked(receiver, mask, head), mask + head


def handshake_packet(
    receiver: bytes,
    own_id: bytes,
    key: bytes,
    message: bytes,
    *,
    signature: bytes,
    ephemeral: bytes,
    record: bytes,
    nonce: bytes | None = None,
    mask: bytes | None = None,
) -> bytes:
    """The answer to a challenge, with the message that it held up.  ``record``: empty if the receiver has it."""
    nonce, mask = nonce or os.urandom(_NONCE_BYTES), mask or os.urandom(_MASK_BYTES)
    head = _head(HANDSHAKE, nonce, own_id + b"\x40\x21" + signature + ephemeral + record)
    return mask + _masked(receiver, mask, head) + AESGCM(key).encrypt(nonce, message, mask + head)


def open_message(key: bytes, packet: Packet) -> bytes | None:
    """None if it was not sealed with that key."""
    try:
        return AESGCM(key).decrypt(packet.nonce, packet.body, packet.head)
    except (InvalidTag, ValueError):
        return None


def session_keys(
    secret: PrivateKey, public: PublicKey, initiator: bytes, recipient: bytes, challenge: bytes
) -> tuple[bytes, bytes]:
    """With what the initiator of a session seals, and with what its recipient."""
    material = hmac.digest(challenge, public.multiply(secret.secret).format(), "sha256")
    keys = hmac.digest(material, b"discovery v5 key agreement" + initiator + recipient + b"\1", "sha256")
    return keys[:16], keys[16:]


def id_digest(challenge: bytes, ephemeral: bytes, recipient: bytes) -> bytes:
    """Digest that the initiator signs with its node's key: 32 bytes."""
    return hashlib.sha256(b"discovery v5 identity proof" + challenge + ephemeral + recipient).digest()
