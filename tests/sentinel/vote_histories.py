"""Random histories of offenses, and what this node's decisions are in them; the same for the same seed.

python -m tests.sentinel.vote_histories CASES [payloads]     writes them for ``vote_decisions.mjs``
"""

from __future__ import annotations

import json
import random
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from fastnode.sentinel.offense_store import OffenseStore
from fastnode.sentinel.offenses import ALL, Offense, OffenseType, RoundSize
from fastnode.sentinel.payloads import (
    ElectedPayload,
    PayloadRules,
    PayloadTerms,
    RoundPayload,
    Slash,
    choose_payload,
    payload_to_execute,
)
from fastnode.sentinel.tally import TallyTerms, VoteRules, encode_votes, execution, tally_votes
from fastnode.sentinel.watch import PENALTIES, OffenseWatch

SEED: Final = 20_261_124
COUNT: Final = 1_000
SLOT_S: Final = 36
UNITS: Final = 10

Case = dict[str, Any]


def address(number: int) -> bytes:
    return bytes([number + 1]) * 20


def text(value: bytes) -> str:
    return "0x" + value.hex()


def raw(value: str) -> bytes:
    return bytes.fromhex(value[2:])


def cases(count: int = COUNT, seed: int = SEED) -> list[Case]:
    chance = random.Random(seed)
    return [_tally_case(chance) for _ in range(count)]


def _common(chance: random.Random) -> Case:
    epoch_slots, round_epochs = chance.choice((1, 2, 4, 5)), chance.randint(1, 4)
    round_slots = epoch_slots * round_epochs
    slot = chance.randint(0, 12 * round_slots)
    validators = [address(number) for number in range(chance.randint(2, 9))]
    # Near each other and near the slot, so that rounds, epochs and validators meet.
    offenses = []
    for _ in range(chance.randint(0, 25)):
        kind = OffenseType(chance.randint(1, 9))
        happened = max(0, slot - chance.randint(0, 6 * round_slots))
        at = happened // epoch_slots if kind.is_of_epoch else happened
        offenses.append([text(chance.choice(validators)), int(kind), at])
    return {
        "slot": slot,
        "epochSlots": epoch_slots,
        "roundSlots": round_slots,
        "validators": [text(item) for item in validators],
        "offenses": offenses,
        "config": {
            **{name: chance.choice((0, 3, UNITS, 15, 2 * UNITS, 31)) for name in sorted(set(PENALTIES.values()))},
            "slashMaxPayloadSize": chance.choice((0, 1, 2, 5, 50, 50, 50)),
            "slashOffenseExpirationRounds": chance.choice((0, 1, 2, 4, 4, 8)),
            "slashGracePeriodL2Slots": chance.choice((0, 0, 0, 5, 20)),
            "slashExecuteRoundsLookBack": chance.randint(0, 6),
        },
        "isEnabled": chance.random() < 0.9,
    }


