"""Inputs to judge: the public inputs of a transaction's proof, and the proof, as the verifier program reads them.

    public inputs   1,281 fields (private only) or 2,784 (with public calls), 32 bytes each, big-endian
    proof           1,935 fields: mega 435 | merge 42 | eccvm 608 | ipa 64 | translator 786

The public inputs are the fields that the transaction's hash runs over, in its order (protocol/tx_layout.py).  Not
covered by the proof: calldata and contents of class logs, which `data` holds the hashes of, and whether the tree of
verification keys and the protocol contracts that `data` names are the network's.  Validation looks at these first.
"""

from __future__ import annotations

import enum
import hashlib
from typing import Final, Self

from fastnode.protocol import tx_layout as layout
from fastnode.protocol.fields import FIELD_BYTES, ZERO_FIELD, first_non_canonical
from fastnode.protocol.tx import PROOF_BYTES, Tx
from fastnode.records import dataclass

__all__ = ["INPUT_FIELDS", "PART_FIELDS", "Circuit", "Statement"]


class Circuit(enum.Enum):
    """The last circuit that a wallet proves.  Each has a verification key; nothing else of a transaction chooses it."""

    TO_ROLLUP = "to rollup"
    TO_PUBLIC = "to public"


INPUT_FIELDS: Final = {Circuit.TO_ROLLUP: layout.PRIVATE_HASH_FIELDS, Circuit.TO_PUBLIC: layout.PUBLIC_HASH_FIELDS}
#: The parts of a proof in their order, in fields.
PART_FIELDS: Final = {"mega": 435, "merge": 42, "eccvm": 608, "ipa": 64, "translator": 786}

assert sum(PART_FIELDS.values()) * FIELD_BYTES == PROOF_BYTES


@dataclass(frozen=True, slots=True)
class Statement:
    """A proof with what it claims: joined fields of 32 bytes each."""

    circuit: Circuit
    inputs: bytes
    proof: bytes

    @classmethod
    def of_tx(cls, tx: Tx) -> Self:
        public = tx.data.is_public
        plan = layout.PUBLIC_PLAN if public else layout.PRIVATE_PLAN
        # The plan is the hash's: the fields come after a separator.
        inputs = plan.run(tx.data.buffer, ZERO_FIELD)[FIELD_BYTES:]
        return cls(Circuit.TO_PUBLIC if public else Circuit.TO_ROLLUP, inputs, tx.proof)

    @property
    def digest(self) -> bytes:
        """A digest of circuit, inputs and proof, 32 bytes.  The circuit follows from the length."""
        return hashlib.sha256(self.inputs + self.proof).digest()

    def flaw(self) -> str | None:
        """The reason why it is no statement at all, or None.

        The verifier program reduces what is not below the modulus, so the same proof would have several spellings.
        """
        expected = INPUT_FIELDS[self.circuit] * FIELD_BYTES
        if len(self.inputs) != expected:
            return f"{len(self.inputs)} bytes of public inputs, expected {expected}"
        if len(self.proof) != PROOF_BYTES:
            return f"{len(self.proof)} bytes of proof, expected {PROOF_BYTES}"
        position = first_non_canonical(self.inputs)
        if position is not None:
            return f"public input {position} is not below the field modulus"
        position = first_non_canonical(self.proof)
        return None if position is None else f"field {position} of the proof is not below the field modulus"
