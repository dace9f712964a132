"""Acceptance of blocks that others built, by the operator's limits."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources

import pytest

from fastnode.archiver.source import CheckpointRecord
from fastnode.building.acceptance import AcceptanceLimits
from fastnode.config.settings import Settings
from fastnode.protocol.block import L2Block
from fastnode.protocol.effects import Body
from fastnode.sources.chain_file import ChainFileSource


@pytest.fixture(scope="module")
def block() -> L2Block:
    """The first recorded block: one transaction, 572,700 L2 gas."""
    sample = resources.files("fastnode") / "data" / "sample_chain.jsonl.xz"
    with resources.as_file(sample) as path, ChainFileSource(path) as source:
        record = next(item for item in source.records() if isinstance(item, CheckpointRecord))
        return record.published.checkpoint.blocks[0]


def with_txs(block: L2Block, count: int) -> L2Block:
    return replace(block, body=Body(block.body.tx_effects[:1] * count))


def test_without_limits_everything_is_accepted(block: L2Block) -> None:
    assert AcceptanceLimits().refusal([with_txs(block, 1_000)]) is None


def test_a_block_has_no_more_txs_than_is_accepted(block: L2Block) -> None:
    limits = AcceptanceLimits(txs_per_block=2)
    assert limits.refusal([with_txs(block, 2)] * 3) is None
    reason = limits.refusal([with_txs(block, 2), with_txs(block, 3)])
    assert reason == "block 1: 3 transactions exceed validateMaxTxsPerBlock (2)"


def test_a_checkpoint_has_no_more_txs_than_is_accepted(block: L2Block) -> None:
    limits = AcceptanceLimits(txs_per_checkpoint=4)
    assert limits.refusal([with_txs(block, 2)] * 2) is None
    reason = limits.refusal([with_txs(block, 2)] * 3)
    assert reason == "6 transactions in a checkpoint exceed validateMaxTxsPerCheckpoint (4)"


def test_a_block_uses_no_more_l2_gas_than_is_accepted(block: L2Block) -> None:
    used = block.header.total_mana_used
    assert AcceptanceLimits(block_l2_gas=used).refusal([block]) is None
    assert "exceeds validateMaxL2BlockGas" in str(AcceptanceLimits(block_l2_gas=used - 1).refusal([block]))


def test_a_block_uses_no_more_da_gas_than_is_accepted(block: L2Block) -> None:
    reason = AcceptanceLimits(block_da_gas=0).refusal([block])
    assert reason is not None
    used = int(reason.split("DA gas of ")[1].split()[0])
    assert used % 32 == 0
    assert AcceptanceLimits(block_da_gas=used).refusal([block]) is None
    assert AcceptanceLimits(block_da_gas=used - 1).refusal([block]) is not None


def test_the_limits_are_those_of_a_validator_not_of_a_builder() -> None:
    built_by = Settings(max_txs_per_block=1, max_txs_per_checkpoint=1, max_l2_block_gas=1, max_da_block_gas=1)
    assert AcceptanceLimits.of(built_by) == AcceptanceLimits()
    settings = Settings(validate_max_txs_per_block=3, validate_max_l2_block_gas=5)
    assert AcceptanceLimits.of(settings) == AcceptanceLimits(txs_per_block=3, block_l2_gas=5)
