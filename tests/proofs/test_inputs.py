"""Inputs that the verifier program gets of a transaction."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.proofs.programs import VECTORS, statement, vector

from fastnode.proofs.inputs import Circuit, input_fields
from fastnode.protocol.fields import MODULUS, field_from_int
from fastnode.protocol.releases import FOUR


def test_the_kind_of_transaction_chooses_the_circuit() -> None:
    assert [statement(name).circuit for name in VECTORS] == [Circuit.TO_ROLLUP, Circuit.TO_PUBLIC, Circuit.TO_PUBLIC]


@pytest.mark.parametrize("name", VECTORS)
def test_the_inputs_are_the_fields_of_the_hash_and_end_with_the_expiration(name: str) -> None:
    tx, made = vector(name), statement(name)
    assert len(made.inputs) == input_fields(made.circuit, FOUR) * 32
    assert made.inputs[22 * 32 : 23 * 32] == field_from_int(tx.data.chain_id)
    assert made.inputs[32 * 32 : 33 * 32] == tx.data.vk_tree_root
    assert made.inputs[-64:-32] == tx.data.fee_payer
    assert made.inputs[-32:] == field_from_int(tx.data.expiration_timestamp)
    assert len(made.proof) == FOUR.proof_fields * 32
    assert made.flaw(FOUR) is None


def test_every_field_has_one_spelling() -> None:
    made = statement("private")
    first = int.from_bytes(made.proof[:32], "big")
    again = (first + MODULUS).to_bytes(32, "big")
    assert (
        replace(made, proof=again + made.proof[32:]).flaw(FOUR) == "field 0 of the proof is not below the field modulus"
    )
    raised = made.inputs[:-32] + MODULUS.to_bytes(32, "big")
    assert replace(made, inputs=raised).flaw(FOUR) == "public input 1280 is not below the field modulus"


def test_wrong_lengths_are_named() -> None:
    made = statement("private")
    assert replace(made, proof=made.proof[:-32]).flaw(FOUR) == "61888 bytes of proof, expected 61920"
    assert replace(made, inputs=made.inputs[32:]).flaw(FOUR) == "40960 bytes of public inputs, expected 40992"
    assert replace(made, circuit=Circuit.TO_PUBLIC).flaw(FOUR) == "40992 bytes of public inputs, expected 89088"


def test_another_bit_is_another_statement() -> None:
    made = statement("private")
    assert replace(made, proof=made.proof[:-1] + b"\0").digest != made.digest
    assert statement("private").digest == made.digest
