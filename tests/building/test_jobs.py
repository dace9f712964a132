"""Work for the one thread that changes the chain."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fastnode.building.jobs import JobQueue
from fastnode.errors import Refused


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as executor:
        yield executor


def test_jobs_run_in_the_thread_that_works_and_return_to_their_callers(callers: ThreadPoolExecutor) -> None:
    added = threading.Semaphore(0)
    jobs = JobQueue("the chain", added.release)
    thread = callers.submit(jobs.run, threading.get_ident)
    fault = callers.submit(jobs.run, lambda: 1 // 0)
    for _ in range(2):
        assert added.acquire(timeout=30)
    jobs.work()
    assert thread.result(30) == threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        fault.result(30)


def test_a_job_that_is_not_begun_in_time_is_not_run_later() -> None:
    jobs = JobQueue("the chain", lambda: None)
    ran: list[int] = []
    with pytest.raises(Refused, match=r"the chain could not be changed for 0\.01 s"):
        jobs.run(lambda: ran.append(1), 0.01)
    jobs.work()
    assert ran == []


def test_a_job_that_was_begun_in_time_is_waited_for(callers: ThreadPoolExecutor) -> None:
    is_begun, is_over = threading.Event(), threading.Event()

    def begin() -> None:
        """Before the caller begins to wait."""
        callers.submit(jobs.work)
        assert is_begun.wait(30)

    def job() -> str:
        is_begun.set()
        assert is_over.wait(30)
        return "done"

    jobs = JobQueue("the chain", begin)
    waiting = callers.submit(jobs.run, job, 0.05)
    # The caller's time is over before the job is.
    with pytest.raises(TimeoutError):
        waiting.result(0.2)
    is_over.set()
    assert waiting.result(30) == "done"


def test_what_waits_at_the_end_is_refused_and_so_is_what_comes_later(callers: ThreadPoolExecutor) -> None:
    added = threading.Event()
    jobs = JobQueue("the local network", added.set)
    waiting = callers.submit(jobs.run, lambda: 1)
    assert added.wait(30)
    jobs.close()
    for call in (lambda: waiting.result(30), lambda: jobs.run(lambda: 1)):
        with pytest.raises(Refused, match="The local network is stopping"):
            call()


def test_no_more_jobs_wait_than_memory_is_for(monkeypatch: pytest.MonkeyPatch, callers: ThreadPoolExecutor) -> None:
    monkeypatch.setattr("fastnode.building.jobs.WAITING_MAX", 1)
    added = threading.Event()
    jobs = JobQueue("the local network", added.set)
    waiting = callers.submit(jobs.run, lambda: 1)
    assert added.wait(30)
    with pytest.raises(Refused, match="1 changes of the local network are waiting already"):
        jobs.run(lambda: 2)
    jobs.work()
    assert waiting.result(30) == 1
