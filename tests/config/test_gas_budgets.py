"""What one block of a checkpoint may use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.config.gas_budgets import CHECKPOINT_DA_GAS_MAX, BlockBudget, block_gas, blocks_per_checkpoint_max
from fastnode.config.settings import Settings

MANA_LIMIT = 200_000_000


def budget(**settings: object) -> BlockBudget:
    return BlockBudget.of(
        Settings(**settings),  # type: ignore[arg-type]
        slot_duration_s=36,
        l1_slot_duration_s=4,
        mana_limit=MANA_LIMIT,
    )


def test_a_block_that_takes_the_whole_slot_may_use_the_whole_checkpoint() -> None:
    assert budget() == BlockBudget(blocks_max=1, l2_gas=MANA_LIMIT, da_gas=CHECKPOINT_DA_GAS_MAX)


def test_the_recorded_network_has_six_blocks_that_may_each_use_everything() -> None:
    """Slots of 36 s, blocks of 2.5 s, 16 s for publishing, multiplier 6."""
    found = budget(block_duration_ms=2500, l1_publishing_time=16, per_block_allocation_multiplier=6)
    assert found == BlockBudget(blocks_max=6, l2_gas=MANA_LIMIT, da_gas=CHECKPOINT_DA_GAS_MAX)


def test_by_default_a_block_may_use_two_even_shares() -> None:
    found = budget(block_duration_ms=2500, l1_publishing_time=16)
    assert (found.l2_gas, found.da_gas) == (66_666_667, 262_144)


def test_an_explicit_value_is_capped_at_the_checkpoints_limit() -> None:
    found = budget(max_l2_block_gas=1000, max_da_block_gas=10**9)
    assert (found.l2_gas, found.da_gas) == (1000, CHECKPOINT_DA_GAS_MAX)


def test_the_limits_of_validators_change_nothing_of_it() -> None:
    assert budget(validate_max_l2_block_gas=1, validate_max_da_block_gas=1) == budget()


@pytest.mark.parametrize(
    ("slot", "l1_slot", "block_ms", "publishing", "count"),
    [
        (36, 4, None, None, 1),
        (36, 4, 2500, 16, 6),
        (72, 12, 6000, None, 8),  # (72 - 1 - 6 - (1 + 4 + 12)) / 6
        (36, 12, 36_000, None, 1),  # too long: still one
        (36, 12, 1_000_000, None, 1),
    ],
)
def test_as_many_blocks_fit_as_the_rest_of_the_slot_leaves_time_for(
    slot: int, l1_slot: int, block_ms: int | None, publishing: int | None, count: int
) -> None:
    found = blocks_per_checkpoint_max(
        slot_duration_s=slot, l1_slot_duration_s=l1_slot, block_duration_ms=block_ms, publishing_time_s=publishing
    )
    assert found == count


@given(
    limit=st.integers(1, 10**12),
    blocks=st.integers(1, 72),
    tenths=st.integers(1, 100),
    explicit=st.none() | st.integers(0, 10**13),
)
def test_a_budget_is_exact_and_never_above_the_checkpoint(
    limit: int, blocks: int, tenths: int, explicit: int | None
) -> None:
    found = block_gas(limit, blocks_max=blocks, multiplier=tenths / 10, explicit=explicit)
    if explicit is not None:
        assert found == min(explicit, limit)
    else:
        assert found == min(limit, -(-limit * tenths // (blocks * 10)))
    assert found <= limit
