"""The place of threads that keep the interpreter busy."""

from __future__ import annotations

import threading

from tests.conftest import PATIENCE_S

from fastnode.interpreter import BusyPlace


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
