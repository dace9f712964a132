"""Witnesses, as values and as the JSON that clients get.

A sibling path is a run of 32-byte nodes, lowest sibling first.  In JSON it is base64 of

    u32 node count | nodes              sibling path: nullifier, public data, L1 to L2 message
    leaf index, 32 bytes BE | nodes     membership witness: note hash, archive
"""

from __future__ import annotations

from fastnode.kernels import encode
from fastnode.records import dataclass

__all__ = [
    "IndexedWitness",
    "Witness",
    "nullifier_json",
    "public_data_json",
]

NODE_BYTES = 32


@dataclass(slots=True)
class Witness:
    """A leaf of an append-only tree and its sibling path."""

    index: int
    path: bytes


@dataclass(slots=True)
class IndexedWitness:
    """A leaf of an indexed tree and its sibling path; ``value`` is empty in the nullifier tree."""

    index: int
    key: bytes
    value: bytes
    next_key: bytes
    next_index: int
    path: bytes


def _path_base64(path: bytes) -> bytes:
    return encode.to_base64((len(path) // NODE_BYTES).to_bytes(4, "big") + path)


def nullifier_json(witness: IndexedWitness) -> bytes:
    """NullifierMembershipWitness"""
    to_hex = encode.to_hex
    return (
        b'{"index":"%d","leafPreimage":{"leaf":{"nullifier":"%b"},"nextKey":"%b","nextIndex":"%d"},"siblingPath":"%b"}'
        % (
            witness.index,
            to_hex(witness.key),
            to_hex(witness.next_key),
            witness.next_index,
            _path_base64(witness.path),
        )
    )


def public_data_json(witness: IndexedWitness) -> bytes:
    """PublicDataWitness"""
    to_hex = encode.to_hex
    return (
        b'{"index":"%d","leafPreimage":{"leaf":{"slot":"%b","value":"%b"},"nextKey":"%b","nextIndex":"%d"},'
        b'"siblingPath":"%b"}'
    ) % (
        witness.index,
        to_hex(witness.key),
        to_hex(witness.value),
        to_hex(witness.next_key),
        witness.next_index,
        _path_base64(witness.path),
    )
