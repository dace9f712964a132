"""Topics of gossip: the four of a network, how a message is packed, and its id.

topic     /aztec/NAME/V
V         00-L1 chain id-8 hex digits of the rollup's address-rollup version-8 of the protocol contracts' hash-8 of
          the root of the verification keys
data      raw snappy of: u32 length | payload
id        first 20 bytes of SHA-256 over the topic and the uncompressed data; from release 5.x on over the length of
          the topic as u32, the topic and the uncompressed data
"""

from __future__ import annotations

import hashlib
from enum import Enum
from typing import Final

from fastnode.errors import DecodeError
from fastnode.p2p.transport.encoding import compress, decompress

__all__ = ["Topic", "decompressed", "message_id", "network_version", "pack", "topic_name", "unpack"]

ID_BYTES: Final = 20
_LENGTH_BYTES: Final = 4
_KIB: Final = 1024


class Topic(Enum):
    TX = "tx"
    BLOCK_PROPOSAL = "block_proposal"
    CHECKPOINT_PROPOSAL = "checkpoint_proposal"
    CHECKPOINT_ATTESTATION = "checkpoint_attestation"

    @property
    def bytes_max(self) -> int:
        """Limit of the uncompressed data."""
        return _BYTES_MAX[self]


_BYTES_MAX: Final = {
    Topic.TX: 512 * _KIB,
    Topic.BLOCK_PROPOSAL: 10 * _KIB * _KIB,
    Topic.CHECKPOINT_PROPOSAL: 10 * _KIB * _KIB,
    Topic.CHECKPOINT_ATTESTATION: 5 * _KIB,
}


def network_version(
    l1_chain_id: int, rollup_address: str, rollup_version: int, protocol_contracts_hash: bytes, vk_tree_root: bytes
) -> str:
    """V: what peers must have in common.  ``rollup_address``: 0x and 40 digits; hashes are 32 bytes."""
    return "-".join(
        (
            "00",
            str(l1_chain_id),
            rollup_address.lower().removeprefix("0x")[:8],
            str(rollup_version),
            protocol_contracts_hash.hex()[:8],
            vk_tree_root.hex()[:8],
        )
    )


def topic_name(topic: Topic, version: str) -> str:
    return f"/aztec/{topic.value}/{version}"


def message_id(name: str, data: bytes, *, frames_topic: bool = False) -> bytes:
    """``data``: uncompressed.  ``frames_topic``: whether the length of the topic goes before it."""
    topic = name.encode()
    head = len(topic).to_bytes(_LENGTH_BYTES, "big") if frames_topic else b""
    return hashlib.sha256(head + topic + data).digest()[:ID_BYTES]


def pack(payload: bytes) -> tuple[bytes, bytes]:
    """The uncompressed data of a message, and what is sent of it."""
    data = len(payload).to_bytes(_LENGTH_BYTES, "big") + payload
    return data, compress(data)


def decompressed(topic: Topic, sent: bytes) -> bytes:
    """The uncompressed data; PeerFault if it is no snappy or too much."""
    return decompress(sent, topic.bytes_max)


def unpack(data: bytes) -> bytes:
    """The payload of uncompressed data, whatever is behind it; DecodeError if it is shorter than it says."""
    size = int.from_bytes(data[:_LENGTH_BYTES], "big")
    if len(data) < _LENGTH_BYTES or size > len(data) - _LENGTH_BYTES:
        raise DecodeError(f"a message says that it has {size} bytes, and has {len(data) - _LENGTH_BYTES}")
    return data[_LENGTH_BYTES : _LENGTH_BYTES + size]
