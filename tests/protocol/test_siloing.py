"""Siloing, slots and secrets, against values of the reference node."""

from __future__ import annotations

from typing import Any

from fastnode.protocol import siloing
from fastnode.protocol.fields import hex_text
from fastnode.protocol.releases import FOUR


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:])


def test_every_siloed_value_is_that_of_the_reference(misc_vectors: dict[str, Any]) -> None:
    for vector in misc_vectors["silo"]:
        contract, value, nonce = (_bytes(vector[key]) for key in ("contract", "value", "nonce"))
        found = {
            "siloNoteHash": siloing.silo_note_hash(contract, value),
            "siloNullifier": siloing.silo_nullifier(contract, value),
            "noteHashNonce": siloing.note_hash_nonce(nonce, vector["index"]),
            "uniqueNoteHash": siloing.unique_note_hash(nonce, value),
            "publicDataLeafSlot": siloing.public_leaf_slot(contract, value),
            "mapSlot": siloing.storage_map_slot(nonce, contract),
            "siloedPrivateLogTag": siloing.silo_private_log_tag(contract, value),
            "secretHash": siloing.secret_hash(value),
        }
        assert {name: hex_text(field) for name, field in found.items()} == {name: vector[name] for name in found}


def test_fee_juice_balances_lie_where_the_reference_keeps_them(misc_vectors: dict[str, Any]) -> None:
    for vector in misc_vectors["feeJuice"]:
        assert (
            hex_text(siloing.fee_juice_balance_leaf_slot(_bytes(vector["feePayer"]), FOUR.addresses.fee_juice))
            == vector["leafSlot"]
        )
    live = misc_vectors["genesisLive"]
    slots = {
        hex_text(siloing.fee_juice_balance_leaf_slot(_bytes(owner), FOUR.addresses.fee_juice))
        for owner in live["addresses"].values()
    }
    assert slots == {leaf["slot"] for leaf in live["prefilled"]}
