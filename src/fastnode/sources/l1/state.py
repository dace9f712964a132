"""What L1 says about the rollup at one of its blocks: tips, messages, fees.

Everything is asked at the same block, so that the parts fit each other.
"""

from __future__ import annotations

from typing import Final

from fastnode.errors import UpstreamFault, UpstreamRejection
from fastnode.protocol.fees import FEE_ORACLE_LAG, FeeFacts, FeeHeader, L1Fees, ManaPricing
from fastnode.records import dataclass
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.endpoints import L1Block, L1Endpoint, block_call, contract_call
from fastnode.sources.l1.inbox import InboxState
from fastnode.sources.l1.rollup import RollupFacts

__all__ = ["FeeState", "L1State", "archives_of", "outbox_root", "read_state"]

#: The fees of L1 change at most this many slots from now.
_SLOTS_OF_FEES: Final = FEE_ORACLE_LAG + 2
#: Values of ``getCheckpoint`` behind which slot and fee header stand.
_CHECKPOINT_SLOT: Final = 6
_NOTHING_THERE: Final = "0x"


@dataclass(frozen=True, slots=True)
class FeeState:
    """``minimum``: what a unit of gas costs in the next block, says the contract; ``facts``: from what."""

    minimum: int
    facts: FeeFacts


@dataclass(frozen=True, slots=True)
class L1State:
    """Checkpoint numbers at block ``head``; ``finalized`` is None where L1 does not say what is final.

    ``can_prune``: the next proposal undoes everything that is not proven.  ``endpoint``: who said all this.
    """

    head: L1Block
    endpoint: str
    pending: int
    pending_archive: bytes
    proven: int
    proven_archive: bytes
    can_prune: bool
    finalized: int | None
    inbox: InboxState
    fees: FeeState | None


@dataclass(frozen=True, slots=True)
class _Pricing:
    target: int
    limit: int
    proving_cost: int


def read_state(endpoint: L1Endpoint, facts: RollupFacts, head: L1Block, l1_slot_duration: int) -> L1State:
    """UpstreamError or DecodeError; also when ``head`` is not on the endpoint's chain any more."""
    rollup, at = facts.rollup, head.number
    functions = (contracts.MANA_TARGET, contracts.MANA_LIMIT, contracts.PROVING_COST_PER_MANA)
    calls = [contract_call(rollup, function, block=at) for function in functions]
    calls += [
        contract_call(rollup, contracts.STATUS, 0, block=at),
        contract_call(facts.inbox, contracts.INBOX_STATE, block=at),
        contract_call(rollup, contracts.CAN_PRUNE_AT_TIME, head.timestamp + l1_slot_duration, block=at),
        block_call(at),
    ]
    *answers, status, inbox, prunable, block = endpoint.results(calls)
    if L1Block.from_json(block) != head:
        raise UpstreamFault(f"its block {at} has changed while it was asked")
    target, limit, cost = (function.decode(answer) for function, answer in zip(functions, answers, strict=True))
    proven, proven_archive, pending, pending_archive, *_ = contracts.STATUS.decode(status)
    can_prune: bool = contracts.CAN_PRUNE_AT_TIME.decode(prunable)[0]
    parent = proven if can_prune else pending
    return L1State(
        head,
        endpoint.name,
        pending,
        pending_archive,
        proven,
        proven_archive,
        can_prune,
        _finalized(endpoint, facts),
        InboxState(*contracts.INBOX_STATE.decode(inbox)),
        _fees(endpoint, facts, head, parent, _Pricing(target[0], limit[0], cost[0]), l1_slot_duration),
    )


def _finalized(endpoint: L1Endpoint, facts: RollupFacts) -> int | None:
    """The newest checkpoint that was proven at L1's final block."""
    answer = endpoint.answers([block_call("finalized")])[0]
    if answer is None or isinstance(answer, UpstreamRejection):
        return None
    number = L1Block.from_json(answer).number
    if number < facts.deployment_block:
        return 0
    answer = endpoint.answers([contract_call(facts.rollup, contracts.PROVEN_CHECKPOINT, block=number)])[0]
    if isinstance(answer, UpstreamRejection):  # the state of that block is not kept
        return None
    proven: int = 0 if answer == _NOTHING_THERE else contracts.PROVEN_CHECKPOINT.decode(answer)[0]
    return proven


def _fees(
    endpoint: L1Endpoint, facts: RollupFacts, head: L1Block, parent: int, pricing: _Pricing, l1_slot_duration: int
) -> FeeState | None:
    """None when the contract does not answer for the parent."""
    at = head.number
    try:
        checkpoint = endpoint.read(facts.rollup, contracts.CHECKPOINT, parent, block=at)
        slot, excess, used, eth_per_fee_asset = checkpoint[_CHECKPOINT_SLOT : _CHECKPOINT_SLOT + 4]
        time = max(facts.start_of_slot(slot + 1), head.timestamp + l1_slot_duration)
        first = facts.slot_at(head.timestamp)
        calls = [
            contract_call(facts.rollup, contracts.L1_FEES_AT, facts.start_of_slot(number), block=at)
            for number in range(first, first + _SLOTS_OF_FEES)
        ]
        calls.append(contract_call(facts.rollup, contracts.MANA_MIN_FEE_AT, time, 1, block=at))
        *answers, minimum = endpoint.results(calls)
    except UpstreamRejection:
        return None
    fees = [L1Fees(*contracts.L1_FEES_AT.decode(answer)) for answer in answers]
    ahead = next((place for place, item in enumerate(fees) if item != fees[0]), 0)
    return FeeState(
        contracts.MANA_MIN_FEE_AT.decode(minimum)[0],
        FeeFacts(
            parent=FeeHeader(excess, used, eth_per_fee_asset),
            parent_slot=slot,
            pricing=ManaPricing(pricing.target, pricing.limit, facts.epoch_duration, pricing.proving_cost),
            before=fees[0],
            after=fees[ahead],
            slot_of_change=first + ahead,
        ),
    )


def archives_of(endpoint: L1Endpoint, facts: RollupFacts, numbers: list[int]) -> list[bytes]:
    """Archive roots after checkpoints, zero for those that L1 does not have."""
    answers = endpoint.results([contract_call(facts.rollup, contracts.ARCHIVE_AT, number) for number in numbers])
    return [contracts.ARCHIVE_AT.decode(answer)[0] for answer in answers]


def outbox_root(endpoint: L1Endpoint, facts: RollupFacts, epoch: int) -> bytes:
    """Root of the messages of an epoch, zero if there is none."""
    root: bytes = endpoint.read(facts.outbox, contracts.OUTBOX_ROOT, epoch)[0]
    return root
