"""The verification keys of a release, and what ties them to a network.

A key is 127 fields: log size, number of public inputs, offset, and 31 commitments of 4 fields.  Its hash is a leaf of
the network's tree of verification keys, which has height 7 and Poseidon2 pairs; every transaction names the root, and
so does the network.  The two keys are neighbours in the tree, so nine hashes lead from both of them to the root::

    root <- 6 siblings <- pair(hash(to rollup), hash(to public))

data/proof_keys_RELEASE.json holds ``toRollup`` and ``toPublic`` (leaf index, key in base64), ``siblings`` from the
leaves' parent up, and ``vkTreeRoot``.
"""

from __future__ import annotations

import base64
import json
from importlib import resources
from typing import Any, Final, Self

from fastnode.kernels import poseidon2
from fastnode.proofs.inputs import INPUT_FIELDS, Circuit
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.records import dataclass

__all__ = ["KEY_BYTES", "RELEASE", "VerificationKeys"]

#: The release whose keys come with the package; the verifier program must be of the same one.
RELEASE: Final = "4.1.2"

KEY_FIELDS: Final = 127
KEY_BYTES: Final = KEY_FIELDS * FIELD_BYTES
#: Public inputs that circuits add to those of the transaction.
_OWN_INPUTS: Final = 28


@dataclass(frozen=True, slots=True)
class VerificationKeys:
    """The keys of one release: one for each circuit, and the root of the tree that holds them."""

    release: str
    to_rollup: bytes
    to_public: bytes
    tree_root: bytes

    def of(self, circuit: Circuit) -> bytes:
        return self.to_public if circuit is Circuit.TO_PUBLIC else self.to_rollup

    @classmethod
    def shipped(cls) -> Self:
        """Those of :data:`RELEASE`.  ValueError if the file does not lead to the root that it names: it is damaged."""
        text = resources.files("fastnode").joinpath("data", f"proof_keys_{RELEASE}.json").read_bytes()
        return cls.from_record(json.loads(text))

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """From the content of a file of keys; ValueError says what is wrong."""
        to_rollup = _key(record["toRollup"], Circuit.TO_ROLLUP)
        to_public = _key(record["toPublic"], Circuit.TO_PUBLIC)
        index = record["toRollup"]["index"]
        if index % 2 or record["toPublic"]["index"] != index + 1:
            raise ValueError("the two keys are no neighbours in the tree of verification keys")
        node = poseidon2.hash_pair(poseidon2.hash_fields(to_rollup), poseidon2.hash_fields(to_public))
        root = _root_above(node, index // 2, [bytes.fromhex(text[2:]) for text in record["siblings"]])
        if root.hex() != record["vkTreeRoot"][2:]:
            raise ValueError(f"the keys lead to the root 0x{root.hex()}, not to {record['vkTreeRoot']}")
        return cls(record["release"], to_rollup, to_public, root)


def _key(record: dict[str, Any], circuit: Circuit) -> bytes:
    key = base64.b64decode(record["key"], validate=True)
    if len(key) != KEY_BYTES:
        raise ValueError(f"the key {circuit.value} has {len(key)} bytes, expected {KEY_BYTES}")
    inputs = int.from_bytes(key[FIELD_BYTES : 2 * FIELD_BYTES], "big")
    if inputs != INPUT_FIELDS[circuit] + _OWN_INPUTS:
        raise ValueError(f"the key {circuit.value} is for {inputs} public inputs")
    return key


def _root_above(node: bytes, index: int, siblings: list[bytes]) -> bytes:
    for sibling in siblings:
        node = poseidon2.hash_pair(sibling, node) if index % 2 else poseidon2.hash_pair(node, sibling)
        index //= 2
    return node
