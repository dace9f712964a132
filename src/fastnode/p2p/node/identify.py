"""Identity and protocols of a peer: identify, under this network's names.

Protobuf {1: public key, 2: addresses, 3: protocols, 4: the address seen, 5: protocol version, 6: agent}, behind its
length.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

from fastnode import __version__
from fastnode.errors import PeerFault
from fastnode.kernels import peer_frames
from fastnode.p2p.transport.encoding import protobuf
from fastnode.p2p.transport.identity import Identity

__all__ = ["IDENTIFY", "IDENTIFY_PUSH", "identify_message", "read_identify"]

IDENTIFY: Final = "/aztec/id/1.0.0"
IDENTIFY_PUSH: Final = "/aztec/id/push/1.0.0"

_PROTOCOL_VERSION: Final = "aztec/0.1.0"
_AGENT: Final = f"fastnode/{__version__}"
#: Codes of multiaddr.
_IP4, _IP6, _TCP = 4, 41, 6
_FIELDS_MAX: Final = 500
_TEXT_MAX: Final = 200


def _multiaddr(host: str, port: int) -> bytes:
    address = ipaddress.ip_address(host)
    return bytes([_IP4 if address.version == 4 else _IP6]) + address.packed + bytes([_TCP]) + port.to_bytes(2, "big")


def identify_message(identity: Identity, seen: tuple[str, int], protocols: Iterable[str]) -> bytes:
    """Message of this node about itself, behind its length.  ``seen``: address that the peer has come from."""
    message = protobuf(
        (1, identity.public_key),
        *((3, protocol) for protocol in protocols),
        (4, _multiaddr(*seen)),
        (5, _PROTOCOL_VERSION),
        (6, _AGENT),
    )
    return peer_frames.write_varint(len(message)) + message


def read_identify(data: bytes) -> tuple[frozenset[str], str]:
    """Protocols and agent; PeerFault for what is no such message."""
    try:
        messages, _ = peer_frames.delimited_messages(data, 0, len(data), 1)
        fields = peer_frames.read_fields(messages[0], _FIELDS_MAX) if messages else []
    except ValueError as error:
        raise PeerFault(f"identify: {error}") from error
    protocols = {_text(value) for number, value in fields if number == 3}
    agent = next((_text(value) for number, value in fields if number == 6), "")
    return frozenset(protocols), agent


def _text(value: int | bytes) -> str:
    if not isinstance(value, bytes) or len(value) > _TEXT_MAX:
        return ""
    text = value.decode("utf-8", "replace")
    return text if text.isprintable() else ""
