"""The recorded chain, built again from its transactions: the same effects, roots, block and checkpoint hashes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.mempool.chain import SAMPLE_CHAIN
from tests.mempool.recorded import recorded_tx

from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.source import CheckpointRecord
from fastnode.building.budget import BuildingLimits, CheckpointBudget
from fastnode.building.checkpoint import CheckpointDraft
from fastnode.building.checks import block_check
from fastnode.chain_data import ChainData
from fastnode.kernels import USING_TWINS
from fastnode.local_network.accounts import TOKEN_ALLOW_LIST
from fastnode.mempool.allow_list import default_allow_list
from fastnode.mempool.clock import SlotClock
from fastnode.mempool.ledger import ViewLedger
from fastnode.mempool.network import NetworkIdentity
from fastnode.mempool.validation import TxValidator, ValidationRules
from fastnode.proofs.judge import open_judge
from fastnode.protocol.block import L2Block
from fastnode.protocol.effects import TxEffect
from fastnode.protocol.fields import hex_text
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx_data import Gas
from fastnode.public_execution.block import execute_block
from fastnode.sources.chain_file import ChainFileSource
from fastnode.sources.chain_import import adopt_chain_file
from fastnode.view import View

#: The first blocks set the network up; what was sent for them is not recorded.
FIRST_RECORDED_BLOCK = 6
#: On the twins the hash of a transaction takes a third of a second.
CHECKPOINTS = 8 if USING_TWINS else 1000
#: Values of the network that was recorded.
LIMITS = BuildingLimits(mana_limit=200_000_000, blocks_per_checkpoint=6, block_gas=Gas(786_432, 200_000_000))


@dataclass
class Builder:
    """Builds what was recorded, on a chain that holds nothing but what it has built."""

    data: ChainData
    ingestor: Ingestor
    validator: TxValidator

    @property
    def view(self) -> View:
        assert self.data.state is not None
        return View(self.ingestor.view, self.data.state.view)

    def build(self, record: CheckpointRecord) -> None:
        recorded = record.published.checkpoint
        messages = record.l1_to_l2_messages
        draft = CheckpointDraft(recorded.blocks[0].header.global_variables, recorded.number, messages, FOUR)
        budget = CheckpointBudget(LIMITS)
        for expected in recorded.blocks:
            effects, mana = self._executed(draft, expected, budget, messages)
            assert effects == expected.body.tx_effects, expected.number
            assert self.data.state is not None
            block = draft.seal_block(self.data.state, effects, mana)
            assert block == expected
            self.ingestor.add_block(block, messages if block.index_within_checkpoint == 0 else ())
        epoch = recorded.header.slot_number // self.ingestor.view.chain.epoch_duration
        view = self.ingestor.view
        earlier = [view.checkpoint(number) for number in view.checkpoint_numbers_of_epoch(epoch)]
        published = draft.publish([item.out_hash for item in earlier if item], record.published.l1)
        assert published.checkpoint == recorded
        self.ingestor.add_checkpoint(published, messages)

    def _executed(
        self, draft: CheckpointDraft, expected: L2Block, budget: CheckpointBudget, messages: Sequence[bytes]
    ) -> tuple[tuple[TxEffect, ...], int]:
        variables = draft.variables_of_block(expected.number)
        if expected.number < FIRST_RECORDED_BLOCK:
            return expected.body.tx_effects, expected.header.total_mana_used
        outcome = execute_block(
            self.view,
            variables,
            [recorded_tx(hex_text(effect.tx_hash)) for effect in expected.body.tx_effects],
            l1_to_l2_messages=() if draft.blocks else messages,
            limits=budget.of_next_block(),
            check=block_check(self.validator, ViewLedger(self.view), variables),
        )
        assert outcome.left_out == []
        budget.take(outcome)
        return tuple(executed.effect for _, executed in outcome.included), outcome.total_mana_used


@contextmanager
def opened_builder(directory: Path) -> Iterator[Builder]:
    """At genesis."""
    with ChainData.open(directory) as data:
        adopt_chain_file(data.store, SAMPLE_CHAIN)
        ingestor = data.open_ingestor(verify=True)
        rules = ValidationRules(
            network=NetworkIdentity.of_view(ingestor.view),
            setup_allow_list=(*default_allow_list(FOUR), *TOKEN_ALLOW_LIST),
            release=FOUR,
        )
        clock = SlotClock.of_chain(data.store.chain)
        yield Builder(data, ingestor, TxValidator(rules, clock, open_judge(required=False)))


@pytest.fixture
def builder(tmp_path: Path) -> Iterator[Builder]:
    with opened_builder(tmp_path) as builder:
        yield builder


def test_every_recorded_checkpoint_is_built_again(builder: Builder) -> None:
    with ChainFileSource(SAMPLE_CHAIN) as source:
        records = [record for record in source.records() if isinstance(record, CheckpointRecord)]
    for record in records[:CHECKPOINTS]:
        builder.build(record)
    if not USING_TWINS:
        assert builder.ingestor.view.tip_number == 106
