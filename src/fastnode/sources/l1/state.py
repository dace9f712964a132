"""State of the rollup at one block of L1: tips, messages, fees.

Everything is asked at the same block, so that the parts fit each other.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from fastnode.archiver.queries import ChainView
from fastnode.errors import UpstreamFault, UpstreamRejection, UpstreamUnavailable
from fastnode.protocol.fees import FEE_ORACLE_LAG, FeeFacts, FeeHeader, L1Fees, L1Gas, ManaPricing
from fastnode.records import dataclass
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.endpoints import L1Block, L1Endpoint, block_call, contract_call, is_revert
from fastnode.sources.l1.inbox import InboxState
from fastnode.sources.l1.proposals import ProposalLog
from fastnode.sources.l1.rollup import RollupFacts

__all__ = [
    "SLOTS_OF_FEES",
    "CheckpointPlace",
    "FeeState",
    "L1State",
    "archives_of",
    "fee_state_of",
    "outbox_roots",
    "place_now",
    "read_fees",
    "read_finalized",
    "read_state",
]

#: The fees of L1 change at most this many slots from now.
SLOTS_OF_FEES: Final = FEE_ORACLE_LAG + 2
_NOTHING_THERE: Final = "0x"


@dataclass(frozen=True, slots=True)
class FeeState:
    """``minimum``: what a unit of gas costs in the next block, says the contract; ``facts``: from what."""

    minimum: int
    facts: FeeFacts


@dataclass(frozen=True, slots=True)
class CheckpointPlace:
    """The block of L1 that brought a checkpoint, as it was when the checkpoint was stored."""

    block_number: int
    block_hash: bytes

    @classmethod
    def of(cls, view: ChainView, checkpoint: int) -> CheckpointPlace | None:
        """None where none is stored."""
        stored = view.checkpoint(checkpoint)
        if stored is None:
            return None
        l1 = orjson.loads(stored.l1_json)
        return cls(int(l1["blockNumber"]), bytes.fromhex(l1["blockHash"][2:]))


#: Hash of a block that L1 does not have.
NO_BLOCK: Final = bytes(32)


def place_now(place: CheckpointPlace | None, block_hash: bytes | None, head: int) -> CheckpointPlace | None:
    """Block at a place of an L1 whose newest one is ``head``, and that has ``block_hash`` there (None: not said).

    After a reorg L1 may be shorter than it was: a place above its head has nothing.
    """
    if place is None:
        return None
    if place.block_number > head:
        return CheckpointPlace(place.block_number, NO_BLOCK)
    return None if block_hash is None else CheckpointPlace(place.block_number, block_hash)


@dataclass(frozen=True, slots=True)
class L1State:
    """Checkpoint numbers at block ``head``; ``finalized`` is None where L1 does not say what is final.

    ``can_prune``: the next proposal undoes everything that is not proven.  ``endpoint``: who said all this.
    ``stored``: the newest checkpoint that is stored here, with the archive root that L1 has there, zero for none.
    ``proposed``: the event of the pending checkpoint, if it is the only one since the block before.
    ``stored_place``: what L1 has now at the height of the block that brought the newest stored checkpoint; None where
    it does not say.
    """

    head: L1Block
    endpoint: str
    pending: int
    pending_archive: bytes
    proven: int
    proven_archive: bytes
    stored: int
    stored_archive: bytes
    can_prune: bool
    finalized: int | None
    inbox: InboxState
    fees: FeeState | None
    proposed: ProposalLog | None = None
    stored_place: CheckpointPlace | None = None

    def tells_of(self, place: CheckpointPlace | None) -> bool:
        """True if what L1 has at that height is known."""
        now = self.stored_place
        return now is not None and place is not None and now.block_number == place.block_number

    def has_moved(self, place: CheckpointPlace | None) -> bool:
        """Tell that the block of L1 that brought the newest stored checkpoint is not on L1 any more."""
        return self.tells_of(place) and self.stored_place != place

    def archive_after(self, checkpoint: int) -> bytes | None:
        """The archive root that L1 has after a checkpoint; None if that was not asked for."""
        known = {
            self.stored: self.stored_archive,
            self.proven: self.proven_archive,
            self.pending: self.pending_archive,
        }
        return known.get(checkpoint)


def read_state(
    endpoint: L1Endpoint,
    facts: RollupFacts,
    head: L1Block,
    *,
    stored: int,
    place: CheckpointPlace | None,
    l1_slot_duration: int,
) -> L1State:
    """Tips and messages, without fees and without what is final, which are optional.  ``stored``: number of our newest
    checkpoint; ``place``: the block of L1 that had it.

    UpstreamError or DecodeError; also when ``head`` is not on the endpoint's chain any more.
    """
    rollup, at = facts.rollup, head.number
    calls = [
        contract_call(rollup, contracts.STATUS, stored, block=at),
        contract_call(facts.inbox, contracts.INBOX_STATE, block=at),
        contract_call(rollup, contracts.CAN_PRUNE_AT_TIME, head.timestamp + l1_slot_duration, block=at),
        block_call(at),
        block_call(at if place is None else place.block_number),
    ]
    *answers, there = endpoint.answers(calls)
    for answer in answers:
        if isinstance(answer, UpstreamRejection):
            raise answer
    status, inbox, prunable, block = answers
    if L1Block.from_json(block) != head:
        raise UpstreamFault(f"its block {at} has changed while it was asked")
    proven, proven_archive, pending, pending_archive, stored_archive, _ = contracts.STATUS.decode(status)
    can_prune: bool = contracts.CAN_PRUNE_AT_TIME.decode(prunable)[0]
    hash_there = None if there is None or isinstance(there, UpstreamRejection) else L1Block.from_json(there).hash
    return L1State(
        head=head,
        endpoint=endpoint.name,
        pending=pending,
        pending_archive=pending_archive,
        proven=proven,
        proven_archive=proven_archive,
        stored=stored,
        stored_archive=stored_archive,
        can_prune=can_prune,
        finalized=None,
        inbox=InboxState(*contracts.INBOX_STATE.decode(inbox)),
        fees=None,
        stored_place=place_now(place, hash_there, at),
    )


def read_finalized(endpoint: L1Endpoint, facts: RollupFacts) -> int:
    """The newest checkpoint that was proven at L1's final block.  UpstreamError, DecodeError."""
    final = endpoint.block("finalized")
    if final is None:
        raise UpstreamUnavailable("it does not give the final block")
    if final.number < facts.deployment_block:
        return 0
    call = contract_call(facts.rollup, contracts.PROVEN_CHECKPOINT, block=final.number)
    answer = endpoint.results([call])[0]
    proven: int = 0 if answer == _NOTHING_THERE else contracts.PROVEN_CHECKPOINT.decode(answer)[0]
    return proven


