"""Blocks of proposals on their way into the chain: executed, stored when they are what they say, else never shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.building.test_recorded_chain import opened_builder
from tests.building.test_reexecution import Proposal

from fastnode.archiver.commit import ChainCommit
from fastnode.building.reexecution import ProposedBlock
from fastnode.errors import DatabaseFull, ProposalFault
from fastnode.mempool.clock import SlotClock
from fastnode.p2p.judging.proposed_blocks import ExecutionParts, ProposedBlocks
from fastnode.p2p.messages.proposals import BlockProposal
from fastnode.protocol.block import L2Block
from fastnode.protocol.messages import in_hash
from fastnode.protocol.tx import Tx


class Arrivals:
    """The recorded blocks of a checkpoint, as peers propose them."""

    def __init__(self, recorded: Proposal) -> None:
        self.recorded = recorded
        self.ingestor = recorded.builder.ingestor
        self.woken = 0
        self.faults: list[BlockProposal] = []
        self.messages: Sequence[bytes] | None = recorded.messages
        self.txs: dict[bytes, Tx] = {tx.hash: tx for block in recorded.blocks for tx in recorded.txs(block)}
        slot = recorded.blocks[0].header.global_variables.slot_number
        chain = self.ingestor.view.chain
        self.now = float(chain.l1_genesis_time + slot * chain.slot_duration)
        self.proposed = ProposedBlocks(self.wake)
        self.proposed.parts = ExecutionParts(
            state=lambda: recorded.builder.data.state,
            validator=recorded.builder.validator,
            clock=SlotClock(chain.l1_genesis_time, chain.slot_duration, 12, lambda: self.now),
            txs_of=self.txs_of,
            messages_of=lambda number: self.messages if number == recorded.blocks[0].checkpoint_number else None,
            on_fault=self.faults.append,
        )

    def wake(self) -> None:
        self.woken += 1

    def txs_of(self, tx_hashes: Sequence[bytes]) -> list[Tx] | None:
        found = [self.txs.get(tx_hash) for tx_hash in tx_hashes]
        return None if None in found else found  # type: ignore[return-value]

    def proposal(self, block: L2Block, **changes: Any) -> BlockProposal:
        hashes = tuple(effect.tx_hash for effect in block.body.tx_effects)
        made = BlockProposal(
            header=block.header,
            index=block.index_within_checkpoint,
            in_hash=in_hash(self.recorded.messages),
            archive_root=block.archive.root,
            tx_hashes=hashes,
            signature=bytes(68),
            txs=None,
            signed=b"",
        )
        return replace(made, **changes)

    def apply(self) -> int:
        return self.proposed.apply(self.ingestor)

    @property
    def tip(self) -> int:
        return self.ingestor.view.tip_number


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proposal]:
    with opened_builder(tmp_path_factory.mktemp("chain")) as builder:
        yield Proposal(builder)


@pytest.fixture
def arrivals(prepared: Proposal) -> Iterator[Arrivals]:
    yield Arrivals(prepared)
    prepared.builder.ingestor.undo_above(prepared.blocks[0].number - 1)


def test_the_blocks_of_a_checkpoint_become_proposed_whatever_their_order(arrivals: Arrivals) -> None:
    blocks = arrivals.recorded.blocks
    for block in reversed(blocks):
        arrivals.proposed.offer(arrivals.proposal(block))
    assert arrivals.woken == len(blocks)
    assert arrivals.apply() == len(blocks)
    view = arrivals.ingestor.view
    assert [view.block_info(block.number).hash for block in blocks] == [block.hash() for block in blocks]
    assert view.tips.proposed.number == blocks[-1].number > view.tips.checkpointed.block.number
    assert arrivals.proposed.counts == {"stored": len(blocks)}


def test_who_looks_at_a_block_when_it_is_committed_finds_it_marked_as_executed(
    arrivals: Arrivals, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def on_committed(commit: ChainCommit) -> None:
        seen.extend(arrivals.proposed.was_executed(block.archive.root) for block in commit.blocks)

    monkeypatch.setattr(arrivals.ingestor, "_on_commit", on_committed)
    for block in arrivals.recorded.blocks:
        arrivals.proposed.offer(arrivals.proposal(block))
    assert arrivals.apply() == len(arrivals.recorded.blocks)
    assert seen == [True] * len(arrivals.recorded.blocks)


def test_a_block_that_ingestion_refuses_is_not_marked(arrivals: Arrivals, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise DatabaseFull("no room")

    first = arrivals.recorded.blocks[0]
    monkeypatch.setattr(arrivals.ingestor, "add_block", refuse)
    arrivals.proposed.offer(arrivals.proposal(first))
    with pytest.raises(DatabaseFull):
        arrivals.apply()
    assert not arrivals.proposed.was_executed(first.archive.root)


def test_what_l1_has_stored_meanwhile_is_known(arrivals: Arrivals) -> None:
    first, second = arrivals.recorded.blocks[:2]
    arrivals.ingestor.add_block(first, arrivals.recorded.messages)
    for block in (first, second):
        arrivals.proposed.offer(arrivals.proposal(block))
    assert arrivals.apply() == 1
    assert arrivals.proposed.counts == {"known": 1, "stored": 1}


def test_a_block_waits_while_one_of_a_slot_that_is_over_has_its_place(arrivals: Arrivals) -> None:
    first = arrivals.recorded.blocks[0]
    arrivals.ingestor.add_block(first, arrivals.recorded.messages)
    wrong = arrivals.proposal(first, archive_root=bytes(32))
    arrivals.proposed.offer(wrong)
    assert arrivals.apply() == 0
    assert arrivals.proposed.counts == {}
    arrivals.ingestor.undo_above(first.number - 1)  # as L1 has it done
    assert arrivals.apply() == 0
    assert arrivals.faults == [wrong], "it is executed now"


def test_a_block_that_is_not_what_it_says_is_an_offense_and_never_shown(arrivals: Arrivals) -> None:
    first, second = arrivals.recorded.blocks[:2]
    wrong = arrivals.proposal(first, archive_root=bytes(32))
    arrivals.proposed.offer(wrong)
    tip = arrivals.tip
    assert arrivals.apply() == 0
    assert (arrivals.faults, arrivals.tip) == ([wrong], tip)
    # One that stands on it waits for another before it, and is dropped with its slot.
    arrivals.proposed.offer(arrivals.proposal(second))
    assert arrivals.apply() == 0
    arrivals.now += 36
    assert arrivals.apply() == 0
    assert arrivals.proposed.counts == {"invalid": 1, "late": 1}


def test_another_hash_over_blob_fields_is_found_by_ingestion_and_an_offense(arrivals: Arrivals) -> None:
    first = arrivals.recorded.blocks[0]
    header = replace(first.header, sponge_blob_hash=bytes(31) + b"\1")
    # The archive has the hash of that header: what its root is then, the refusal of another one says.
    proposed = ProposedBlock(
        header=header, index=0, in_hash=in_hash(arrivals.recorded.messages), archive_root=bytes(32)
    )
    with pytest.raises(ProposalFault) as caught:
        arrivals.recorded.reexecute(proposed, arrivals.recorded.txs(first))
    root = bytes.fromhex(str(caught.value).rpartition("0x")[2])
    consistent = arrivals.proposal(first, header=header, archive_root=root)
    arrivals.proposed.offer(consistent)
    tip = arrivals.tip
    assert arrivals.apply() == 0
    assert (arrivals.faults, arrivals.tip) == ([consistent], tip)


def test_a_block_waits_until_l1_says_its_messages(arrivals: Arrivals) -> None:
    arrivals.messages = None
    arrivals.proposed.offer(arrivals.proposal(arrivals.recorded.blocks[0]))
    assert arrivals.apply() == 0
    arrivals.messages = arrivals.recorded.messages
    assert arrivals.apply() == 1


def test_a_block_whose_transactions_are_gone_is_nobodys_offense(arrivals: Arrivals) -> None:
    arrivals.txs.clear()
    arrivals.proposed.offer(arrivals.proposal(arrivals.recorded.blocks[0]))
    assert arrivals.apply() == 0
    assert arrivals.faults == []
    assert arrivals.proposed.counts == {"transactions missing": 1}


def test_a_block_of_another_network_is_rejected_and_nobodys_offense(arrivals: Arrivals) -> None:
    first = arrivals.recorded.blocks[0]
    arrivals.proposed.offer(arrivals.proposal(first, in_hash=bytes(32)))
    assert arrivals.apply() == 0
    assert arrivals.faults == []
    assert arrivals.proposed.counts == {"rejected": 1}


def test_without_what_executing_takes_nothing_is_kept(arrivals: Arrivals) -> None:
    arrivals.proposed.parts = None
    arrivals.proposed.offer(arrivals.proposal(arrivals.recorded.blocks[0]))
    assert (arrivals.woken, arrivals.apply()) == (0, 0)


def test_blocks_of_slots_that_are_not_executed_are_not_kept(arrivals: Arrivals) -> None:
    asked: list[int] = []

    def executes(slot: int) -> bool:
        asked.append(slot)
        return False

    arrivals.proposed.executes = executes
    arrivals.proposed.offer(arrivals.proposal(arrivals.recorded.blocks[0]))
    assert (arrivals.woken, arrivals.apply()) == (0, 0)
    assert asked == [arrivals.recorded.blocks[0].header.global_variables.slot_number]
    assert arrivals.proposed.counts == {"not executed": 1}


def test_more_proposals_than_a_slot_can_have_are_not_kept(arrivals: Arrivals) -> None:
    first = arrivals.recorded.blocks[0]
    for number in range(130):
        root = number.to_bytes(32, "big")
        header = replace(first.header, last_archive=replace(first.header.last_archive, root=root))
        arrivals.proposed.offer(arrivals.proposal(first, header=header, archive_root=root))
    assert arrivals.proposed.counts == {"too many": 2}
