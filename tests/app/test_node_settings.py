"""What the start says of the settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fastnode.app.ground.node_settings import log_block_budget, log_history
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


FASTER = "--world-state-history-from sync, without the state at blocks that are final by now"
ALL = "all blocks from there on"


@pytest.mark.parametrize(
    ("settings", "oldest", "tip", "said"),
    [
        (Settings(upstream_url=("http://node:8080",)), 0, 0, {"oldest_block": 0, "kept": ALL, "faster": FASTER}),
        (Settings(local_network=True), 0, 0, {"oldest_block": 0, "kept": ALL}),
        (Settings(), 0, 0, {"oldest_block": 0, "kept": ALL}),
        (Settings(), 0, 9, {"oldest_block": 0, "kept": ALL}),
        (Settings(world_state_checkpoint_history=5), 4, 9, {"oldest_block": 4, "kept": "5 checkpoints"}),
        (
            Settings(world_state_history_from="sync"),
            9,
            9,
            {"oldest_block": 9, "kept": ALL, "begins": "where the first catch-up leads"},
        ),
        (Settings(world_state_history_from="sync"), 4, 9, {"oldest_block": 4, "kept": ALL, "begins": "here"}),
    ],
)
def test_the_start_says_from_where_the_state_is_kept(
    caplog: pytest.LogCaptureFixture, settings: Settings, oldest: int, tip: int, said: dict[str, object]
) -> None:
    caplog.set_level("INFO")
    state: Any = SimpleNamespace(oldest=oldest, tip=SimpleNamespace(number=tip))
    log_history(settings, state, is_followed=settings.upstream_url is not None, runs_follow=oldest == tip)
    assert [record.facts for record in caplog.records] == [said]  # type: ignore[attr-defined]
