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
from typing import Final, Self

from fastnode.protocol import tx_layout as layout
from fastnode.protocol.compressed_proofs import decompressed
from fastnode.protocol.fields import FIELD_BYTES, ZERO_FIELD, first_non_canonical
from fastnode.protocol.releases import Release
from fastnode.protocol.tx import Tx
from fastnode.records import dataclass

__all__ = ["INPUT_FIELDS", "Circuit", "Statement"]


class Circuit(enum.Enum):
    """The last circuit that a wallet proves.  Each has a verification key; nothing else of a transaction chooses it."""

    TO_ROLLUP = "to rollup"
    TO_PUBLIC = "to public"


INPUT_FIELDS: Final = {Circuit.TO_ROLLUP: layout.PRIVATE_HASH_FIELDS, Circuit.TO_PUBLIC: layout.PUBLIC_HASH_FIELDS}


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
        plan = layout.PUBLIC_PLAN if public else layout.PRIVATE_PLAN
        # The plan is the hash's: the fields come after a separator.
        inputs = plan.run(tx.data.buffer, ZERO_FIELD)[FIELD_BYTES:]
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

    def flaw(self, proof_fields: int) -> str | None:
        """The reason why it is no statement at all, or None.  ``proof_fields``: of a proof of the release.

        The verifier program reduces what is not below the modulus, so the same proof would have several spellings.
        """
        expected = INPUT_FIELDS[self.circuit] * FIELD_BYTES
        if len(self.inputs) != expected:
            return f"{len(self.inputs)} bytes of public inputs, expected {expected}"
        expected = proof_fields * FIELD_BYTES
        if len(self.proof) != expected and not self.is_compressed:
            return f"{len(self.proof)} bytes of proof, expected {expected}"
        position = first_non_canonical(self.inputs)
        if position is not None:
            return f"public input {position} is not below the field modulus"
        position = None if self.is_compressed else first_non_canonical(self.proof)
        return None if position is None else f"field {position} of the proof is not below the field modulus"
