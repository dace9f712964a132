"""Threads with a bounded queue and a bounded time in it."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from tests.conftest import PATIENCE_S

from fastnode.errors import Refused
from fastnode.http import limited_threads
from fastnode.http.allowance import Party
from fastnode.http.limited_threads import LimitedThreads


def limited(*, admitted_max: int = 3, wait_s_max: float = PATIENCE_S) -> LimitedThreads:
    return LimitedThreads(1, name="test", what="pieces of work", admitted_max=admitted_max, wait_s_max=wait_s_max)


def test_more_than_may_run_or_wait_are_refused() -> None:
    threads, release = limited(), threading.Event()
    waiting = [threads.submit(release.wait), *(threads.submit_for(Party(), release.wait) for _ in range(2))]
    for submit in (lambda: threads.submit(release.wait), lambda: threads.submit_for(Party(), release.wait)):
        with pytest.raises(Refused, match="3 pieces of work are running or waiting; try again later") as refusal:
            submit()
        assert refusal.value.data == {"code": "BUSY"}
    release.set()
    assert all(future.result(PATIENCE_S) for future in waiting)
    assert threads.submit_for(Party(), release.wait).result(PATIENCE_S)
    threads.shutdown()


def test_what_has_waited_too_long_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(limited_threads, "time", SimpleNamespace(monotonic=lambda: now[0]))
    threads, begun, release = limited(wait_s_max=5), threading.Event(), threading.Event()

    def wait() -> bool:
        begun.set()
        return release.wait(PATIENCE_S)

    running = threads.submit(wait)
    assert begun.wait(PATIENCE_S)
    late = threads.submit_for(Party(), release.wait)
    now[0] += 5.1
    release.set()
    assert running.result(PATIENCE_S)
    with pytest.raises(Refused, match="Too many pieces of work are running; try again later") as refusal:
        late.result(PATIENCE_S)
    assert refusal.value.data == {"code": "BUSY"}
    threads.shutdown()


def test_a_client_that_asks_for_much_waits_for_itself() -> None:
    threads, release, done = limited(admitted_max=100), threading.Event(), list[str]()
    running = threads.submit(release.wait)
    greedy, modest = Party(), Party()
    futures = [threads.submit_for(greedy, done.append, "greedy") for _ in range(50)]
    futures.append(threads.submit_for(modest, done.append, "modest"))
    release.set()
    assert running.result(PATIENCE_S)
    for future in futures:
        future.result(PATIENCE_S)
    assert done.index("modest") <= 2
    threads.shutdown()


def test_an_address_that_holds_every_place_gives_one_to_another_address() -> None:
    threads, release, begun = limited(admitted_max=4), threading.Event(), threading.Event()

    def wait() -> bool:
        begun.set()
        return release.wait(PATIENCE_S)

    crowd = [threads.submit_for(Party(network=b"crowd"), wait) for _ in range(4)]
    assert begun.wait(PATIENCE_S)
    with pytest.raises(Refused, match="4 pieces of work are running or waiting"):
        threads.submit_for(Party(network=b"crowd"), wait)
    others = [threads.submit_for(Party(network=b"other"), wait), threads.submit_for(Party(network=b"third"), wait)]
    with pytest.raises(Refused, match="4 pieces of work are running or waiting"):
        threads.submit_for(Party(network=b"other"), wait)  # as many as the crowd has: nothing would be fairer
    release.set()
    assert [future.result(PATIENCE_S) for future in others] == [True, True]
    assert [future.exception(PATIENCE_S) is None for future in crowd] == [True, True, False, False]
    with pytest.raises(Refused, match="Too many pieces of work are running; try again later"):
        crowd[-1].result(PATIENCE_S)
    threads.shutdown()
