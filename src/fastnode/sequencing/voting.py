"""Votes of a proposer: signals for a payload of governance, votes on offenses, and the execution of what was decided.

    slot of ours ── what to vote for ── locked and signed as a duty ── simulated ─┬─ in the checkpoint's transaction
                                                                                  └─ alone, if the slot has none

All this goes on in threads of its own, beside the building of blocks; nothing that fails here costs the checkpoint.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from fastnode.errors import (
    CallReverted,
    DecodeError,
    DutyError,
    HaDatabaseError,
    SigningError,
    SlotLost,
    UpstreamError,
    UpstreamRejection,
)
from fastnode.ha.duty import DutyType
from fastnode.kernels import encode
from fastnode.log import log_facts
from fastnode.publishing import votes as forms
from fastnode.publishing.fees import GAS_MAX
from fastnode.publishing.multicall import Call
from fastnode.publishing.requests import Success
from fastnode.records import dataclass
from fastnode.sentinel.offenses import OffenseType
from fastnode.sentinel.payloads import PayloadRules, choose_payload, payload_to_execute
from fastnode.sentinel.tally import VoteRules, encode_votes, execution, tally_votes
from fastnode.sentinel.watch import PENALTIES
from fastnode.sequencing.ballot_reads import (
    SlashingContract,
    TallyRounds,
    read_signal_round,
    read_slashing_contract,
)
from fastnode.sequencing.payload_reads import (
    PayloadContract,
    PayloadElections,
    address_of_payload,
    read_payloads,
    slash_data,
)
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import from_quantity, hex_data
from fastnode.sources.l1.endpoints import L1Endpoint, is_revert
from fastnode.sources.l1.log_ranges import LogRanges

if TYPE_CHECKING:
    from fastnode.publishing.simulation import Simulator
    from fastnode.sentinel.offenses import Offense
    from fastnode.sequencing.l1_publication import KeyDoor, L1Publication
    from fastnode.sequencing.turns import Turn
    from fastnode.sources.l1.rollup import RollupFacts
    from fastnode.sources.l1.service import L1Reader

__all__ = ["Ballot", "Vote", "Voting", "VotingParts"]

logger = logging.getLogger("fastnode.sequencer")

#: A signal may cost much more than its simulation says: it may make its payload executable.
_SIGNAL_GAS: Final = 800_000
_INNER: Final = 63
#: Time that a checkpoint waits for the votes that go with it, in seconds.
_WAIT_S: Final = 2.0
_NO_ADDRESS: Final = bytes(20)
#: Votes of two slots at a time: those of one may wait for L1 while the next begins.
_THREADS: Final = 2

_GOVERNANCE, _SLASHING = "governance", "slashing"
_TROUBLE: Final = (CallReverted, UpstreamError, DecodeError, SigningError, HaDatabaseError, SlotLost, ValueError)


class Configuration(Protocol):
    def __getitem__(self, name: str, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class Vote:
    """``kind``: governance or slashing; ``what`` names it in the log."""

    kind: str
    what: str
    call: Call
    success: Success


@dataclass(frozen=True, slots=True, kw_only=True)
class VotingParts:
    """``offenses``: all that are known and have not expired; ``configuration`` gives the values of
    nodeAdmin_getConfig; addresses None: there is no such contract."""

    reader: L1Reader
    door: KeyDoor
    publisher: L1Publication
    simulator: Simulator
    configuration: Configuration
    offenses: Callable[[], Sequence[Offense]]
    chain_id: int
    governance: bytes | None
    #: Makes payloads of slashing, where L1 takes such; what is in them is known from it alone.
    slash_factory: bytes | None = None


class Ballot:
    """The votes of one slot, while they are made and once they are there."""

    def __init__(self, votes: Future[list[Vote]]) -> None:
        self._votes = votes
        self._lock = threading.Lock()
        self._is_taken = False

    def take(self, wait_s: float = _WAIT_S) -> list[Vote]:
        """Take the votes if nobody has taken them; none when they are not there in time."""
        try:
            votes = self._votes.result(wait_s)
        except TimeoutError:
            return []
        with self._lock:
            is_taken, self._is_taken = self._is_taken, True
        return [] if is_taken else votes

    def give_back(self) -> None:
        """They were not sent."""
        with self._lock:
            self._is_taken = False


class Voting:
    """``begin`` and ``cast_alone`` from the proposer's thread."""

    def __init__(self, parts: VotingParts) -> None:
        self._parts = parts
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="fastnode-votes")
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._contract: SlashingContract | PayloadContract | None = None
        self._committees: dict[int, tuple[bytes, ...] | None] = {}
        #: Payloads that governance has got; up to which block they were looked for, by contract.
        self._submitted: dict[bytes, tuple[int, set[bytes]]] = {}

    def close(self) -> None:
        """Waits for what is under way.  May be called more than once."""
        self._threads.shutdown(cancel_futures=True)

    def describe(self) -> dict[str, dict[str, int]]:
        """Counts of votes that L1 has counted, that failed, and that another node has cast, by kind."""
        with self._lock:
            counts = dict(self._counts)
        outcomes = ("cast", "failed", "yielded")
        return {kind: {item: counts.get((kind, item), 0) for item in outcomes} for kind in (_GOVERNANCE, _SLASHING)}

    # ---- a slot ----------------------------------------------------------------------------------

    def begin(self, facts: RollupFacts, turn: Turn, at: int) -> Ballot | None:
        """Make the votes of a slot; None where nobody can vote.  ``at``: what the next L1 block can have."""
        proposer = turn.proposer
        if proposer is None:
            return None
        try:
            return Ballot(self._threads.submit(self._make, facts, turn.slot, proposer, max(at, turn.timestamp)))
        except RuntimeError:  # the node stops
            return None

    def cast_alone(self, ballot: Ballot, turn: Turn) -> None:
        """Send what no checkpoint has taken along; returns at once."""

        def cast() -> None:
            votes = ballot.take()
            if not votes:
                return
            try:
                calls, success = [vote.call for vote in votes], votes[0].success
                reader = self._parts.reader
                end = reader.seen()[0].start_of_slot(turn.slot + 1)
                logs = self._parts.publisher.cast(
                    calls, success, slot=turn.slot, attester=turn.proposer, not_after=end - reader.slot_duration
                )
                self.note(votes, logs)
            except (SlotLost, UpstreamError) as error:
                self._failed(votes, str(error))

        try:
            self._threads.submit(cast)
        except RuntimeError:
            return

    def note(self, votes: Iterable[Vote], logs: Sequence[Any]) -> None:
        """``logs``: of the transaction that had them."""
        for vote in votes:
            if vote.success.is_in(logs):
                self._count(vote.kind, "cast")
                logger.info("voted", extra=log_facts(vote=vote.what))
            else:
                self._failed([vote], "L1 has not counted it")

    def _failed(self, votes: Iterable[Vote], reason: str) -> None:
        for vote in votes:
            self._count(vote.kind, "failed")
            logger.warning("a vote is not cast", extra=log_facts(vote=vote.what, reason=reason))

    def _count(self, kind: str, outcome: str) -> None:
        with self._lock:
            self._counts[kind, outcome] += 1

    def _make(self, facts: RollupFacts, slot: int, proposer: bytes, at: int) -> list[Vote]:
        made: list[Vote] = []
        for kind, make in ((_GOVERNANCE, self._governance), (_SLASHING, self._slashing)):
            try:
                made += make(facts, slot, proposer, at)
            except DutyError as error:
                self._count(kind, "yielded")
                logger.info("another node votes", extra=log_facts(kind=kind, slot=slot, reason=str(error)))
            except _TROUBLE as error:
                self._count(kind, "failed")
                logger.warning("no vote is made", extra=log_facts(kind=kind, slot=slot, reason=str(error)))
            except Exception:
                self._count(kind, "failed")
                logger.exception("no vote is made")
        return made

    # ---- governance --------------------------------------------------------------------------------

    def _governance(self, facts: RollupFacts, slot: int, proposer: bytes, at: int) -> list[Vote]:
        """A signal for the payload, unless it is decided, has no code, or this slot has its signal."""
        payload, contract = self._address("governanceProposerPayload"), self._parts.governance
        if payload is None or contract is None:
            return []
        parts = self._parts
        number = parts.reader.run(lambda endpoint: read_signal_round(endpoint, facts, contract, payload, slot))
        if number.has_quorum or number.last_slot >= slot:
            return []
        if not number.is_payload_there:
            logger.warning("no signal for a payload without code", extra=log_facts(payload=payload, slot=slot))
            return []
        if parts.reader.run(lambda endpoint: self._was_submitted(endpoint, facts, contract, payload)):
            return []
        typed = forms.signal(payload, slot, number.instance, contract, parts.chain_id)
        signature = parts.door.sign_typed(proposer, DutyType.GOVERNANCE_VOTE, typed.digest, typed.to_json(), slot=slot)
        what = f"signal for {hex_data(payload)} in slot {slot}, round {number.number}"
        call = Call(contract, forms.signal_call(payload, signature), _SIGNAL_GAS)
        self._simulated(call, proposer, at, what)
        topics = (forms.SIGNAL_CAST, _topic(payload))
        return [Vote(_GOVERNANCE, what, call, Success(contract, topics))]

    def _was_submitted(self, endpoint: L1Endpoint, facts: RollupFacts, contract: bytes, payload: bytes) -> bool:
        """True if a payload has won before: it is not voted for again."""
        read_to, found = self._submitted.get(contract, (facts.deployment_block - 1, set()))
        newest = from_quantity(endpoint.results([("eth_blockNumber", [])])[0], "eth_blockNumber")
        ranges = LogRanges(contract, forms.PAYLOAD_SUBMITTED)
        for end, logs in ranges.read(endpoint, read_to + 1, newest):
            found |= {encode.from_hex(log["topics"][1])[-len(_NO_ADDRESS) :] for log in logs}
            self._submitted[contract] = end, found
        return payload in found

    # ---- slashing ----------------------------------------------------------------------------------

    def _slashing(self, facts: RollupFacts, slot: int, proposer: bytes, at: int) -> list[Vote]:
        reader = self._parts.reader
        contract = reader.run(lambda endpoint: read_slashing_contract(endpoint, facts, self._contract))
        self._contract = contract
        if contract is None:
            return []
        if isinstance(contract, PayloadContract):
            return self._payloads(facts, slot, proposer, at, contract)
        return self._tally(facts, slot, proposer, at, contract)

    def _payloads(
        self, facts: RollupFacts, slot: int, proposer: bytes, at: int, contract: PayloadContract
    ) -> list[Vote]:
        """Votes where L1 takes whole payloads: an elected one is executed, one is made if that is best, one backed."""
        parts, rules, terms = self._parts, self._payload_rules(), contract.terms
        factory, reader = parts.slash_factory, parts.reader
        known = reader.run(
            lambda endpoint: read_payloads(endpoint, facts, contract, factory, slot, reader.slot_duration)
        )
        made: list[Vote] = []
        found = reader.run(
            lambda endpoint: payload_to_execute(slot, known.elected, terms, PayloadElections(endpoint, facts, contract))
        )
        if found is not None:
            what = f"execution of payload {hex_data(found.address)} of round {found.round} in slot {slot}"
            topics = (forms.PAYLOAD_SUBMITTED, _topic(found.address))
            made += self._call(what, contract.proposer, forms.submit_winner(found.round), topics, proposer, at)
        if rules.override is not None and known.was_elected(rules.override):
            rules = replace(rules, override=None)
        pending = [offense for offense in parts.offenses() if offense.key not in known.slashed]
        choice = choose_payload(slot, known.here, pending, terms, rules)
        if choice is None:
            return made
        payload, is_new = choice.address, False
        if payload is None:
            if factory is None:
                return made
            data = slash_data(choice.slashes)
            payload, is_there = reader.run(lambda endpoint: address_of_payload(endpoint, factory, data))
            is_new = not is_there
            if is_new:
                what = f"payload {hex_data(payload)} for {len(choice.slashes)} offenses in slot {slot}"
                topics = (forms.PAYLOAD_CREATED, _topic(payload))
                created = self._call(what, factory, forms.create_payload(data), topics, proposer, at)
                if not created:
                    return made
                made += created
        return made + self._back(facts, slot, proposer, at, contract, payload, is_new=is_new)

    def _back(
        self,
        facts: RollupFacts,
        slot: int,
        proposer: bytes,
        at: int,
        contract: PayloadContract,
        payload: bytes,
        *,
        is_new: bool,
    ) -> list[Vote]:
        """A signal for a payload, unless this slot has its signal.  ``is_new``: it is made in the same transaction."""
        parts, target = self._parts, contract.proposer
        number = parts.reader.run(lambda endpoint: read_signal_round(endpoint, facts, target, payload, slot))
        if number.last_slot >= slot or number.has_quorum:
            return []
        typed = forms.signal(payload, slot, number.instance, target, parts.chain_id)
        signature = parts.door.sign_typed(proposer, DutyType.SLASHING_VOTE, typed.digest, typed.to_json(), slot=slot)
        what = f"signal for payload {hex_data(payload)} in slot {slot}, round {number.number}"
        call = Call(target, forms.signal_call(payload, signature), _SIGNAL_GAS)
        if not is_new:
            self._simulated(call, proposer, at, what)
        return [Vote(_SLASHING, what, call, Success(target, (forms.SIGNAL_CAST, _topic(payload))))]

    def _payload_rules(self) -> PayloadRules:
        configuration = self._parts.configuration
        names = {**PENALTIES, OffenseType.UNKNOWN: "slashUnknownPenalty"}
        return PayloadRules(
            penalties={kind: int(configuration[name]) for kind, name in names.items()},
            validators_max=int(configuration["slashMaxPayloadSize"]),
            expiration_rounds=int(configuration["slashOffenseExpirationRounds"]),
            least=float(configuration["slashMinPenaltyPercentage"]),
            most=float(configuration["slashMaxPenaltyPercentage"]),
            override=self._address("slashOverridePayload"),
        )

    def _tally(self, facts: RollupFacts, slot: int, proposer: bytes, at: int, contract: SlashingContract) -> list[Vote]:
        parts, rules, terms = self._parts, self._rules(), contract.terms
        made: list[Vote] = []
        votes = parts.reader.run(
            lambda endpoint: tally_votes(
                slot, parts.offenses(), terms, rules, lambda epoch: self._committee(endpoint, facts, epoch)
            )
        )
        if votes is not None:
            encoded = encode_votes(votes.votes)
            typed = forms.vote(encoded, slot, contract.proposer, parts.chain_id)
            signature = parts.door.sign_typed(
                proposer, DutyType.SLASHING_VOTE, typed.digest, typed.to_json(), slot=slot
            )
            what = f"votes {hex_data(encoded)} on offenses of round {votes.slashed} in slot {slot}, round {votes.round}"
            topics = (forms.VOTE_CAST, _topic(votes.round), _topic(slot))
            data = forms.vote_call(encoded, signature)
            made += self._call(what, contract.proposer, data, topics, proposer, at)
        found = parts.reader.run(lambda endpoint: execution(slot, terms, rules, TallyRounds(endpoint, contract)))
        if found is not None:
            what = f"execution of slashing round {found.round} in slot {slot}"
            executed = (forms.ROUND_EXECUTED, _topic(found.round))
            data = forms.execute_round(found.round, found.committees)
            made += self._call(what, contract.proposer, data, executed, proposer, at)
        return made

    def _call(
        self, what: str, target: bytes, data: bytes, topics: tuple[str, ...], proposer: bytes, at: int
    ) -> list[Vote]:
        """A call whose simulation says that it does what it should; else none, which is told of."""
        try:
            gas = self._simulated(Call(target, data), proposer, at, what)
        except CallReverted as error:
            self._count(_SLASHING, "failed")
            logger.warning("a vote is not cast", extra=log_facts(vote=what, reason=str(error)))
            return []
        return [Vote(_SLASHING, what, Call(target, data, gas), Success(target, topics))]

    def _simulated(self, call: Call, proposer: bytes, at: int, what: str) -> int:
        """Gas that it may take in a bundle.  CallReverted."""
        sender = self._parts.publisher.sender_of(proposer)
        simulated = self._parts.simulator.simulate(call, sender, at + 1, what=what)
        # A vote that L1 cannot simulate must leave room for the proposal beside it.
        used = simulated.gas_used if simulated.is_certain else _SIGNAL_GAS
        return min(GAS_MAX, -(-used * (_INNER + 1) // _INNER))

    def _committee(self, endpoint: L1Endpoint, facts: RollupFacts, epoch: int) -> tuple[bytes, ...] | None:
        """Committee of an epoch that is over; None: it has none."""
        if epoch not in self._committees:
            try:
                committee = endpoint.read(facts.rollup, contracts.COMMITTEE_OF_EPOCH, epoch)[0]
            except UpstreamRejection as error:
                if not is_revert(error):
                    raise
                committee = ()
            self._committees[epoch] = committee or None
            for old in sorted(self._committees)[:-_COMMITTEES_MAX]:
                del self._committees[old]
        return self._committees[epoch]

    def _rules(self) -> VoteRules:
        configuration = self._parts.configuration
        never = set(map(encode.from_hex, configuration["slashValidatorsNever"] or ()))
        if not configuration["slashSelfAllowed"]:
            never |= set(self._parts.door.own())
        return VoteRules(
            always=list(map(encode.from_hex, configuration["slashValidatorsAlways"] or ())),
            never=never,
            validators_max=int(configuration["slashMaxPayloadSize"]),
            look_back_rounds=int(configuration["slashExecuteRoundsLookBack"]),
        )

    def _address(self, name: str) -> bytes | None:
        """Address of this name in the configuration; None: there is none."""
        text = self._parts.configuration[name]
        address = None if text is None else encode.from_hex(text)
        return None if address == _NO_ADDRESS else address


#: Epochs whose committees are remembered.
_COMMITTEES_MAX: Final = 64


def _topic(value: int | bytes) -> str:
    return f"0x{value:064x}" if isinstance(value, int) else "0x" + value.hex().rjust(64, "0")
