"""Inputs to judge: the public inputs of a transaction's proof, and the proof, as the verifier program reads them.

    public inputs   1,281 fields (private only) or 2,784 (with public calls), 32 bytes each, big-endian
    proof           as many fields as the release has: 1,935 in 4.x

The public inputs are the fields that the transaction's hash runs over, in its order (protocol/tx_layout.py).  Not
covered by the proof: calldata and contents of class logs, which `data` holds the hashes of, and whether the tree of
verification keys and the protocol contracts that `data` names are the network's.  Validation looks at these first.
"""

from __future__ import annotations

import enum
import hashlib
from typing import Self

from fastnode.protocol.compressed_proofs import decompressed
from fastnode.protocol.fields import FIELD_BYTES, ZERO_FIELD, first_non_canonical
from fastnode.protocol.releases import Release
from fastnode.protocol.tx import Tx
from fastnode.records import dataclass

__all__ = ["Circuit", "Statement", "input_fields"]


class Circuit(enum.Enum):
    """The last circuit that a wallet proves.  Each has a verification key; nothing else of a transaction chooses it."""

    TO_ROLLUP = "to rollup"
    TO_PUBLIC = "to public"


def input_fields(circuit: Circuit, release: Release) -> int:
    """Number of the public inputs of a circuit."""
    layout = release.tx_layout
    return layout.public_hash_fields if circuit is Circuit.TO_PUBLIC else layout.private_hash_fields


@dataclass(frozen=True, slots=True)
class Statement:
    """A proof with what it claims: joined fields of 32 bytes each.  ``is_compressed``: the proof is not fields yet."""

    circuit: Circuit
    inputs: bytes
    proof: bytes
    is_compressed: bool = False

    @classmethod
    def of_tx(cls, tx: Tx) -> Self:
        public = tx.data.is_public
        # The plan is the hash's: the fields come after a separator.
        inputs = tx.data.layout.plan(public=public).run(tx.data.buffer, ZERO_FIELD)[FIELD_BYTES:]
        circuit = Circuit.TO_PUBLIC if public else Circuit.TO_ROLLUP
        return cls(circuit, inputs, tx.proof or tx.compressed_proof, bool(tx.compressed_proof))

    def whole(self, release: Release) -> Statement:
        """The same with the fields of its proof.  DecodeError where those cannot be worked out."""
        if not self.is_compressed:
            return self
        return Statement(self.circuit, self.inputs, decompressed(self.proof, release))

    @property
    def digest(self) -> bytes:
        """A digest of circuit, inputs and proof, 32 bytes.  The circuit follows from the length; the same bytes are
        two proofs, as they are and compressed."""
        return hashlib.sha256(self.inputs + self.proof + (b"compressed" if self.is_compressed else b"")).digest()

    def flaw(self, release: Release) -> str | None:
        """The reason why it is no statement of the release at all, or None.

        The verifier program reduces what is not below the modulus, so the same proof would have several spellings.
        """
        expected = input_fields(self.circuit, release) * FIELD_BYTES
        if len(self.inputs) != expected:
            return f"{len(self.inputs)} bytes of public inputs, expected {expected}"
        expected = release.proof_fields * FIELD_BYTES
        if len(self.proof) != expected and not self.is_compressed:
            return f"{len(self.proof)} bytes of proof, expected {expected}"
        position = first_non_canonical(self.inputs)
        if position is not None:
            return f"public input {position} is not below the field modulus"
        position = None if self.is_compressed else first_non_canonical(self.proof)
        return None if position is None else f"field {position} of the proof is not below the field modulus"
