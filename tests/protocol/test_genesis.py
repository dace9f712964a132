"""Block 0 and the state under it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.protocol.fields import MODULUS, ZERO_FIELD, field_from_int, hex_text, int_from_field
from fastnode.protocol.genesis import (
    GENESIS_BLOCK_HEADER_HASH,
    PrefilledPublicData,
    genesis_header,
    genesis_public_data,
    genesis_tips,
)
from fastnode.protocol.header import BlockHeader, StateReference

NAMES = ["empty", "threeAccounts", "custom"]


def _state(vector: dict[str, Any]) -> StateReference:
    return StateReference.from_json(vector["header"]["state"])


@pytest.mark.parametrize("name", NAMES)
def test_a_genesis_header_is_zero_but_for_its_state(misc_vectors: dict[str, Any], name: str) -> None:
    vector = misc_vectors["genesis"][name]
    header = genesis_header(_state(vector))
    assert header == BlockHeader.from_json(vector["header"])
    assert hex_text(header.to_buffer()) == vector["headerBuffer"]
    assert [f"0x{header.to_fields()[i : i + 32].hex()}" for i in range(0, 22 * 32, 32)] == vector["headerFields"]
    assert hex_text(header.hash()) == vector["hash"]


def test_the_constant_hash_is_that_of_the_genesis_without_prefilled_data(misc_vectors: dict[str, Any]) -> None:
    vector = misc_vectors["genesis"]["empty"]
    assert genesis_header(_state(vector)).hash() == GENESIS_BLOCK_HEADER_HASH


@pytest.mark.parametrize("name", NAMES)
def test_genesis_leaves_stand_where_the_reference_puts_them(misc_vectors: dict[str, Any], name: str) -> None:
    vector = misc_vectors["genesis"][name]
    leaves = genesis_public_data([PrefilledPublicData.from_json(leaf) for leaf in vector["prefilled"]])
    assert len(leaves) == 128
    for leaf in vector["publicDataLeaves"]:
        slot, value = leaves[leaf["index"]]
        assert (hex_text(slot), hex_text(value)) == (leaf["slot"], leaf["value"])


@given(st.sets(st.integers(128, MODULUS - 1), max_size=30), st.randoms())
def test_prefilled_slots_come_last_and_ascending_in_any_order_of_input(slots: set[int], random: Any) -> None:
    shuffled = list(slots)
    random.shuffle(shuffled)
    leaves = genesis_public_data([PrefilledPublicData(field_from_int(s), field_from_int(s % 97)) for s in shuffled])
    filling = 128 - len(slots)
    assert [int_from_field(slot) for slot, _ in leaves] == [*range(filling), *sorted(slots)]
    assert all(value == ZERO_FIELD for _, value in leaves[:filling])


@pytest.mark.parametrize(
    ("slots", "reason"),
    [
        ([5, 500], "repeat or lie among the filling"),
        ([500, 500], "repeat or lie among the filling"),
        (list(range(1000, 1128)), "128 prefilled slots, at most 127 allowed"),
    ],
)
def test_prefilled_slots_that_do_not_fit_are_refused(slots: list[int], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        genesis_public_data([PrefilledPublicData(field_from_int(slot), ZERO_FIELD) for slot in slots])


def test_a_prefilled_leaf_survives_json(misc_vectors: dict[str, Any]) -> None:
    for leaf in misc_vectors["genesisLive"]["prefilled"]:
        assert PrefilledPublicData.from_json(leaf).to_json() == leaf


def test_the_tips_of_an_empty_chain_name_block_0() -> None:
    # Not this network's own genesis hash: the reference names the one without prefilled data everywhere.
    tips = genesis_tips().to_json()
    assert tips["proposed"] == {"number": 0, "hash": hex_text(GENESIS_BLOCK_HEADER_HASH)}
    assert tips["checkpointed"] == tips["proven"] == tips["finalized"]
    assert tips["proven"]["checkpoint"]["hash"] == "0x007802c95d2f1ade746d97350a18ddbfdb9f5bee2803436917a3cf3d6a685a3a"
