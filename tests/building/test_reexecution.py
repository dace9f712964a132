"""Recorded blocks as proposals: executed again from their transactions, and refused when anything in them differs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.building.test_recorded_chain import Builder, opened_builder
from tests.mempool.chain import SAMPLE_CHAIN
from tests.mempool.recorded import recorded_tx

from fastnode.archiver.source import CheckpointRecord
from fastnode.building.reexecution import ProposedBlock, checkpoint_of, follows, reexecute
from fastnode.errors import BlockRejected, ExecutionTimeExceeded, ProposalFault
from fastnode.mempool.validation import GasCaps, TxValidator
from fastnode.proofs.judge import open_judge
from fastnode.protocol.block import L2Block
from fastnode.protocol.fields import hex_text
from fastnode.protocol.header import BlockHeader, GasFees
from fastnode.protocol.messages import in_hash
from fastnode.protocol.tx import Tx
from fastnode.sources.chain_file import ChainFileSource

#: Blocks of the recorded chain: its blocks have transactions whose wallets' requests are recorded.
PREPARED = 5


class Proposal:
    """The next recorded block, on a chain that has those before it."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        with ChainFileSource(SAMPLE_CHAIN) as source:
            records = [record for record in source.records() if isinstance(record, CheckpointRecord)]
        for record in records:
            blocks = record.published.checkpoint.blocks
            if blocks[0].number > PREPARED and len(blocks) > 1 and blocks[0].body.tx_effects:
                break
            builder.ingestor.add_checkpoint(record.published, record.l1_to_l2_messages)
        self.checkpoint = record.published.checkpoint
        self.messages = record.l1_to_l2_messages
        self.blocks = blocks

    def of(self, block: L2Block) -> ProposedBlock:
        return ProposedBlock(
            header=block.header,
            index=block.index_within_checkpoint,
            in_hash=in_hash(self.messages),
            archive_root=block.archive.root,
        )

    def txs(self, block: L2Block) -> list[Tx]:
        return [recorded_tx(hex_text(effect.tx_hash)) for effect in block.body.tx_effects]

    def reexecute(self, proposed: ProposedBlock, txs: list[Tx], *, patience_s: float = 60) -> L2Block:
        assert self.builder.data.state is not None
        return reexecute(
            self.builder.view,
            self.builder.data.state,
            proposed,
            txs,
            self.messages,
            self.builder.validator,
            deadline=time.monotonic() + patience_s,
        )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proposal]:
    with opened_builder(tmp_path_factory.mktemp("chain")) as builder:
        yield Proposal(builder)


@pytest.fixture
def proposal(prepared: Proposal) -> Iterator[Proposal]:
    """Additions of a test to the chain are taken back."""
    yield prepared
    prepared.builder.ingestor.undo_above(prepared.blocks[0].number - 1)


def test_all_blocks_of_a_checkpoint_are_executed_one_after_the_other(proposal: Proposal) -> None:
    for block in proposal.blocks:
        proposed = proposal.of(block)
        chain = proposal.builder.view.chain
        assert follows(chain, proposed)
        assert checkpoint_of(chain, proposed) == block.checkpoint_number
        assert proposal.reexecute(proposed, proposal.txs(block)) == block
        messages = proposal.messages if block.index_within_checkpoint == 0 else ()
        assert proposal.builder.ingestor.add_block(block, messages)
        assert not follows(proposal.builder.view.chain, proposed)


def with_header(**changes: Any) -> Callable[[ProposedBlock], ProposedBlock]:
    return lambda proposed: replace(proposed, header=replace(proposed.header, **changes))


def with_globals(**changes: Any) -> Callable[[ProposedBlock], ProposedBlock]:
    def change(proposed: ProposedBlock) -> ProposedBlock:
        variables = replace(proposed.header.global_variables, **changes)
        return replace(proposed, header=replace(proposed.header, global_variables=variables))

    return change


