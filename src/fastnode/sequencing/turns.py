"""Turns of proposers as L1 says them: whose slot it is and what it is built on.

A proposal may not be made to stand on what L1 does not have: the contract is asked, at the time that the next block of
L1 can have, whether it would take a checkpoint on our tip (``canProposeAtTime``), and what gas must cost in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fastnode.errors import DecodeError, SlotLost, UpstreamRejection
from fastnode.publishing.reverts import reverted_of
from fastnode.records import dataclass
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import ADDRESS_BYTES, Function, Kind, hex_data
from fastnode.sources.l1.endpoints import L1Endpoint, contract_call
from fastnode.sources.l1.rollup import RollupFacts
from fastnode.sources.l1.terms import STATE_SLOT

__all__ = [
    "CAN_PROPOSE",
    "Turn",
    "is_hatch_open",
    "pending_override",
    "read_minimum_fee",
    "read_proposers",
    "read_turn",
    "require_turn",
]

#: Slot and number of a checkpoint on this archive by this proposer, at this time.
CAN_PROPOSE: Final = Function("canProposeAtTime(uint256,bytes32,address)", Kind.NUMBER, Kind.NUMBER)
_NO_ADDRESS: Final = bytes(ADDRESS_BYTES)
_HALF_WORD: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A slot and who may propose in it.  ``proposer`` None: there is no committee, so anybody may."""

    slot: int
    timestamp: int
    committee: tuple[bytes, ...]
    proposer: bytes | None


def read_turn(endpoint: L1Endpoint, facts: RollupFacts, slot: int) -> Turn:
    """UpstreamError; SlotLost when no validator can propose."""
    time = facts.start_of_slot(slot)
    if facts.target_committee_size == 0:
        return Turn(slot=slot, timestamp=time, committee=(), proposer=None)
    calls = [
        contract_call(facts.rollup, function, time) for function in (contracts.COMMITTEE_AT, contracts.PROPOSER_AT)
    ]
    answers = endpoint.answers(calls)
    for answer in answers:
        if isinstance(answer, UpstreamRejection):
            raise SlotLost(f"L1 has no committee for slot {slot}: {answer.message}")
    committee: Sequence[bytes] = contracts.COMMITTEE_AT.decode(answers[0])[0]
    proposer: bytes = contracts.PROPOSER_AT.decode(answers[1])[0]
    if not committee or proposer == _NO_ADDRESS:
        return Turn(slot=slot, timestamp=time, committee=(), proposer=None)
    return Turn(slot=slot, timestamp=time, committee=tuple(committee), proposer=proposer)


def read_proposers(endpoint: L1Endpoint, facts: RollupFacts, slots: Sequence[int]) -> dict[int, bytes | None]:
    """Proposers of slots that are over, None where anybody could propose; without slots that no validator could
    propose in.  UpstreamError."""
    if facts.target_committee_size == 0:
        return dict.fromkeys(slots)
    calls = [contract_call(facts.rollup, contracts.PROPOSER_AT, facts.start_of_slot(slot)) for slot in slots]
    found: dict[int, bytes | None] = {}
    for slot, answer in zip(slots, endpoint.answers(calls), strict=True):
        if not isinstance(answer, UpstreamRejection):
            proposer: bytes = contracts.PROPOSER_AT.decode(answer)[0]
            found[slot] = None if proposer == _NO_ADDRESS else proposer
    return found


def is_hatch_open(endpoint: L1Endpoint, facts: RollupFacts, slot: int) -> bool:
    """While the escape hatch is open only its own proposer may propose."""
    if facts.target_committee_size == 0:
        return False
    epoch = slot // facts.epoch_duration
    try:
        hatch = endpoint.read(facts.rollup, contracts.ESCAPE_HATCH_OF_EPOCH, epoch)[0]
        return hatch != _NO_ADDRESS and bool(endpoint.read(hatch, contracts.IS_HATCH_OPEN, epoch)[0])
    except (UpstreamRejection, DecodeError):
        return False  # a rollup without one


def pending_override(facts: RollupFacts, pending: int, proven: int) -> dict[str, Any]:
    """State of L1 for a call: as if ``pending`` were the newest checkpoint."""
    value = f"0x{pending << _HALF_WORD | proven:064x}"
    return {hex_data(facts.rollup): {"stateDiff": {f"0x{STATE_SLOT:064x}": value}}}


def require_turn(
    endpoint: L1Endpoint,
    facts: RollupFacts,
    turn: Turn,
    *,
    at: int,
    archive: bytes,
    checkpoint: int,
    override: dict[str, Any] | None = None,
) -> None:
    """SlotLost unless the contract would take checkpoint ``checkpoint`` on ``archive`` from the proposer, at a time."""
    method, [call, block] = contract_call(facts.rollup, CAN_PROPOSE, at, archive, turn.proposer or _NO_ADDRESS)
    parameters = [call, block] if override is None else [call, block, override]
    answer = endpoint.answers([(method, parameters)])[0]
    if isinstance(answer, UpstreamRejection):
        what = "a checkpoint on ours"
        raise SlotLost(str(reverted_of(answer, what) or f"{what} was refused: {answer.message}"))
    slot, number = CAN_PROPOSE.decode(answer)
    if (slot, number) != (turn.slot, checkpoint):
        raise SlotLost(
            f"L1 would take checkpoint {number} in slot {slot} now, not checkpoint {checkpoint} in slot {turn.slot}"
        )


def read_minimum_fee(
    endpoint: L1Endpoint, facts: RollupFacts, turn: Turn, override: dict[str, Any] | None = None
) -> int:
    """Price of a unit of L2 gas in the slot: the contract takes this value alone."""
    method, [call, block] = contract_call(facts.rollup, contracts.MANA_MIN_FEE_AT, turn.timestamp, 1)
    parameters = [call, block] if override is None else [call, block, override]
    answer = endpoint.results([(method, parameters)])[0]
    fee: int = contracts.MANA_MIN_FEE_AT.decode(answer)[0]
    return fee
