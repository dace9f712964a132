"""Everything a node reads at a new block of L1, in one call (:func:`read_head_state`).

What to ask for depends on what will be answered: which checkpoint is the newest, which slot it is.  The block before
serves as a guess; where it was wrong, the fees stay what they were until the next block.
"""

from __future__ import annotations

from typing import Any, Final

from fastnode.errors import UpstreamFault
from fastnode.records import dataclass
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.endpoints import L1Block, L1Endpoint, contract_call
from fastnode.sources.l1.inbox import InboxState
from fastnode.sources.l1.multicall import (
    BLOCK_HASH,
    BLOCK_NUMBER,
    BLOCK_TIMESTAMP,
    PARENT_HASH,
    Read,
    read_together,
)
from fastnode.sources.l1.rollup import RollupFacts
from fastnode.sources.l1.state import SLOTS_OF_FEES, CheckpointPlace, FeeState, L1State, fee_state_of, place_now

__all__ = ["HeadState", "block_of", "read_final_checkpoint", "read_head_state"]

_BLOCK_READS: Final = (Read(BLOCK_NUMBER), Read(BLOCK_TIMESTAMP), Read(PARENT_HASH))


@dataclass(frozen=True, slots=True)
class HeadState:
    """``state`` was read at block ``number``, but names the last block before it whose hash is known as its head."""

    number: int
    timestamp: int
    parent_hash: bytes
    state: L1State

    def has_same_checkpoints(self, before: L1State) -> bool:
        """True if only messages and fees may have changed since, as far as can be seen without the block's hash."""
        ours, theirs = self.state, before
        return (
            (ours.pending, ours.pending_archive) == (theirs.pending, theirs.pending_archive)
            and (ours.proven, ours.proven_archive) == (theirs.proven, theirs.proven_archive)
            and ours.can_prune == theirs.can_prune
            and self._may_follow(before.head)
        )

    def has_one_more(self, before: L1State) -> bool:
        """True if there is one more checkpoint than before, as far as can be seen without the block's hash."""
        return self.state.pending == before.pending + 1 and self.number > before.head.number

    def _may_follow(self, head: L1Block) -> bool:
        if self.number == head.number:
            return self.parent_hash == head.parent_hash
        return self.number > head.number + 1 or (self.number == head.number + 1 and self.parent_hash == head.hash)


def read_head_state(
    endpoint: L1Endpoint,
    facts: RollupFacts,
    before: L1State,
    *,
    stored: int,
    place: CheckpointPlace | None,
    timestamp: int,
    l1_slot_duration: int,
) -> HeadState | None:
    """At the newest block, whose ``timestamp`` is guessed; ``stored``: number of our newest checkpoint; ``place``: the
    block of L1 that had it.

    None if the chain has no Multicall3.  UpstreamError, DecodeError.
    """
    rollup = facts.rollup
    slot = facts.slot_at(timestamp)
    minimum_times = (max(facts.start_of_slot(slot + 1), timestamp + l1_slot_duration), timestamp + l1_slot_duration)
    # Next times after the block that was there, and after the one that is due: more often than not nothing new is seen.
    prune_times = (timestamp, timestamp + l1_slot_duration)
    fee_times = [facts.start_of_slot(slot + place) for place in range(SLOTS_OF_FEES)]
    parents = tuple(dict.fromkeys((before.pending, before.pending + 1, before.proven)))
    reads = [
        *_BLOCK_READS,
        Read(contracts.STATUS, (stored,), rollup),
        Read(contracts.INBOX_STATE, (), facts.inbox),
        *[Read(contracts.CAN_PRUNE_AT_TIME, (time,), rollup) for time in prune_times],
        Read(contracts.MANA_TARGET, (), rollup),
        Read(contracts.MANA_LIMIT, (), rollup),
        Read(contracts.PROVING_COST_PER_MANA, (), rollup),
        *[Read(contracts.MANA_MIN_FEE_AT, (time, 1), rollup) for time in minimum_times],
        *[Read(contracts.L1_FEES_AT, (time,), rollup) for time in fee_times],
        *[Read(contracts.CHECKPOINT, (number,), rollup) for number in parents],
        Read(BLOCK_HASH, (0 if place is None else place.block_number,)),
    ]
    answers = read_together(endpoint, reads)
    if answers is None:
        return None
    *answers, there = answers
    sure_count = len(_BLOCK_READS) + 2 + len(prune_times)
    block_number, time, parent_hash, status, inbox, *prunable = (_sure(item) for item in answers[:sure_count])
    proven, proven_archive, pending, pending_archive, stored_archive, _ = status
    next_time = time[0] + l1_slot_duration
    can_prune = _can_prune_at(next_time, dict(zip(prune_times, (item[0] for item in prunable), strict=True)))
    if can_prune is None:
        call = contract_call(rollup, contracts.CAN_PRUNE_AT_TIME, next_time, block=block_number[0])
        can_prune = bool(contracts.CAN_PRUNE_AT_TIME.decode(endpoint.results([call])[0])[0])
    parent = proven if can_prune else pending
    fees = None
    if parent in parents and facts.slot_at(time[0]) == slot:
        fees = _fees(facts, answers[sure_count:], parents.index(parent), slot)
    state = L1State(
        head=before.head,
        endpoint=endpoint.name,
        pending=pending,
        pending_archive=pending_archive,
        proven=proven,
        proven_archive=proven_archive,
        stored=stored,
        stored_archive=stored_archive,
        can_prune=can_prune,
        finalized=None,
        inbox=InboxState(*inbox),
        fees=fees,
        stored_place=place_now(place, _hash_in(there), block_number[0]),
    )
    return HeadState(block_number[0], time[0], parent_hash[0], state)