def read_fees(endpoint: L1Endpoint, facts: RollupFacts, state: L1State, l1_slot_duration: int) -> FeeState | None:
    """Fees after the ``state``; None when the contract does not answer for its checkpoint.  UpstreamError,
    DecodeError."""
    head, rollup = state.head, facts.rollup
    at, parent = head.number, state.proven if state.can_prune else state.pending
    try:
        checkpoint = endpoint.read(rollup, contracts.CHECKPOINT, parent, block=at)
        slot = checkpoint[contracts.CHECKPOINT_SLOT]
        time = max(facts.start_of_slot(slot + 1), head.timestamp + l1_slot_duration)
        first = facts.slot_at(head.timestamp)
        functions = (contracts.MANA_TARGET, contracts.MANA_LIMIT, contracts.PROVING_COST_PER_MANA)
        calls = [contract_call(rollup, function, block=at) for function in functions]
        calls += [
            contract_call(rollup, contracts.L1_FEES_AT, facts.start_of_slot(number), block=at)
            for number in range(first, first + SLOTS_OF_FEES)
        ]
        calls.append(contract_call(rollup, contracts.MANA_MIN_FEE_AT, time, 1, block=at))
        answers = endpoint.results(calls)
    except UpstreamRejection as error:
        if not is_revert(error):
            raise
        return None
    pricing = [function.decode(answer)[0] for function, answer in zip(functions, answers, strict=False)]
    fees = [contracts.L1_FEES_AT.decode(answer) for answer in answers[len(functions) : -1]]
    minimum = contracts.MANA_MIN_FEE_AT.decode(answers[-1])[0]
    return fee_state_of(facts, checkpoint, fees, first, minimum, (pricing[0], pricing[1], pricing[2]))


def fee_state_of(
    facts: RollupFacts,
    parent: tuple[Any, ...],
    l1_fees: list[tuple[Any, ...]],
    first_slot: int,
    minimum: int,
    pricing: tuple[int, int, int],
) -> FeeState:
    """``parent``: what the contract has of the checkpoint; ``l1_fees``: at ``first_slot`` and those behind it;
    ``pricing``: mana target, mana limit, cost of proving."""
    slot, excess, used, eth_per_fee_asset = parent[contracts.CHECKPOINT_SLOT : contracts.CHECKPOINT_SLOT + 4]
    fees = [L1Fees(*item) for item in l1_fees]
    ahead = next((place for place, item in enumerate(fees) if item != fees[0]), 0)
    target, limit, cost = pricing
    return FeeState(
        minimum,
        FeeFacts(
            parent=FeeHeader(excess, used, eth_per_fee_asset),
            parent_slot=slot,
            pricing=ManaPricing(
                target, limit, facts.epoch_duration, cost, L1Gas() if facts.release is None else facts.release.l1_gas
            ),
            before=fees[0],
            after=fees[ahead],
            slot_of_change=first_slot + ahead,
        ),
    )


def archives_of(endpoint: L1Endpoint, facts: RollupFacts, numbers: list[int]) -> list[bytes]:
    """Archive roots after checkpoints, zero for those that L1 does not have."""
    answers = endpoint.results([contract_call(facts.rollup, contracts.ARCHIVE_AT, number) for number in numbers])
    return [contracts.ARCHIVE_AT.decode(answer)[0] for answer in answers]


def outbox_roots(endpoint: L1Endpoint, facts: RollupFacts, epoch: int) -> list[bytes]:
    """Roots of the messages of an epoch, zero for none: one, or one for each number of checkpoints, from 1 on."""
    release = facts.release
    function = contracts.OUTBOX_ROOTS if release is not None and release.has_roots_by_count else contracts.OUTBOX_ROOT
    return list(endpoint.read(facts.outbox, function, epoch))
