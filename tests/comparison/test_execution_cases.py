"""The random cases: of every kind, the same for a seed, and executed without an error of this node's own."""

from __future__ import annotations

import contextlib
import itertools

import pytest
from tests.comparison.compare_execution import differences
from tests.comparison.execution_cases import random_cases
from tests.comparison.execution_outcomes import BASE, base_state, digest, outcome
from tests.comparison.execution_trees import Trees
from tests.comparison.published_node import VARIABLE, folder_of, wire

from fastnode.kernels import USING_TWINS

COUNT = 12 if USING_TWINS else 60


def test_a_seed_gives_the_same_cases() -> None:
    first, again, other = (list(itertools.islice(random_cases(seed), 4)) for seed in (1, 1, 2))
    assert first == again != other


def test_cases_come_to_the_same_over_dictionaries_and_over_trees() -> None:
    base, errors = base_state(), set()
    with contextlib.closing(Trees(BASE)) as trees:
        over_trees = trees.state_over(base)
        cases = list(itertools.islice(random_cases(3), COUNT))
        outcomes = [(outcome(base, case)[0], outcome(over_trees, case)[0]) for case in cases]
    for found, found_over_trees in outcomes:
        assert digest(found_over_trees) == digest(found)
        errors |= {result.get("error", "")[:9] for result in found.get("results", [found])}
    assert (
        {"", "C++ simul"}
        <= errors
        <= {"", "C++ simul", "Not enoug", "maxFeesPe", "Transacti", "Invalid c", "Unexpecte"}
    )


def test_differences_are_named_by_their_place() -> None:
    ours, theirs = {"a": [1, {"b": 2}], "c": 3}, {"a": [1, {"b": 4}], "c": 3}
    assert list(differences(ours, theirs)) == [".a[1].b: fastnode 2 | published 4"]
    assert list(differences({"a": [1]}, {"a": [1, 2], "d": 0})) == [
        ".a: fastnode [1] | published [1, 2]",
        ".d: fastnode None | published 0",
    ]


def test_numbers_that_javascript_cannot_hold_go_as_text() -> None:
    assert wire({"a": [1, 1 << 53, True], "b": (2,)}) == {"a": [1, "0x20000000000000", True], "b": [2]}


def test_without_a_published_node_the_command_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(SystemExit, match="--node FOLDER, or FASTNODE_PUBLISHED_NODE"):
        folder_of(None)
