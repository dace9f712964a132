"""Reads of votes on L1: how they are counted, and what became of rounds and payloads.

An array of arrays in an answer:  offset 32 | count | where each begins, from the count on | count, members ...
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fastnode.errors import DecodeError
from fastnode.publishing.encoding import address_word, addresses, arguments, selector, word
from fastnode.publishing.votes import arrays
from fastnode.records import dataclass
from fastnode.sentinel.payloads import PayloadTerms
from fastnode.sentinel.tally import TallyTerms
from fastnode.sequencing.payload_reads import PayloadContract
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import ADDRESS_BYTES, WORD_BYTES, hex_data, words_of
from fastnode.sources.l1.endpoints import L1Endpoint
from fastnode.sources.l1.rollup import RollupFacts

__all__ = ["SignalRound", "SlashingContract", "TallyRounds", "read_signal_round", "read_slashing_contract"]

_TALLY, _PAYLOADS = 1, 2
_TARGET_COMMITTEES: Final = selector("getSlashTargetCommittees(uint256)")
_TALLY_OF: Final = selector("getTally(uint256,address[][])")
_PAYLOAD_ADDRESS: Final = selector("getPayloadAddress(uint256,(address,uint256)[])")


@dataclass(frozen=True, slots=True)
class SlashingContract:
    """``proposer`` takes votes, ``slasher`` what they decide."""

    slasher: bytes
    proposer: bytes
    terms: TallyTerms


def read_slashing_contract(
    endpoint: L1Endpoint, facts: RollupFacts, known: SlashingContract | PayloadContract | None
) -> SlashingContract | PayloadContract | None:
    """Current slashing contract, which the rollup may change; None for none, or one of another form.  UpstreamError."""
    slasher = endpoint.read(facts.rollup, contracts.SLASHER)[0]
    if not any(slasher):
        return None
    proposer = endpoint.read(slasher, contracts.SLASHING_PROPOSER)[0]
    if not any(proposer):
        return None
    if known is not None and (known.slasher, known.proposer) == (slasher, proposer):
        return known

    def number(function: Any) -> int:
        return int(endpoint.read(proposer, function)[0])

    kind = number(contracts.SLASHING_PROPOSER_TYPE)
    if kind == _TALLY:
        small, medium, large = map(number, contracts.SLASH_AMOUNTS)
        return SlashingContract(
            slasher,
            proposer,
            TallyTerms(
                round_slots=number(contracts.ROUND_SIZE),
                epoch_slots=facts.epoch_duration,
                offset_rounds=number(contracts.SLASH_OFFSET_IN_ROUNDS),
                execution_delay_rounds=number(contracts.EXECUTION_DELAY_IN_ROUNDS),
                lifetime_rounds=number(contracts.LIFETIME_IN_ROUNDS),
                quorum=number(contracts.TALLY_QUORUM),
                committee_size=number(contracts.COMMITTEE_SIZE),
                amounts=(small, medium, large),
            ),
        )
    if kind == _PAYLOADS:
        return PayloadContract(
            slasher,
            proposer,
            PayloadTerms(
                round_slots=number(contracts.ROUND_SIZE),
                epoch_slots=facts.epoch_duration,
                proof_epochs=facts.proof_submission_epochs,
                quorum=number(contracts.QUORUM_SIZE),
                execution_delay_rounds=number(contracts.EXECUTION_DELAY_IN_ROUNDS),
                lifetime_rounds=number(contracts.LIFETIME_IN_ROUNDS),
            ),
        )
    return None


class TallyRounds:
    """Rounds of a contract that tallies votes, as ``sentinel.tally.execution`` asks for them.  UpstreamError."""

    def __init__(self, endpoint: L1Endpoint, contract: SlashingContract) -> None:
        self._endpoint = endpoint
        self._contract = contract

    def is_slashing_enabled(self) -> bool:
        return bool(self._endpoint.read(self._contract.slasher, contracts.IS_SLASHING_ENABLED)[0])

    def round(self, number: int) -> tuple[bool, int]:
        is_executed, count = self._endpoint.read(self._contract.proposer, contracts.TALLY_ROUND, number)
        return is_executed, count

    def is_ready(self, number: int, slot: int) -> bool:
        return bool(self._endpoint.read(self._contract.proposer, contracts.IS_ROUND_READY, number, slot)[0])

    def tally(self, number: int) -> tuple[list[tuple[bytes, int]], list[list[bytes]]]:
        committees = _arrays_of(self._ask(_TARGET_COMMITTEES + word(number)))
        given = _TALLY_OF + arguments(word(number), (arrays(map(addresses, committees)),))
        _, count, *members = self._ask(given)
        pairs = zip(members[::2], members[1::2], strict=True)
        actions = [(validator[-ADDRESS_BYTES:], int.from_bytes(amount, "big")) for validator, amount in pairs]
        if len(actions) != int.from_bytes(count, "big"):
            raise DecodeError("getTally: no array")
        return actions, committees

    def payload(self, number: int, actions: Sequence[tuple[bytes, int]], _committees: object) -> bytes:
        pairs = b"".join(address_word(validator) + word(amount) for validator, amount in actions)
        return self._ask(_PAYLOAD_ADDRESS + arguments(word(number), (word(len(actions)) + pairs,)))[0][-ADDRESS_BYTES:]

    def is_vetoed(self, payload: bytes) -> bool:
        return bool(self._endpoint.read(self._contract.slasher, contracts.IS_VETOED, payload)[0])

    def _ask(self, data: bytes) -> list[bytes]:
        call = {"to": hex_data(self._contract.proposer), "data": hex_data(data)}
        return words_of(self._endpoint.results([("eth_call", [call, "latest"])])[0], "eth_call")


def _arrays_of(found: list[bytes]) -> list[list[bytes]]:
    """``address[][]``; DecodeError."""
    begin = 2
    try:
        arrays_found = []
        for place in found[begin : begin + int.from_bytes(found[1], "big")]:
            at = begin + int.from_bytes(place, "big") // WORD_BYTES
            size = int.from_bytes(found[at], "big")
            arrays_found.append([item[-ADDRESS_BYTES:] for item in found[at + 1 : at + 1 + size]])
    except IndexError:
        raise DecodeError("no array of arrays") from None
    return arrays_found


@dataclass(frozen=True, slots=True)
class SignalRound:
    """``last_slot``: of the newest signal; ``instance``: the rollup whose proposers are counted."""

    number: int
    instance: bytes
    last_slot: int
    has_quorum: bool
    is_payload_there: bool


def read_signal_round(
    endpoint: L1Endpoint, facts: RollupFacts, contract: bytes, payload: bytes, slot: int
) -> SignalRound:
    """The round of a slot, of a contract that takes signals for payloads.  UpstreamError."""
    number = int(endpoint.read(contract, contracts.ROUND_OF_SLOT, slot)[0])
    last_slot, leading, _ = endpoint.read(contract, contracts.ROUND_DATA, facts.rollup, number)
    signals = endpoint.read(contract, contracts.SIGNAL_COUNT, facts.rollup, number, leading)[0]
    code = endpoint.results([("eth_getCode", [hex_data(payload), "latest"])])[0]
    if not isinstance(code, str):
        raise DecodeError("eth_getCode gave no text")
    return SignalRound(
        number,
        endpoint.read(contract, contracts.INSTANCE)[0],
        last_slot,
        signals >= endpoint.read(contract, contracts.QUORUM_SIZE)[0],
        len(code) > len("0x"),
    )
