"""The guard of invariants itself: it notices a broken one after each kind of step, and tells of it once."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.invariants import guard, take_broken


class Pair:
    """Two fields that are always equal, but inside a step."""

    def __init__(self) -> None:
        self.left = self.right = 0

    def invariant(self) -> None:
        assert self.left == self.right

    def grow(self) -> None:
        self._grow_left()
        self.right += 1

    def _grow_left(self) -> None:
        self.left += 1

    def fail_half_way(self) -> None:
        self._grow_left()
        raise ValueError("half of it is done")

    async def grow_late(self) -> None:
        self.left += 1
        await asyncio.sleep(0)
        self.right += 1

    async def end_half_way(self) -> None:
        await asyncio.sleep(0)
        self.left += 1


guard(Pair)


def test_a_step_that_ends_well_is_not_told_of_whatever_was_inside_it() -> None:
    pair = Pair()
    pair.grow()
    asyncio.run(pair.grow_late())
    assert take_broken() == []


def test_a_private_step_counts_when_it_is_called_from_outside() -> None:
    Pair()._grow_left()
    [report] = take_broken()
    assert "Pair._grow_left" in report


def test_an_exception_ends_a_step_too() -> None:
    with pytest.raises(ValueError, match=r"^half"):
        Pair().fail_half_way()
    assert len(take_broken()) == 1


def test_a_coroutine_is_a_step() -> None:
    asyncio.run(Pair().end_half_way())
    assert len(take_broken()) == 1


def test_a_step_of_another_thread_is_told_of() -> None:
    thread = threading.Thread(target=Pair()._grow_left)
    thread.start()
    thread.join(60)
    assert len(take_broken()) == 1
