"""The place of threads that keep the interpreter busy."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator

import pytest
from tests.conftest import PATIENCE_S

from fastnode.interpreter import (
    FREED_AT_ONCE,
    GIVING_WAY_S,
    REPEATING_INTERVAL_S,
    ROUND_INTERVAL_S,
    SWITCH_INTERVAL_S,
    BusyPlace,
    LoopFirst,
    free_in_turns,
    step_aside,
)


def test_a_long_list_is_emptied_from_its_end() -> None:
    freed: list[int] = []

    class Item:
        def __init__(self, number: int) -> None:
            self._number = number

        def __del__(self) -> None:
            freed.append(self._number // FREED_AT_ONCE)

    items = [Item(number) for number in range(3 * FREED_AT_ONCE)]
    free_in_turns(items)
    assert items == []
    assert freed == sorted(freed, reverse=True)
    assert len(freed) == 3 * FREED_AT_ONCE


def test_one_thread_has_the_place_at_a_time() -> None:
    place, entered, order = BusyPlace(), threading.Event(), list[str]()

    def work() -> None:
        entered.set()
        with place:
            order.append("second")

    with place:
        thread = threading.Thread(target=work)
        thread.start()
        assert entered.wait(PATIENCE_S)
        thread.join(0.05)
        order.append("first")
    thread.join(PATIENCE_S)
    assert order == ["first", "second"]


def test_who_has_the_place_may_enter_again() -> None:
    place = BusyPlace()
    with place, place:
        pass
    with place:
        pass


def test_others_have_the_place_while_it_is_left() -> None:
    place, order = BusyPlace(), list[str]()

    def work() -> None:
        with place:
            order.append("other")

    with place, place:
        with place.left():
            thread = threading.Thread(target=work)
            thread.start()
            thread.join(PATIENCE_S)
        order.append("again")
    assert order == ["other", "again"]


def test_a_thread_without_the_place_leaves_nothing() -> None:
    place = BusyPlace()
    with place.left(), place.left():
        pass
    with place:
        pass


def test_the_place_is_free_after_an_error() -> None:
    place = BusyPlace()
    try:
        with place:
            raise ValueError
    except ValueError:
        pass
    with place:
        pass


# ---- the loop goes first ------------------------------------------------------------------------


@pytest.fixture
def loop_first() -> Iterator[LoopFirst]:
    interval = sys.getswitchinterval()
    loop_first = LoopFirst()
    loop_first.begin()
    yield loop_first
    sys.setswitchinterval(interval)


def test_nobody_asks_for_the_interpreter_in_the_middle_of_a_round(loop_first: LoopFirst) -> None:
    found = [sys.getswitchinterval()]
    loop_first.hold()
    found.append(sys.getswitchinterval())
    loop_first.let_go()
    found.append(sys.getswitchinterval())
    assert found == pytest.approx([SWITCH_INTERVAL_S, ROUND_INTERVAL_S, SWITCH_INTERVAL_S])


def test_a_thread_that_repeats_writes_is_asked_sooner_until_it_has_done_so(loop_first: LoopFirst) -> None:
    with loop_first.asked_soon():
        found = [sys.getswitchinterval()]
        loop_first.hold()
        found.append(sys.getswitchinterval())
        loop_first.let_go()
        found.append(sys.getswitchinterval())
    found.append(sys.getswitchinterval())
    assert found == pytest.approx([REPEATING_INTERVAL_S, ROUND_INTERVAL_S, REPEATING_INTERVAL_S, SWITCH_INTERVAL_S])


def test_a_thread_that_steps_aside_leaves_the_interpreter() -> None:
    interval, gate, gone = sys.getswitchinterval(), threading.Lock(), list[None]()
    gate.acquire()

    def work() -> None:
        gate.acquire()
        gone.append(None)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        sys.setswitchinterval(1000.0)  # nobody asks
        gate.release()
        deadline = time.monotonic() + PATIENCE_S
        while not gone and time.monotonic() < deadline:
            step_aside()
        assert gone
    finally:
        sys.setswitchinterval(interval)
        thread.join()


def test_a_busy_thread_waits_for_the_end_of_a_round(loop_first: LoopFirst) -> None:
    loop_first.end_round(is_crowded=True)
    gone = threading.Event()

    def work() -> None:
        loop_first.give_way()
        gone.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not loop_first._is_awaited and not gone.is_set():
        time.sleep(0)
    loop_first.end_round(is_crowded=True)
    assert gone.wait(PATIENCE_S)
    thread.join(PATIENCE_S)


def test_a_busy_thread_does_not_wait_for_a_loop_that_is_not_crowded_or_has_stopped(loop_first: LoopFirst) -> None:
    loop_first.end_round(is_crowded=False)
    gap, loop_first._gap = loop_first._gap, None  # type: ignore[assignment]  # whoever waits does so there
    loop_first.give_way()
    loop_first._gap = gap
    loop_first.end_round(is_crowded=True)
    loop_first.give_way()  # nobody ends the round
    loop_first.end_round(is_crowded=True)
    begun = time.monotonic()
    loop_first.give_way()
    assert time.monotonic() - begun >= GIVING_WAY_S / 2, "an end that nobody waited for counts for nobody"


def test_a_process_that_does_not_serve_keeps_its_interval() -> None:
    before = sys.getswitchinterval()
    loop_first = LoopFirst()
    loop_first.hold()
    loop_first.end_round(is_crowded=True)
    loop_first.give_way()
    assert sys.getswitchinterval() == before
