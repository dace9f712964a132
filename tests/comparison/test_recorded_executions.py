"""20,101 random programs in 2,262 recorded cases: each comes to what the published node made of it.

``scripts/compare-execution --replay`` on a case shows what differs.
"""

from __future__ import annotations

import functools
import lzma
from pathlib import Path

import orjson
import pytest
from tests.comparison.execution_outcomes import Json, base_state, digest, outcome

from fastnode.kernels import USING_TWINS

RECORDED = Path(__file__).parents[1] / "data" / "avm" / "random_cases.jsonl.xz"
#: Small cases by hand: class and instance logs that publish nothing, with and without public calls; addressing.
ERROR_TEXTS = RECORDED.with_name("error_texts.jsonl.xz")
CASES, PROGRAMS = 2_262, 20_101
PARTS = 8
#: The twins take some hundred times as long.
STRIDE = 100 if USING_TWINS else 1


@functools.cache
def recorded(path: Path = RECORDED) -> list[Json]:
    return [orjson.loads(line) for line in lzma.decompress(path.read_bytes()).splitlines()]


@pytest.mark.parametrize("part", range(PARTS))
def test_every_recorded_case_has_the_outcome_of_the_published_node(part: int) -> None:
    base = base_state()
    for row in recorded()[part::PARTS][::STRIDE]:
        found, _ = outcome(base, row["case"])
        assert digest(found) == row["outcome"], row["case"]["id"]


@pytest.mark.parametrize("row", recorded(ERROR_TEXTS), ids=lambda row: f"{row['case']['id']} {row['case']['label']}")
def test_errors_have_the_words_of_the_published_node(row: Json) -> None:
    found, _ = outcome(base_state(), row["case"])
    assert digest(found) == row["outcome"]


def test_all_recorded_cases_are_there() -> None:
    cases = [row["case"] for row in recorded()]
    assert (len(cases), sum(case["programs"] for case in cases)) == (CASES, PROGRAMS)
