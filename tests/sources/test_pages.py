"""Pages that are fetched ahead of their use: of answers as large as they may be there is one at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pytest

from fastnode.errors import AnswerTooLarge, UpstreamFault
from fastnode.outgoing.network import ClientLimits
from fastnode.sources.upstream import PAGES_AHEAD, UpstreamSource, _Page


@pytest.fixture
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(PAGES_AHEAD) as executor:
        yield executor


class Remote:
    """Its pages are as large as an answer may be; says in which order they were fetched, and how."""

    def __init__(self) -> None:
        self.fetched: list[tuple[int, bool]] = []
        self.lock = threading.Lock()
        self.in_use = 0

    def fetch(self, first: int, count: int) -> _Page:
        is_ahead = ClientLimits().here != ClientLimits()
        with self.lock:
            self.fetched.append((first, is_ahead))
        if is_ahead:
            raise AnswerTooLarge("its answer exceeds 8 bytes")
        self.in_use += 1
        assert self.in_use == 1
        records: list[Any] = list(range(first, first + count))
        return _Page(records, 2 << 20)


def source(executor: Executor) -> UpstreamSource:
    remote: Any = None
    return UpstreamSource(remote, executor)


def test_large_pages_are_fetched_when_their_turn_has_come(executor: Executor) -> None:
    remote, numbers = Remote(), []
    for number in source(executor)._pages(1, 11, remote.fetch):
        numbers.append(number)
        remote.in_use = 0
    assert numbers == list(range(1, 12))
    assert [first for first, is_ahead in remote.fetched if not is_ahead] == sorted(
        {first for first, _ in remote.fetched}
    )


def test_a_page_that_is_too_large_by_itself_is_the_nodes_fault(executor: Executor) -> None:
    def fetch(first: int, count: int) -> _Page:
        raise AnswerTooLarge("its answer exceeds 64 bytes")

    with pytest.raises(UpstreamFault, match="exceeds 64"):
        list(source(executor)._pages(1, 20, fetch))


def test_what_is_asked_outside_of_pages_has_the_usual_limits() -> None:
    limits = ClientLimits()
    assert limits.here is limits
