"""Threads that are shared out among those who ask."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from concurrent.futures import CancelledError
from functools import partial
from types import SimpleNamespace

import pytest
from tests.clock import Clock
from tests.conftest import PATIENCE_S

from fastnode.http import fair_threads
from fastnode.http.allowance import Allowance, Party
from fastnode.http.fair_threads import FairThreads, run_off_loop
from fastnode.kernels import loop_time


class Gate:
    """Keeps the only thread busy until it opens."""

    def __init__(self, threads: FairThreads) -> None:
        self.is_busy = threading.Event()
        self._open = threading.Event()
        self.done = threads.submit(self._wait)
        assert self.is_busy.wait(PATIENCE_S)

    def _wait(self) -> None:
        self.is_busy.set()
        assert self._open.wait(PATIENCE_S)

    def open(self) -> None:
        self._open.set()


def test_results_and_errors_are_the_callers() -> None:
    threads = FairThreads(2, name="test")
    assert threads.submit(pow, 2, 10).result(PATIENCE_S) == 1024
    with pytest.raises(ZeroDivisionError):
        threads.submit_for(Party(), divmod, 1, 0).result(PATIENCE_S)
    threads.shutdown()


class WorkClock(Clock):
    """The threads' time, which goes on when work says so: what the machine does besides is charged to nobody."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(0.0)
        monkeypatch.setattr(fair_threads, "time", SimpleNamespace(monotonic_ns=lambda: round(1e9 * self.now)))

    def work(self, done: list[str], name: str) -> None:
        """For a millisecond."""
        self.go_on(0.001)
        done.append(name)


class Misfortune(Exception):  # noqa: N818 - not of the node
    pass


def _fail() -> None:
    raise Misfortune


def test_an_error_goes_with_those_who_know_it() -> None:
    """No frame that it has passed keeps it, and with it the request, until the collector comes."""
    threads = FairThreads(1, name="test")

    async def ask(party: Party) -> weakref.ref[Misfortune]:
        try:
            await run_off_loop(threads, Allowance(party), _fail)
        except Misfortune as error:
            return weakref.ref(error)
        raise AssertionError

    gc.collect()
    gc.disable()
    try:
        with asyncio.Runner() as runner:
            errors = [runner.run(ask(Party())) for _ in range(10)]
        threads.shutdown()
        assert [error() for error in errors] == [None] * 10
    finally:
        gc.enable()


def test_a_party_that_asks_for_much_waits_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = WorkClock(monkeypatch)
    threads = FairThreads(1, name="test")
    gate, done = Gate(threads), list[str]()
    greedy, modest = Party(), Party()
    work = partial(clock.work, done)
    futures = [threads.submit_for(greedy, work, "greedy") for _ in range(50)]
    futures += [threads.submit_for(modest, work, "modest") for _ in range(3)]
    assert threads.waiting_count == 53
    gate.open()
    for future in futures:
        future.result(PATIENCE_S)
    assert [place for place, name in enumerate(done) if name == "modest"][-1] <= 25
    threads.shutdown()


def test_the_connections_of_one_address_have_one_share_of_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = WorkClock(monkeypatch)
    threads = FairThreads(1, name="test")
    gate, done = Gate(threads), list[str]()
    work = partial(clock.work, done)
    parties = [Party() for _ in range(21)]
    for party in parties:
        party.network = b"many"
    parties[-1].network = b"one"
    futures = [threads.submit_for(party, work, "many") for party in parties[:-1]]
    futures += [threads.submit_for(parties[-1], work, "one") for _ in range(4)]
    gate.open()
    for future in futures:
        future.result(PATIENCE_S)
    assert [place for place, name in enumerate(done) if name == "one"][-1] <= 16
    threads.shutdown()


def test_work_without_a_waiting_client_is_not_begun() -> None:
    threads = FairThreads(1, name="test")
    gate, done = Gate(threads), list[str]()
    party = Party()
    abandoned = threads.submit_for(party, done.append, "abandoned")
    other = threads.submit_for(Party(), done.append, "other")
    party.leave()
    gate.open()
    other.result(PATIENCE_S)
    with pytest.raises(CancelledError):
        abandoned.result(PATIENCE_S)
    assert done == ["other"]
    threads.shutdown()


def test_what_waits_can_be_cancelled_at_the_end() -> None:
    threads = FairThreads(1, name="test")
    gate = Gate(threads)
    waiting = threads.submit(pow, 2, 2)
    threads.shutdown(wait=False, cancel_futures=True)
    gate.open()
    gate.done.result(PATIENCE_S)
    assert waiting.cancelled()


def test_what_was_used_of_other_threads_does_not_count() -> None:
    busy, waiting = FairThreads(1, name="busy"), FairThreads(1, name="waiting")
    old, new = Party(), Party()
    gate, order = threading.Event(), []
    old.thread_shares[busy] = loop_time.Share()
    old.thread_shares[busy].used_ns = 10**12
    busy.submit_for(old, int).result(60)
    held = waiting.submit_for(old, gate.wait, 60)
    behind = waiting.submit_for(old, order.append, "old")
    busy.submit_for(new, int).result(60)
    first = waiting.submit_for(new, order.append, "new")
    gate.set()
    for work in (held, behind, first):
        work.result(60)
    assert order == ["new", "old"]
    busy.shutdown()
    waiting.shutdown()
