"""Each key of nodeAdmin_setConfig changes what the part works with that reads it.

Keys of the pool: tests/api/test_configuration_effects.py; of executed proposals: tests/app/roles/test_peers.py; of a
validator's attestations: tests/sequencing/test_validator.py; of offenses: tests/sentinel/test_offenses.py.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.config.changes import another_value
from tests.config.configured import configured

from fastnode.app.ground.effects import settings_with
from fastnode.app.roles.sequencer import options_of as sequencer_options
from fastnode.app.roles.sequencer import times_of
from fastnode.building.budget import BlockOptions, BuildingLimits, CheckpointBudget
from fastnode.config.config_keys import BLOCKS, CHECKPOINTS, FOUR, VOTES, ConfigKey, keys_of
from fastnode.config.configuration import ConfigPatch, ConfigPatchOfFive, NodeConfiguration
from fastnode.config.settings import Settings
from fastnode.local_network.options import options_of as local_options
from fastnode.sequencing.voting import Voting

CHAIN: Any = SimpleNamespace(
    slot_duration=72,
    l1_chain_id=1,
    l1_constants={"ethereumSlotDuration": 12, "rollupManaLimit": 100_000_000, "slotDuration": 72},
)
#: With blocks of some seconds each part of the slot has a length.
SETTINGS = {"block_duration_ms": 2_500, "max_txs_per_checkpoint": 100}


def changed(configuration: NodeConfiguration, key: ConfigKey, **others: Any) -> None:
    value = another_value(key, configuration.describe().get(key.name))
    configuration.change(patch_of(key).from_json(others | {key.name: value}))


def patch_of(key: ConfigKey) -> ConfigPatch:
    return ConfigPatch() if key.name in FOUR.keys else ConfigPatchOfFive()


def of_sequencer(settings: Settings, configuration: NodeConfiguration) -> Callable[[], Any]:
    blocks, checkpoints = configuration.attach(BLOCKS), configuration.attach(CHECKPOINTS)
    return lambda: (
        sequencer_options(settings, CHAIN, blocks, checkpoints),
        times_of(settings_with(settings, checkpoints)),
    )


@pytest.mark.parametrize("key", [*keys_of(BLOCKS), *keys_of(CHECKPOINTS)], ids=lambda key: key.name)
def test_each_key_changes_the_next_slot_of_a_sequencer(key: ConfigKey) -> None:
    settings = Settings(sequencer=True, **SETTINGS)
    configuration = configured(**SETTINGS)
    options = of_sequencer(settings, configuration)
    before = options()
    changed(configuration, key)
    assert options() != before
    configuration.change(patch_of(key).from_json({key.name: None if key.setting is None else before_of(key)}))
    assert options() == before


def before_of(key: ConfigKey) -> Any:
    assert key.setting is not None
    return SETTINGS.get(key.setting.attribute, key.default)


@pytest.mark.parametrize("key", list(keys_of(BLOCKS)), ids=lambda key: key.name)
def test_each_key_changes_the_next_block_of_a_local_network(key: ConfigKey) -> None:
    settings = Settings(local_network=True, **SETTINGS)
    configuration = configured(**SETTINGS)
    blocks = configuration.attach(BLOCKS)
    before = local_options(settings, CHAIN, BlockOptions.of(blocks))
    changed(configuration, key)
    assert local_options(settings_with(settings, blocks), CHAIN, BlockOptions.of(blocks)) != before


@pytest.mark.parametrize(("most", "blocks"), [(None, 20), (3, 3), (24, 20)])
def test_a_checkpoint_has_as_many_blocks_as_fit_and_at_most_those_of_the_setting(most: int | None, blocks: int) -> None:
    settings = Settings(block_duration_ms=2_500, max_blocks_per_checkpoint=most, per_block_allocation_multiplier=1)
    limits = BuildingLimits.of(settings, slot_duration_s=72, l1_slot_duration_s=12, mana_limit=60_000)
    assert limits.blocks_per_checkpoint == blocks
    assert limits.block_gas.l2_gas == 60_000 // blocks


def test_the_rest_of_a_checkpoint_is_shared_among_its_next_blocks_where_it_is_redistributed() -> None:
    def taken(*, redistributes: bool) -> list[tuple[int | None, int]]:
        """Transactions and L2 gas of the blocks of a checkpoint each of which takes all that it may."""
        limits = BuildingLimits.of(
            Settings(block_duration_ms=10_000, max_txs_per_checkpoint=12, per_block_allocation_multiplier=2),
            slot_duration_s=72,
            l1_slot_duration_s=12,
            mana_limit=9_000,
            options=BlockOptions(redistributes=redistributes),
        )
        budget, found = CheckpointBudget(limits), []
        for _ in range(limits.blocks_per_checkpoint):
            block = budget.of_next_block()
            assert block.gas is not None
            found.append((block.txs, block.gas.l2_gas))
            outcome: Any = SimpleNamespace(
                included=[None] * (block.txs or 0), total_mana_used=block.gas.l2_gas, blob_fields=0
            )
            budget.take(outcome)
        return found

    assert taken(redistributes=False) == [(12, 4_500), (0, 4_500), (0, 0), (0, 0)]
    assert taken(redistributes=True) == [(6, 4_500), (4, 3_000), (2, 1_500), (0, 0)]


def test_the_votes_of_a_slot_are_made_of_all_keys_of_votes() -> None:
    configuration = configured()
    view, read = configuration.attach(VOTES), set()

    class Recorded:
        def __getitem__(self, name: str) -> Any:
            read.add(name)
            return view[name]

    parts: Any = SimpleNamespace(configuration=Recorded(), door=SimpleNamespace(own=tuple))
    voting = Voting(parts)
    try:
        voting._rules()
        voting._payload_rules()
        assert voting._address("governanceProposerPayload") is None
    finally:
        voting.close()
    assert read == {key.name for key in keys_of(VOTES)}


@pytest.mark.parametrize(
    "key", [key for key in keys_of(VOTES) if key.name != "governanceProposerPayload"], ids=lambda key: key.name
)
def test_each_key_of_votes_changes_how_a_proposer_votes(key: ConfigKey) -> None:
    configuration = configured()
    own = b"\x0b" * 20
    parts: Any = SimpleNamespace(configuration=configuration.attach(VOTES), door=SimpleNamespace(own=lambda: (own,)))
    voting = Voting(parts)
    try:
        before = voting._rules(), voting._payload_rules()
        changed(configuration, key)
        assert (voting._rules(), voting._payload_rules()) != before
    finally:
        voting.close()


def test_a_disabled_validator_of_the_node_is_not_voted_against() -> None:
    """It rests; a vote would cost its stake."""
    configuration = configured()
    own = b"\x0a" * 20
    door = SimpleNamespace(own=lambda: (own,), attesters=lambda: ())
    parts: Any = SimpleNamespace(configuration=configuration.attach(VOTES), door=door)
    voting = Voting(parts)
    try:
        assert own in voting._rules().never
    finally:
        voting.close()
