"""Work that is done before it is asked for."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest

from fastnode.sources.ahead import made_ahead

PATIENCE_S = 5.0


@pytest.fixture
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def test_items_come_in_order(executor: Executor) -> None:
    assert list(made_ahead(executor, (number for number in range(5)))) == [0, 1, 2, 3, 4]


def test_nothing_is_nothing(executor: Executor) -> None:
    assert list(made_ahead(executor, (number for number in range(0)))) == []


def test_one_item_is_made_while_the_one_before_is_used(executor: Executor) -> None:
    second_is_made, third_is_made = threading.Event(), threading.Event()

    def items() -> Generator[int, None, None]:
        yield 1
        second_is_made.set()
        yield 2
        third_is_made.set()
        yield 3

    made = made_ahead(executor, items())
    assert next(made) == 1
    assert second_is_made.wait(PATIENCE_S)
    assert not third_is_made.wait(0.05)
    assert list(made) == [2, 3]


def test_what_the_items_raise_is_raised_in_its_place(executor: Executor) -> None:
    def items() -> Generator[int, None, None]:
        yield 1
        raise LookupError("no second one")

    made = made_ahead(executor, items())
    assert next(made) == 1
    with pytest.raises(LookupError, match="no second one"):
        next(made)


def test_closing_waits_for_the_item_that_is_being_made_and_ends_the_items(executor: Executor) -> None:
    begun, go_on = threading.Event(), threading.Event()
    ended: list[str] = []

    def items() -> Generator[int, None, None]:
        try:
            yield 1
            begun.set()
            assert go_on.wait(PATIENCE_S)
            yield 2
        finally:
            ended.append("closed")

    made = made_ahead(executor, items())
    assert next(made) == 1
    assert begun.wait(PATIENCE_S)
    threading.Timer(0.05, go_on.set).start()
    made.close()
    assert go_on.is_set()
    assert ended == ["closed"]
