"""Payloads of slashing as L1 tells them: those that are there, their signals, which were elected.

event of a payload     topics: payload | data: validators address[] | amounts uint96[] | offenses uint128[][]
offense, packed        kind << 120 | epoch or slot

Events are read anew at each slot of this node, from as far back as a payload lives: what a reorg of L1 has taken is
gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from fastnode.errors import DecodeError
from fastnode.kernels import encode
from fastnode.publishing import votes as forms
from fastnode.publishing.encoding import selector
from fastnode.records import dataclass
from fastnode.sentinel.offenses import OffenseType
from fastnode.sentinel.payloads import ElectedPayload, PayloadTerms, RoundPayload, Slash
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import ADDRESS_BYTES, WORD_BYTES, from_quantity, hex_data
from fastnode.sources.l1.endpoints import L1Endpoint
from fastnode.sources.l1.log_ranges import LogRanges
from fastnode.sources.l1.rollup import RollupFacts

__all__ = ["PayloadContract", "PayloadElections", "PayloadsOnL1", "address_of_payload", "read_payloads", "slash_data"]

_ADDRESS_AND_IS_DEPLOYED: Final = selector("getAddressAndIsDeployed(address[],uint96[],uint128[][])")
_KIND_SHIFT: Final = 120


@dataclass(frozen=True, slots=True)
class PayloadContract:
    """``proposer`` takes signals, ``slasher`` what they elect."""

    slasher: bytes
    proposer: bytes
    terms: PayloadTerms


@dataclass(frozen=True, slots=True)
class PayloadsOnL1:
    """``here``: those with signals in the round; ``elected``: not executed yet, in the order of their election;
    ``slashed``: kind, epoch or slot, validator of all that elected payloads have."""

    here: tuple[RoundPayload, ...]
    elected: tuple[ElectedPayload, ...]
    slashed: frozenset[tuple[int, int, bytes]]

    def was_elected(self, payload: bytes) -> bool:
        return any(each.address == payload for each in self.elected)


def read_payloads(
    endpoint: L1Endpoint,
    facts: RollupFacts,
    contract: PayloadContract,
    factory: bytes | None,
    slot: int,
    l1_slot_s: int,
) -> PayloadsOnL1:
    """As of the newest block, for the round of a slot; without a ``factory`` it is not known what is in payloads.

    UpstreamError, DecodeError.
    """
    terms = contract.terms
    newest = from_quantity(endpoint.results([("eth_blockNumber", [])])[0], "eth_blockNumber")
    lived = (terms.lifetime_rounds + 1) * terms.round_slots * facts.slot_duration // l1_slot_s
    first = max(facts.deployment_block, newest - lived)

    def events(address: bytes, topic: str) -> list[dict[str, Any]]:
        ranges = LogRanges(address, topic)
        return [log for _, logs in ranges.read(endpoint, first, newest) for log in logs]

    created = [] if factory is None else events(factory, forms.PAYLOAD_CREATED)
    made = {_address(log): _slashes(log) for log in created}
    number = slot // terms.round_slots
    signals = Counter(_address(log) for log in events(contract.proposer, forms.SIGNAL_CAST) if _round(log) == number)
    submitted = {(_address(log), _round(log)) for log in events(contract.proposer, forms.PAYLOAD_SUBMITTED)}
    won = [(_address(log), _round(log)) for log in events(contract.proposer, forms.PAYLOAD_SUBMITTABLE)]
    return PayloadsOnL1(
        tuple(RoundPayload(address, count, made[address]) for address, count in signals.items() if address in made),
        tuple(ElectedPayload(*each) for each in won if each not in submitted),
        frozenset(
            (kind, at, slash.validator)
            for address, _ in won
            for slash in made.get(address, ())
            for kind, at in slash.offenses
        ),
    )


def slash_data(slashes: Sequence[Slash]) -> bytes:
    """Arguments of a payload, in the order of the validators: release 4.x sorts them so."""
    ordered = sorted(slashes, key=lambda slash: slash.validator)
    return forms.slash_arguments(
        [slash.validator for slash in ordered],
        [slash.amount for slash in ordered],
        [[kind << _KIND_SHIFT | at for kind, at in sorted(slash.offenses, key=_time)] for slash in ordered],
    )


def address_of_payload(endpoint: L1Endpoint, factory: bytes, data: bytes) -> tuple[bytes, bool]:
    """Address of a payload, and whether it is there already.  UpstreamError."""
    call = {"to": hex_data(factory), "data": hex_data(_ADDRESS_AND_IS_DEPLOYED + data)}
    answer = encode.from_hex(endpoint.results([("eth_call", [call, "latest"])])[0])
    if len(answer) != 3 * WORD_BYTES:
        raise DecodeError("getAddressAndIsDeployed gave something else")
    return answer[WORD_BYTES - ADDRESS_BYTES : WORD_BYTES], any(answer[2 * WORD_BYTES :])


class PayloadElections:
    """As ``sentinel.payloads.payload_to_execute`` asks for them.  UpstreamError."""

    def __init__(self, endpoint: L1Endpoint, facts: RollupFacts, contract: PayloadContract) -> None:
        self._endpoint, self._facts, self._contract = endpoint, facts, contract

    def is_executed(self, number: int) -> bool:
        data = self._endpoint.read(self._contract.proposer, contracts.ROUND_DATA, self._facts.rollup, number)
        return bool(data[2])

    def is_slashing_enabled(self) -> bool:
        return bool(self._endpoint.read(self._contract.slasher, contracts.IS_SLASHING_ENABLED)[0])

    def is_vetoed(self, payload: bytes) -> bool:
        return bool(self._endpoint.read(self._contract.slasher, contracts.IS_VETOED, payload)[0])


def _time(offense: tuple[OffenseType, int]) -> tuple[int, int]:
    return offense[1], offense[0]


def _address(log: dict[str, Any]) -> bytes:
    return encode.from_hex(log["topics"][1])[-ADDRESS_BYTES:]


def _round(log: dict[str, Any]) -> int:
    return int(log["topics"][2], 16)


def _slashes(log: dict[str, Any]) -> tuple[Slash, ...]:
    """DecodeError for an event of another form."""
    data = encode.from_hex(log["data"])
    found = [int.from_bytes(data[at : at + WORD_BYTES], "big") for at in range(0, len(data), WORD_BYTES)]

    def array(at: int) -> list[int]:
        return found[at + 1 : at + 1 + found[at]]

    try:
        validators, amounts, places = (found[index] // WORD_BYTES for index in range(3))
        lists = [array(places + 1 + place // WORD_BYTES) for place in array(places)]
        return tuple(
            Slash(validator.to_bytes(ADDRESS_BYTES, "big"), amount, tuple(map(_unpacked, packed)))
            for validator, amount, packed in zip(array(validators), array(amounts), lists, strict=True)
        )
    except (IndexError, ValueError, OverflowError):
        raise DecodeError("SlashPayloadCreated has another form") from None


def _unpacked(packed: int) -> tuple[OffenseType, int]:
    return OffenseType(packed >> _KIND_SHIFT & 0xFF), packed & (1 << _KIND_SHIFT) - 1
