"""The verification keys of a release, and what ties them to a network.

A key is 127 fields (115 in 5.x): log size, number of public inputs, offset, and 31 (28) commitments of 4 fields.  Its
hash is a leaf of the network's tree of verification keys, which has height 7; every transaction names the root, and so
does the network.  The two keys are neighbours in the tree, so nine hashes lead from both of them to the root::

    root <- 6 siblings <- pair(hash(to rollup), hash(to public))

The record of a release (data/releases) holds ``toRollup`` and ``toPublic`` (leaf index, key in base64), their
``siblings``, the lowest first from the leaves' parent on, and ``vkTreeRoot``.
"""

from __future__ import annotations

import base64
from typing import Final, Self

from fastnode.kernels import poseidon2
from fastnode.proofs.inputs import Circuit, input_fields
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.protocol.releases import Release
from fastnode.records import dataclass

__all__ = ["VerificationKeys"]

#: Public inputs that circuits add to those of the transaction.
_OWN_INPUTS: Final = 28


@dataclass(frozen=True, slots=True)
class VerificationKeys:
    """The keys of one release: one for each circuit, and the root of the tree that holds them.

    ``programs``: versions of the verifier program that judge by them.
    """

    release: str
    programs: tuple[str, ...]
    to_rollup: bytes
    to_public: bytes
    tree_root: bytes

    def of(self, circuit: Circuit) -> bytes:
        return self.to_public if circuit is Circuit.TO_PUBLIC else self.to_rollup

    @classmethod
    def of_release(cls, release: Release) -> Self:
        """ValueError if they do not lead to the root that the record names: it is damaged."""
        record, separator = release.circuits, release.separators.node
        if "toRollup" not in record:
            raise ValueError(f"the record of release {release.name} has no verification keys: no proof can be judged")
        to_rollup = _key(release, "toRollup", Circuit.TO_ROLLUP)
        to_public = _key(release, "toPublic", Circuit.TO_PUBLIC)
        index = record["toRollup"]["index"]
        if index % 2 or record["toPublic"]["index"] != index + 1:
            raise ValueError("the two keys are no neighbours in the tree of verification keys")
        node = poseidon2.hash_fields(separator + poseidon2.hash_fields(to_rollup) + poseidon2.hash_fields(to_public))
        siblings = [bytes.fromhex(text[2:]) for text in record["siblings"]]
        root = _root_above(node, index // 2, siblings, separator)
        if root != release.vk_tree_root:
            raise ValueError(f"the keys lead to the root 0x{root.hex()}, not to 0x{release.vk_tree_root.hex()}")
        return cls(release.name, tuple(release.verifiers), to_rollup, to_public, root)


def _key(release: Release, name: str, circuit: Circuit) -> bytes:
    record = release.circuits
    key, expected = base64.b64decode(record[name]["key"], validate=True), record["keyFields"] * FIELD_BYTES
    if len(key) != expected:
        raise ValueError(f"the key {circuit.value} has {len(key)} bytes, expected {expected}")
    inputs = int.from_bytes(key[FIELD_BYTES : 2 * FIELD_BYTES], "big")
    if inputs != input_fields(circuit, release) + _OWN_INPUTS:
        raise ValueError(f"the key {circuit.value} is for {inputs} public inputs")
    return key


def _root_above(node: bytes, index: int, siblings: list[bytes], separator: bytes) -> bytes:
    for sibling in siblings:
        node = poseidon2.hash_fields(separator + (sibling + node if index % 2 else node + sibling))
        index //= 2
    return node
