"""Random transactions, pools, records, blobs and signed messages on which the published node agreed: each comes
to the same again.  ``scripts/compare-transactions`` says what differs.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from tests.comparison.pool_sequences import PoolWalk, sequences
from tests.comparison.record_cases import blob_cases, record_cases, record_json_cases
from tests.comparison.transaction_cases import binary_cases, json_cases
from tests.comparison.transaction_outcomes import Answers, Json, digest
from tests.comparison.transaction_recording import packed, read_recording, unpacked

from fastnode.kernels import USING_TWINS

#: The twins hash some hundred times as slowly.
STRIDE = 50 if USING_TWINS else 1
KINDS = ("tx", "txJson", "record", "recordJson", "blobs", "message", "attested")


@functools.cache
def recorded() -> list[Json]:
    return list(read_recording())


@functools.cache
def answers() -> Answers:
    return Answers()


@pytest.mark.parametrize("kind", KINDS)
def test_every_recorded_case_comes_to_what_the_published_node_made_of_it(kind: str) -> None:
    rows = [row for row in recorded() if row["case"]["op"] == kind]
    for row in rows[::STRIDE]:
        case = unpacked(row["case"])
        assert digest(answers()(case)) == row["outcome"], case.get("changes")
    assert rows


def test_every_recorded_pool_goes_through_its_steps_as_the_published_one() -> None:
    rows = [row for row in recorded() if row["case"]["op"] == "pool"]
    for row in rows[::STRIDE]:
        assert digest({"answers": PoolWalk(row["case"]).answers}) == row["outcome"]
    assert rows


@pytest.mark.parametrize("cases", [binary_cases, blob_cases])
def test_a_packed_case_is_the_same_again(cases: Callable[[int], Iterator[Json]]) -> None:
    for case in itertools.islice(cases(5), 40):
        assert unpacked(packed(case)) | {"changes": None} == case | {"changes": None}


@pytest.mark.parametrize("cases", [binary_cases, json_cases, blob_cases, record_cases, record_json_cases, sequences])
def test_a_seed_gives_the_same_cases(cases: Callable[[int], Iterator[Json]]) -> None:
    first, again = ([digest(case) for case in itertools.islice(cases(3), 2)] for _ in range(2))
    assert first == again


def test_random_transactions_are_read_and_refused_by_many_rules() -> None:
    found: Counter[str] = Counter()
    for case in itertools.islice(binary_cases(9), 60):
        answer = answers()(case)
        found.update(answer.get("rpc", ["refused"]))
    assert min(found["valid"], found["invalid"], found["refused"]) > 0
    assert len(found) > 8
