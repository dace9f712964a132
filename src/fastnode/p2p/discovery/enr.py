"""Node records (EIP-778) of this network: who a node is and where.

record   RLP list: signature 64 | sequence number | key, value, key, value, ..   keys in order, at most 300 bytes
text     ``enr:`` and the record in base64 for URLs, without padding
keys     aztec (V), id (v4), ip, secp256k1, tcp, udp, ver (the client's version)
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from typing import Final, Self

from coincurve import PublicKey

from fastnode.p2p.transport.encoding import protobuf
from fastnode.p2p.transport.identity import Identity, peer_id_of, verify_compact
from fastnode.protocol import rlp
from fastnode.protocol.ethereum import keccak_256
from fastnode.records import dataclass

__all__ = ["RECORD_BYTES_MAX", "NodeRecord", "make_record", "node_id_of"]

RECORD_BYTES_MAX: Final = 300
_PREFIX: Final = "enr:"
_ITEMS_MAX: Final = 64
_SECP256K1: Final = 2


def node_id_of(key: PublicKey) -> bytes:
    """32 bytes: the place of a node in discovery."""
    return keccak_256(key.format(compressed=False)[1:])


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A record whose signature is right."""

    raw: bytes
    sequence: int
    values: dict[str, bytes]
    key: PublicKey

    @classmethod
    def from_bytes(cls, raw: bytes) -> Self:
        """ValueError, with what is wrong, for anything that is no signed record."""
        if len(raw) > RECORD_BYTES_MAX:
            raise ValueError(f"a node record of {len(raw)} bytes, at most {RECORD_BYTES_MAX} are allowed")
        items = rlp.decode(raw, items_max=_ITEMS_MAX, depth_max=2)
        if not isinstance(items, list) or len(items) < 2 or len(items) % 2:
            raise ValueError("no node record")
        flat = [item for item in items[:2] if isinstance(item, bytes)]
        names = [name.decode("ascii", "replace") for name in items[2::2] if isinstance(name, bytes)]
        if len(flat) != 2 or len(names) != len(items) // 2 - 1 or names != sorted(set(names)):
            raise ValueError("no node record")
        values = {name: value for name, value in zip(names, items[3::2], strict=True) if isinstance(value, bytes)}
        if values.get("id") != b"v4" or len(values.get("secp256k1", b"")) != 33:
            raise ValueError("a node record without the identity scheme v4")
        key = PublicKey(values["secp256k1"])
        if not verify_compact(key, flat[0], keccak_256(_content(raw, flat[0]))):
            raise ValueError("the signature of a node record is wrong")
        return cls(raw, int.from_bytes(flat[1], "big"), values, key)

    @classmethod
    def from_text(cls, text: str) -> Self:
        if not text.startswith(_PREFIX):
            raise ValueError("a node record begins with enr:")
        body = text[len(_PREFIX) :]
        try:
            raw = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"a node record that is no base64: {error}") from None
        return cls.from_bytes(raw)

    def to_text(self) -> str:
        return _PREFIX + base64.urlsafe_b64encode(self.raw).decode("ascii").rstrip("=")

    @property
    def node_id(self) -> bytes:
        return node_id_of(self.key)

    @property
    def peer_id(self) -> str:
        return peer_id_of(protobuf((1, _SECP256K1), (2, self.values["secp256k1"])))

    @property
    def version(self) -> str | None:
        """V of its network; None if it says none."""
        found = self.values.get("aztec")
        return None if found is None else found.decode("ascii", "replace")

    @property
    def ip(self) -> str | None:
        found = self.values.get("ip", b"")
        return str(ipaddress.IPv4Address(found)) if len(found) == 4 else None

    def port(self, name: str) -> int | None:
        """``tcp`` or ``udp``; None if it says none."""
        found = self.values.get(name, b"")
        port = int.from_bytes(found, "big")
        return port if 0 < len(found) <= 2 and port else None


def _content(raw: bytes, signature: bytes) -> bytes:
    """Signed part of a record: the list without its first item, which stands behind the list's head."""
    head = 1 if raw[0] <= 0xF7 else 1 + raw[0] - 0xF7
    body = raw[head + len(rlp.encode(signature)) :]
    return _list_of(body)


def _list_of(body: bytes) -> bytes:
    if len(body) < 56:
        return bytes([0xC0 + len(body)]) + body
    size = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes([0xF7 + len(size)]) + size + body


def make_record(
    identity: Identity, version: str, *, sequence: int, ip: str | None, port: int | None, client: str
) -> NodeRecord:
    """A signed record.  ``ip`` None: it does not say where the node is.  ``client``: version of the release."""
    values: dict[str, rlp.Value] = {
        "aztec": version,
        "id": "v4",
        "secp256k1": identity.compressed,
        "ver": client,
    }
    if ip is not None and port is not None:
        values |= {"ip": ipaddress.IPv4Address(ip).packed, "tcp": port, "udp": port}
    content: list[rlp.Value] = [sequence]
    for name in sorted(values):
        content += [name, values[name]]
    signature = identity.sign_digest_compact(keccak_256(rlp.encode(content)))
    return NodeRecord.from_bytes(rlp.encode([signature, *content]))
