"""What a proposer does to the chain, done by the thread that ingests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.building.test_recorded_chain import opened_builder
from tests.building.test_reexecution import Proposal

from fastnode.sequencing.chain import ProposedChain


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proposal]:
    with opened_builder(tmp_path_factory.mktemp("chain")) as builder:
        yield Proposal(builder)


def store(recorded: Proposal) -> None:
    for block in recorded.blocks:
        messages = recorded.messages if block.index_within_checkpoint == 0 else ()
        recorded.builder.ingestor.add_block(block, messages)


@pytest.mark.parametrize("is_its_slot", [True, False], ids=["the slot", "another slot"])
def test_blocks_of_the_slot_that_was_begun_before_a_restart_are_dropped_first_of_all(
    recorded: Proposal, is_its_slot: bool
) -> None:
    ingestor = recorded.builder.ingestor
    assert recorded.builder.data.state is not None
    store(recorded)
    newest, published = recorded.blocks[-1], ingestor.view.tips.checkpointed.block.number
    chain = ProposedChain(ingestor, recorded.builder.data.state, lambda: None)
    slot = newest.header.global_variables.slot_number
    chain.leave(slot if is_its_slot else slot - 1)
    assert ingestor.view.tip_number == newest.number
    chain.work()
    assert ingestor.view.tip_number == (published if is_its_slot else newest.number)
    ingestor.undo_above(published)
    store(recorded)
    chain.work()
    assert ingestor.view.tip_number == newest.number, "once, not again"
    ingestor.undo_above(published)


def test_blocks_from_before_a_restart_stay_until_it_is_known_that_l1_does_not_have_them(recorded: Proposal) -> None:
    ingestor = recorded.builder.ingestor
    assert recorded.builder.data.state is not None
    store(recorded)
    newest, published = recorded.blocks[-1], ingestor.view.tips.checkpointed.block.number
    chain = ProposedChain(ingestor, recorded.builder.data.state, lambda: None)
    is_settled = False
    chain.leave(newest.header.global_variables.slot_number, lambda: is_settled)
    for _ in range(3):
        chain.work()
        assert ingestor.view.tip_number == newest.number
    is_settled = True
    chain.work()
    assert ingestor.view.tip_number == published
