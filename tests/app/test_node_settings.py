"""What the start says of the settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fastnode.app.node_settings import log_block_budget
from fastnode.config.settings import Settings
from fastnode.sequencing.options import SequencerOptions

CHAIN: Any = SimpleNamespace(
    slot_duration=24,
    l1_chain_id=31337,
    l1_constants={"slotDuration": 24, "ethereumSlotDuration": 4, "rollupManaLimit": 200_000_000},
)


@pytest.mark.parametrize("allowance_s", [None, 4, 12])
def test_a_sequencer_says_the_budget_that_its_blocks_are_built_by(
    caplog: pytest.LogCaptureFixture, allowance_s: int | None
) -> None:
    caplog.set_level("INFO")
    settings = Settings(sequencer=True, block_duration_ms=4000, l1_publishing_time=allowance_s)
    log_block_budget(settings, CHAIN)
    limits = SequencerOptions.of(settings, CHAIN).limits
    [said] = [record.facts for record in caplog.records if record.message == "budget of a block"]  # type: ignore[attr-defined]
    gas = limits.block_gas
    assert said == {"l2_gas": gas.l2_gas, "da_gas": gas.da_gas, "blocks_max": limits.blocks_per_checkpoint}