def _tally_case(chance: random.Random) -> Case:
    case = _common(chance)
    validators, size = case["validators"], chance.choice((2, 4, 6))
    epochs = range(case["slot"] // case["epochSlots"] + 2)

    def some() -> list[str]:
        return chance.sample(validators, chance.choice((0, 0, 0, 1, 2)))

    def members() -> list[str] | None:
        return None if chance.random() < 0.1 else chance.sample(validators, min(size, len(validators)))

    rounds = case["slot"] // case["roundSlots"] + 1
    case["config"] |= {"slashValidatorsAlways": some(), "slashValidatorsNever": some()}
    return case | {
        "committeeSize": size,
        "offset": chance.randint(0, 3),
        "delay": chance.randint(0, 3),
        "lifetime": chance.randint(1, 6),
        "quorum": chance.randint(1, 4),
        "amounts": sorted(chance.choice((UNITS, 2 * UNITS, 3 * UNITS, 5)) for _ in range(3)),
        "committees": [members() for _ in epochs],
        "rounds": [
            {
                "isExecuted": chance.random() < 0.2,
                "votes": chance.randint(0, 5),
                "isReady": chance.random() < 0.9,
                "slashed": chance.sample(validators, chance.choice((0, 1, 1, 2))),
                "committees": [members() or [] for _ in range(case["roundSlots"] // case["epochSlots"])],
                "isVetoed": chance.random() < 0.2,
            }
            for _ in range(rounds)
        ],
    }


def payload_cases(count: int = COUNT, seed: int = SEED) -> list[Case]:
    chance = random.Random(seed)
    return [_payload_case(chance) for _ in range(count)]


def _payload_case(chance: random.Random) -> Case:
    case = _common(chance)
    config, number = case["config"], case["slot"] // case["roundSlots"]
    config |= {
        "slashMinPenaltyPercentage": chance.choice((0, 0.25, 0.5, 1)),
        "slashMaxPenaltyPercentage": chance.choice((1, 1.5, 2, 10)),
        "slashUnknownPenalty": 0,
    }

    def payload(place: int) -> Case:
        """A payload of offenses that are known, or nearly."""
        chosen = chance.sample(case["offenses"], min(len(case["offenses"]), chance.choice((0, 1, 1, 2, 3, 6))))
        slashes = [
            [who, config[PENALTIES[OffenseType(kind)]] * chance.choice((1, 1, 1, 1, 2, 3)), [[kind, at]]]
            for who, kind, at in chosen
        ]
        if slashes and chance.random() < 0.15:
            slashes[0][2][0][1] += 1
        return {"address": "0x" + f"{place + 1:02x}" * 20, "slashes": slashes}

    order = chance.sample(range(40), 8)
    elected = sorted(chance.sample(range(number), min(number, chance.choice((0, 0, 1, 1, 2)))))
    return case | {
        "proofEpochs": chance.randint(1, 3),
        "quorum": chance.randint(case["roundSlots"] // 2 + 1, max(case["roundSlots"] // 2 + 1, case["roundSlots"])),
        "delay": chance.randint(0, 2),
        "lifetime": chance.randint(3, 6),
        "payloads": [
            payload(place) | {"signals": chance.choice((0, 1, 1, 2, 3, chance.randint(0, case["roundSlots"])))}
            for place in order[: chance.choice((0, 0, 1, 2, 4))]
        ],
        "elected": [
            payload(100 + round_)
            | {"round": round_, "isExecuted": chance.random() < 0.3, "isVetoed": chance.random() < 0.2}
            for round_ in elected
        ],
        "override": text(address(90)) if chance.random() < 0.05 else None,
    }


# ---- what this node decides --------------------------------------------------------------------------


class _View:
    """A chain without checkpoints, in a slot."""

    def __init__(self, epoch_slots: int) -> None:
        self.chain = SimpleNamespace(epoch_duration=epoch_slots, slot_duration=SLOT_S, l1_genesis_time=0)
        self.tips = SimpleNamespace(checkpointed=SimpleNamespace(checkpoint=SimpleNamespace(number=0)))

    def checkpoint(self, _number: int) -> None:
        return None


class _NoDisk:
    """A database that forgets: thousands of synced writes are not what is asked about."""

    fault = None

    def get(self, _key: bytes) -> None:
        return None

    def write(self, _changes: object) -> None: ...

    def snapshot(self) -> Any:
        return SimpleNamespace(iterator=lambda prefix: nullcontext(()), close=lambda: None)


def known_offenses(case: Case) -> list[Offense]:
    """Through the node's own watch: the grace period, repetitions, what has expired."""
    store = OffenseStore(_NoDisk())  # type: ignore[arg-type]
    view: Any = _View(case["epochSlots"])
    sentinel: Any = SimpleNamespace(
        history_epochs=1,
        watches_from=lambda _view: 0,
        proven_performance=lambda _view: {},
        knows_l1=False,
        current_slot=lambda _view: case["slot"],
    )
    size = RoundSize(case["roundSlots"] // case["epochSlots"], case.get("offset", 0))
    config = {"slashInactivityTargetPercentage": 0.9, "slashInactivityConsecutiveEpochThreshold": 1} | case["config"]
    watch = OffenseWatch(sentinel, config, size, store)
    for validator, kind, at in case["offenses"]:
        watch.accuse(OffenseType(kind), raw(validator), at, case["epochSlots"])
    return watch.offenses(view, ALL)


def decide(case: Case) -> list[Any]:
    """Actions in the form of ``vote_decisions.mjs``."""
    offenses = known_offenses(case)
    config = case["config"]
    terms = TallyTerms(
        round_slots=case["roundSlots"],
        epoch_slots=case["epochSlots"],
        offset_rounds=case["offset"],
        execution_delay_rounds=case["delay"],
        lifetime_rounds=case["lifetime"],
        quorum=case["quorum"],
        committee_size=case["committeeSize"],
        amounts=tuple(case["amounts"]),
    )
    rules = VoteRules(
        always=[raw(item) for item in config["slashValidatorsAlways"]],
        never={raw(item) for item in config["slashValidatorsNever"]},
        validators_max=config["slashMaxPayloadSize"],
        look_back_rounds=config["slashExecuteRoundsLookBack"],
    )

    def committee_of(epoch: int) -> list[bytes] | None:
        members = case["committees"][epoch] if epoch < len(case["committees"]) else None
        return None if members is None else [raw(item) for item in members]

    actions: list[Any] = []
    found = execution(case["slot"], terms, rules, _Rounds(case))
    if found is not None:
        committees = [[text(item) for item in committee] for committee in found.committees]
        actions.append(["execute", found.round, committees])
    votes = tally_votes(case["slot"], offenses, terms, rules, committee_of)
    if votes is not None:
        whole = (*votes.votes, *(0,) * (-len(votes.votes) % 4))
        actions.append(["vote", votes.round, list(votes.votes), encode_votes(whole).hex()])
    return actions


def decide_payload(case: Case) -> list[Any]:
    """The same where L1 takes payloads."""
    config = case["config"]
    terms = PayloadTerms(
        round_slots=case["roundSlots"],
        epoch_slots=case["epochSlots"],
        proof_epochs=case["proofEpochs"],
        quorum=case["quorum"],
        execution_delay_rounds=case["delay"],
        lifetime_rounds=case["lifetime"],
    )
    rules = PayloadRules(
        penalties={kind: config[name] for kind, name in PENALTIES.items()},
        validators_max=config["slashMaxPayloadSize"],
        expiration_rounds=config["slashOffenseExpirationRounds"],
        least=config["slashMinPenaltyPercentage"],
        most=config["slashMaxPenaltyPercentage"],
        override=None if case["override"] is None else raw(case["override"]),
    )
    gone = {
        (kind, at, raw(who)) for one in case["elected"] for who, _, offenses in one["slashes"] for kind, at in offenses
    }
    known = [offense for offense in known_offenses(case) if offense.key not in gone]
    elected = [ElectedPayload(raw(one["address"]), one["round"]) for one in case["elected"]]
    actions: list[Any] = []
    executed = payload_to_execute(case["slot"], elected, terms, _Elections(case))
    if executed is not None:
        actions.append(["execute", executed.round])
    payloads = [RoundPayload(raw(one["address"]), one["signals"], _slashes(one)) for one in case["payloads"]]
    choice = choose_payload(case["slot"], payloads, known, terms, rules)
    if choice is not None and choice.address is None:
        actions.append(["create", [[text(one.validator), one.amount, one.offenses] for one in choice.slashes]])
        actions.append(["back", text(bytes(20))])
    elif choice is not None and choice.address is not None:
        actions.append(["back", text(choice.address)])
    return actions


def _slashes(payload: Case) -> tuple[Slash, ...]:
    return tuple(
        Slash(raw(who), amount, tuple((OffenseType(kind), at) for kind, at in offenses))
        for who, amount, offenses in payload["slashes"]
    )


class _Elections:
    def __init__(self, case: Case) -> None:
        self._case = case

    def is_executed(self, number: int) -> bool:
        return any(one["round"] == number and one["isExecuted"] for one in self._case["elected"])

    def is_slashing_enabled(self) -> bool:
        return bool(self._case["isEnabled"])

    def is_vetoed(self, payload: bytes) -> bool:
        return any(raw(one["address"]) == payload and one["isVetoed"] for one in self._case["elected"])


class _Rounds:
    def __init__(self, case: Case) -> None:
        self._case = case

    def is_slashing_enabled(self) -> bool:
        return bool(self._case["isEnabled"])

    def round(self, number: int) -> tuple[bool, int]:
        found = self._case["rounds"][number]
        return found["isExecuted"], found["votes"]

    def is_ready(self, number: int, _slot: int) -> bool:
        return bool(self._case["rounds"][number]["isReady"])

    def tally(self, number: int) -> tuple[list[tuple[bytes, int]], list[list[bytes]]]:
        found = self._case["rounds"][number]
        committees = [[raw(item) for item in committee] for committee in found["committees"]]
        return [(raw(item), UNITS) for item in found["slashed"]], committees

    def payload(self, number: int, _actions: Any, _committees: Any) -> bytes:
        return address(number)

    def is_vetoed(self, payload: bytes) -> bool:
        return bool(self._case["rounds"][payload[0] - 1]["isVetoed"])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(payload_cases() if sys.argv[2:] == ["payloads"] else cases()))