def with_other_state(proposed: ProposedBlock) -> ProposedBlock:
    header: BlockHeader = proposed.header
    partial = replace(header.state.partial, note_hash_tree=header.state.nullifier_tree)
    state = replace(header.state, partial=partial)
    return replace(proposed, header=replace(header, state=state))


@pytest.mark.parametrize(
    "changed",
    [
        with_header(total_fees=1),
        with_header(total_mana_used=1),
        with_other_state,
        with_globals(coinbase=bytes(20)),  # the archive has another header then
        lambda proposed: replace(proposed, archive_root=bytes(32)),
    ],
    ids=["fees", "mana", "state", "coinbase", "archive"],
)
def test_a_block_that_says_something_else_than_its_transactions_do_is_an_offense(
    proposal: Proposal, changed: Callable[[ProposedBlock], ProposedBlock]
) -> None:
    block = proposal.blocks[0]
    with pytest.raises(ProposalFault):
        proposal.reexecute(changed(proposal.of(block)), proposal.txs(block))


def test_a_block_without_one_of_its_transactions_or_with_one_twice_is_an_offense(proposal: Proposal) -> None:
    block = proposal.blocks[0]
    txs = proposal.txs(block)
    with pytest.raises(ProposalFault):
        proposal.reexecute(proposal.of(block), txs[:-1])
    with pytest.raises(ProposalFault, match=r"cannot be in it: Existing nullifier"):
        proposal.reexecute(proposal.of(block), [*txs, txs[0]])


def test_a_mana_limit_of_the_rollup_or_the_pool_is_no_rule_of_others_blocks(proposal: Proposal) -> None:
    """Release 4.1.2 asks the transactions of a block only for the protocol's own limits of gas."""
    block = proposal.blocks[0]
    txs = proposal.txs(block)
    validator = proposal.builder.validator
    lowest = max(tx.data.gas_limits.l2_gas for tx in txs) - 1
    low = replace(validator.rules, gas_caps=GasCaps().lowered(l2_gas=lowest, da_gas=1))
    proposal.builder.validator = TxValidator(low, validator.clock, open_judge(required=False))
    try:
        assert proposal.reexecute(proposal.of(block), txs) == block
    finally:
        proposal.builder.validator = validator


def test_a_transaction_that_pays_less_than_the_block_asks_is_an_offense(proposal: Proposal) -> None:
    block = proposal.blocks[0]
    dear = with_globals(gas_fees=GasFees(0, 1 << 100))(proposal.of(block))
    with pytest.raises(ProposalFault, match=r"cannot be in it: Insufficient fee per gas"):
        proposal.reexecute(dear, proposal.txs(block))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (with_globals(block_number=1), "blockNumber is 1"),
        (with_globals(timestamp=1), "timestamp is 1"),
        (with_globals(chain_id=1), "chainId is 1"),
        (with_globals(version=1), "version is 1"),
        (lambda proposed: replace(proposed, in_hash=bytes(32)), "inHash"),
        (lambda proposed: replace(proposed, index=1), "its place"),
    ],
)
def test_a_block_that_does_not_follow_the_chain_is_merely_not_taken(
    proposal: Proposal, changed: Callable[[ProposedBlock], ProposedBlock], reason: str
) -> None:
    block = proposal.blocks[0]
    with pytest.raises(BlockRejected, match=reason) as caught:
        proposal.reexecute(changed(proposal.of(block)), proposal.txs(block))
    assert not isinstance(caught.value, ProposalFault)


def test_blocks_of_one_checkpoint_pay_the_same_ones(proposal: Proposal) -> None:
    first, second = proposal.blocks[:2]
    proposal.builder.ingestor.add_block(first, proposal.messages)
    with pytest.raises(BlockRejected, match="coinbase"):
        proposal.reexecute(with_globals(coinbase=bytes(20))(proposal.of(second)), proposal.txs(second))


def test_a_block_that_takes_too_long_is_not_judged(proposal: Proposal) -> None:
    block = proposal.blocks[0]
    with pytest.raises(ExecutionTimeExceeded):
        proposal.reexecute(proposal.of(block), proposal.txs(block), patience_s=-1)
