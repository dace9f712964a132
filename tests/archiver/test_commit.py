"""Commits put together: what those who saw none of them need to know."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.archiver.conftest import SampleChain

from fastnode.archiver.commit import ChainCommit
from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.store import ArchiverStore


def commit(view: str, blocks: list[int], undone: range = range(0)) -> ChainCommit:
    made: Any = tuple(SimpleNamespace(number=number) for number in blocks)
    return ChainCommit(view, made, undone)  # type: ignore[arg-type]


def seen(one: ChainCommit) -> tuple[Any, list[int], range]:
    return one.view, [block.number for block in one.blocks], one.undone


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (([6, 7], range(0)), ([8], range(0)), ([6, 7, 8], range(0))),
        # A reorg that is put together: 4 and 5 go, others come.
        (([], range(4, 6)), ([4, 5, 6], range(0)), ([4, 5, 6], range(4, 6))),
        # The blocks are taken back again: those who saw nothing have nothing to undo.
        (([6, 7], range(0)), ([], range(6, 8)), ([], range(6, 6))),
        (([6, 7], range(0)), ([7], range(7, 8)), ([6, 7], range(6, 6))),
        # The second goes deeper than the first.
        (([6, 7], range(0)), ([], range(4, 8)), ([], range(4, 6))),
        (([4, 5], range(4, 8)), ([], range(3, 6)), ([], range(3, 8))),
        (([4, 5], range(4, 8)), ([5], range(5, 6)), ([4, 5], range(4, 8))),
    ],
)
def test_two_commits_as_one(first: Any, second: Any, together: Any) -> None:
    merged = commit("before", *first).then(commit("after", *second))
    view, blocks, undone = seen(merged)
    assert view == "after"
    assert blocks == together[0]
    assert list(undone) == list(together[1])


def test_each_commit_says_what_came_and_what_was_taken_back(
    store: ArchiverStore, open_ingestor: Callable[..., Ingestor], sample: SampleChain
) -> None:
    seen: list[tuple[list[int], range]] = []
    ingestor = open_ingestor(
        store, on_commit=lambda commit: seen.append(([block.number for block in commit.blocks], commit.undone))
    )
    for number in range(1, 5):
        ingestor.apply(sample.checkpoint(number))
    ingestor.undo_above(2)
    assert seen == [
        ([1], range(0)),
        ([2], range(0)),
        ([3], range(0)),
        ([4], range(0)),
        ([5], range(0)),
        ([], range(3, 6)),
    ]