def _hash_in(answer: tuple[Any, ...] | None) -> bytes | None:
    """The EVM knows the hashes of the 256 blocks before its own; of others it says zero."""
    return None if answer is None or not any(answer[0]) else answer[0]


def _can_prune_at(time: int, known: dict[int, bool]) -> bool | None:
    """From the answers for other times: what can be pruned can be later too.  None if they do not tell."""
    if any(answer and other <= time for other, answer in known.items()):
        return True
    return None if all(answer or other < time for other, answer in known.items()) else False


def _sure(answer: tuple[Any, ...] | None) -> tuple[Any, ...]:
    if answer is None:
        raise UpstreamFault("it does not answer what every rollup answers")
    return answer


def _fees(facts: RollupFacts, answers: list[tuple[Any, ...] | None], place: int, slot: int) -> FeeState | None:
    """``place`` of the parent among the checkpoints that were asked for; None when something was not answered."""
    target, limit, cost, minimum_of_next_slot, minimum_of_now, *rest = answers
    l1_fees, checkpoints = rest[:SLOTS_OF_FEES], rest[SLOTS_OF_FEES:]
    parent = checkpoints[place]
    if parent is None or target is None or limit is None or cost is None or any(item is None for item in l1_fees):
        return None
    # Nothing is proposed twice in a slot: the next block is one of the next slot if this one has its checkpoint.
    minimum = minimum_of_next_slot if parent[contracts.CHECKPOINT_SLOT] >= slot else minimum_of_now
    if minimum is None:
        return None
    fees = [item for item in l1_fees if item is not None]
    return fee_state_of(facts, parent, fees, slot, minimum[0], (target[0], limit[0], cost[0]))


def block_of(endpoint: L1Endpoint, seen: HeadState) -> L1Block | None:
    """The block that was read, with its hash; None if it is another one by now."""
    block = endpoint.block(seen.number)
    if block is None or (block.timestamp, block.parent_hash) != (seen.timestamp, seen.parent_hash):
        return None
    return block


def read_final_checkpoint(endpoint: L1Endpoint, facts: RollupFacts) -> tuple[int, int] | None:
    """Number of L1's newest final block, and of the newest checkpoint that was proven there.

    None where L1 does not say what is final, or had no Multicall3 then.  UpstreamError, DecodeError.
    """
    answers = read_together(
        endpoint, [Read(BLOCK_NUMBER), Read(contracts.PROVEN_CHECKPOINT, (), facts.rollup)], block="finalized"
    )
    number, proven = answers or (None, None)
    return None if number is None else (number[0], 0 if proven is None else proven[0])
