"""A loop in a thread goes on whatever its work raises, says so, and is told of when its thread is gone."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator

import pytest
from tests.clock import Clock
from tests.conftest import PATIENCE_S

from fastnode.errors import DatabaseUnreadable
from fastnode.loop import Loop, Setbacks

#: Exception's common kinds, and what is raised to end a thread.
KINDS: list[BaseException] = [
    ValueError("no number"),
    TypeError("no list"),
    KeyError("member"),
    IndexError("place"),
    AttributeError("get"),
    OverflowError("year"),
    ZeroDivisionError("rate"),
    RuntimeError("changed"),
    RecursionError("depth"),
    MemoryError(),
    AssertionError(),
    OSError(24, "no descriptor"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no text"),
    UnicodeEncodeError("idna", "..", 0, 1, "no host"),
    StopIteration(),
    NotImplementedError(),
    TimeoutError(),
    EOFError(),
    asyncio.CancelledError(),
    SystemExit(1),
    KeyboardInterrupt(),
]


class Source:
    """Raises what it is told to, once each; keeps how often it was read."""

    def __init__(self) -> None:
        self.raises: list[BaseException] = []
        self.reads = 0
        self.is_read = threading.Condition()

    def __call__(self) -> float:
        with self.is_read:
            self.reads += 1
            self.is_read.notify_all()
            if self.raises:
                raise self.raises.pop(0)
        return 0.0

    def wait_for(self, count: int) -> None:
        with self.is_read:
            assert self.is_read.wait_for(lambda: self.reads >= count, PATIENCE_S)


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def loop(source: Source) -> Iterator[Loop]:
    loop = Loop("test", source, what="the source is not read", first_s=0.001, longest_s=0.002)
    yield loop
    loop.close()


def test_a_loop_goes_on_after_any_exception(source: Source, loop: Loop) -> None:
    source.raises += KINDS
    loop.start()
    source.wait_for(len(KINDS) + 2)
    assert loop.trouble is None
    assert loop._setbacks.count == len(KINDS)


def test_the_same_exception_is_logged_once_and_told_until_it_ends(
    source: Source, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str | None] = []
    source.raises += [ValueError(str(number)) for number in range(10)]
    loop = Loop("test", source, what="the source is not read", first_s=0.0, on_error=lambda: told.append(loop.trouble))
    loop.start()
    source.wait_for(12)
    loop.close()
    assert [record.getMessage() for record in caplog.records] == ["the source is not read"]
    assert caplog.records[0].exc_info
    assert told == ["the source is not read: ValueError; the log has the cause"] * 10


def test_a_database_that_cannot_be_read_is_named_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    setbacks = Setbacks("the source is not read")
    setbacks.note(DatabaseUnreadable("the database is damaged"))
    assert [record.exc_info for record in caplog.records] == [None]
    assert caplog.records[0].facts == {"reason": "the database is damaged"}  # type: ignore[attr-defined]


def test_pauses_grow_up_to_a_maximum_until_the_work_goes_well() -> None:
    setbacks = Setbacks("nothing is done", first_s=1.0, longest_s=5.0)
    assert [setbacks.note(ValueError()) for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    setbacks.end()
    assert setbacks.reason is None
    assert setbacks.note(ValueError()) == 1.0


def test_a_text_that_may_hold_a_secret_is_not_told() -> None:
    setbacks = Setbacks("nothing is done")
    setbacks.note(ValueError("https://host/key"))
    assert setbacks.reason == "nothing is done: ValueError; the log has the cause"


def test_a_loop_whose_thread_is_gone_is_not_well(source: Source, loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert loop.trouble is None, "it was not started"
    monkeypatch.setattr(loop, "_run", lambda: None)
    loop.start()
    loop.join(PATIENCE_S)
    assert loop.trouble == "the source is not read: its thread has ended"
    loop.close()
    assert loop.trouble is None, "it was asked to end"


def test_a_loop_that_is_being_started_is_not_one_whose_thread_is_gone(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, start = [], threading.Thread.start

    def slow_start(thread: threading.Thread) -> None:
        told.append(loop.trouble)
        start(thread)
        told.append(loop.trouble)

    monkeypatch.setattr(threading.Thread, "start", slow_start)
    loop = Loop("reader", source, what="nothing is read")
    loop.start()
    told.append(loop.trouble)
    loop.close()
    assert told == [None, None, None]


def test_a_loop_that_cleans_up_badly_goes_on(source: Source) -> None:
    def fail() -> None:
        raise ValueError

    source.raises += [KeyError()]
    loop = Loop("test", source, what="the source is not read", first_s=0.0, on_error=fail)
    loop.start()
    source.wait_for(3)
    loop.close()


def test_a_loop_waits_for_news_and_ends_at_once(source: Source) -> None:
    reads: list[None] = []
    is_read = threading.Semaphore(0)

    def step() -> None:
        reads.append(None)
        is_read.release()

    loop = Loop("test", step, what="nothing is read")
    loop.start()
    assert is_read.acquire(timeout=PATIENCE_S)
    loop.wake()
    assert is_read.acquire(timeout=PATIENCE_S)
    loop.close()
    loop.start()
    assert len(reads) == 2, "it does not begin again after its end"


def test_a_pause_and_a_growing_one_are_over_when_the_clock_says_so() -> None:
    clock, steps = Clock(), queue.SimpleQueue[float]()
    fails = [ValueError()]

    def step() -> float:
        steps.put(clock.now)
        if fails:
            raise fails.pop()
        return 60.0

    loop = Loop("test", step, what="nothing is read", clock=clock, first_s=5.0)
    loop.start()
    assert steps.get(timeout=PATIENCE_S) == 1000.0
    for passed in (4.0, 1.0, 59.0, 1.0):
        clock.pass_by(passed, at_most_s=PATIENCE_S)
    assert [steps.get(timeout=PATIENCE_S) for _ in range(2)] == [1005.0, 1065.0]
    loop.close()
    assert steps.empty()


def test_a_rest_within_a_step_ends_with_news_which_begin_no_other_step_and_with_the_loop() -> None:
    begun, rests = queue.SimpleQueue[None](), queue.SimpleQueue[bool]()

    def step() -> float:
        begun.put(None)
        rests.put(loop.rest(60.0, until_woken=True))
        return 0.0

    loop = Loop("test", step, what="nothing is read", clock=Clock())
    loop.start()
    begun.get(timeout=PATIENCE_S)
    loop.wake()
    assert rests.get(timeout=PATIENCE_S)
    begun.get(timeout=PATIENCE_S)
    loop.close()
    assert not rests.get(timeout=PATIENCE_S)
    assert rests.empty()
