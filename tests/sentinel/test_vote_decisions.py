"""Votes of a proposer, and the round it executes: as the published node decided in the same histories."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.sentinel.vote_histories import COUNT, address, cases, decide, decide_payload, payload_cases

from fastnode.sentinel.offenses import Offense, OffenseType
from fastnode.sentinel.tally import TallyTerms, VoteRules, encode_votes, tally_votes

#: Decisions that ``vote_decisions.mjs`` wrote.
DATA = Path(__file__).parents[1] / "data" / "votes"
DECISIONS = DATA / "decisions.jsonl.gz"
PAYLOAD_DECISIONS = DATA / "payload_decisions.jsonl.gz"
TERMS = TallyTerms(
    round_slots=4,
    epoch_slots=2,
    offset_rounds=2,
    execution_delay_rounds=0,
    lifetime_rounds=5,
    quorum=3,
    committee_size=4,
    amounts=(10, 20, 30),
)
MEMBERS = [address(number) for number in range(4)]


def test_a_thousand_random_histories_are_decided_as_the_published_node_decides_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("ERROR")
    with gzip.open(DECISIONS, "rt") as file:
        theirs = [json.loads(line) for line in file]
    assert len(theirs) == COUNT
    done: Counter[str] = Counter()
    for number, (case, expected) in enumerate(zip(cases(), theirs, strict=True)):
        actions = json.loads(json.dumps(decide(case)))
        assert actions == expected, number
        done.update(action[0] for action in actions)
    # All that can be done is among them.
    assert min(done[kind] for kind in ("vote", "execute")) > 10


def test_a_thousand_more_where_l1_takes_payloads(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("ERROR")
    with gzip.open(PAYLOAD_DECISIONS, "rt") as file:
        theirs = [json.loads(line) for line in file]
    assert len(theirs) == COUNT
    done: Counter[str] = Counter()
    for number, (case, expected) in enumerate(zip(payload_cases(), theirs, strict=True)):
        actions = json.loads(json.dumps(decide_payload(case)))
        assert actions == expected, number
        done.update(action[0] for action in actions)
    assert min(done[kind] for kind in ("create", "back", "execute")) > 100


def votes(*offenses: Offense, slot: int = 20, **rules: Any) -> list[int] | None:
    found = tally_votes(slot, offenses, TERMS, VoteRules(**rules), lambda _epoch: MEMBERS)
    return None if found is None else list(found.votes)


def inactive(member: int, epoch: int, amount: int = 10) -> Offense:
    return Offense(MEMBERS[member], amount, OffenseType.INACTIVITY, epoch)


def test_a_vote_has_a_place_for_each_member_of_each_epoch_of_the_round_two_before() -> None:
    # Slot 20 is in round 5; round 3 has the epochs 6 and 7.
    assert votes(inactive(1, 6), inactive(2, 7, 25), inactive(3, 8), inactive(0, 5)) == [0, 1, 0, 0, 0, 0, 2, 0]
    assert votes(inactive(3, 8)) is None
    assert votes(inactive(1, 0), slot=7) is None


def test_the_deeds_of_an_epoch_add_up_to_three_units_at_most() -> None:
    attested = Offense(MEMBERS[1], 10, OffenseType.DUPLICATE_ATTESTATION, 13)
    assert votes(inactive(1, 6), attested) == [0, 2, 0, 0, 0, 0, 0, 0]
    assert votes(inactive(1, 6, 1000)) == [0, 3, 0, 0, 0, 0, 0, 0]
    assert votes(inactive(1, 6, 9)) is None


def test_who_is_never_slashed_is_spared_and_who_always_is_loses_most_in_each_epoch() -> None:
    assert votes(inactive(1, 6), never={MEMBERS[1]}) is None
    assert votes(always=[MEMBERS[2]]) == [0, 0, 3, 0, 0, 0, 3, 0]
    assert votes(always=[MEMBERS[2]], never={MEMBERS[2]}) is None


def test_where_there_are_too_many_votes_the_heaviest_stay_and_of_equals_the_first() -> None:
    deeds = [inactive(0, 6), inactive(1, 6, 20), inactive(2, 6), inactive(3, 7, 30)]
    assert votes(*deeds, validators_max=3) == [1, 2, 0, 0, 0, 0, 0, 3]


def test_votes_are_encoded_four_to_a_byte_with_the_first_lowest() -> None:
    assert encode_votes([1, 2, 3, 0, 0, 0, 0, 3]) == bytes([0b00111001, 0b11000000])
    with pytest.raises(ValueError, match="3 votes are no whole bytes"):
        encode_votes([1, 2, 3])
