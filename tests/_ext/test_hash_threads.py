"""Hashes that are computed beside the interpreter are those one would have waited for."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fastnode import kernels
from fastnode.kernels import hash_threads as kernel
from fastnode.kernels import poseidon2
from fastnode.protocol.fields import MODULUS, MODULUS_BYTES

ARITY = 25
#: Long enough that many can be started before one is done.
LONG = 2785
#: Elements that take a second or more, and a tenth of one.
MANY, SOME = 1_000_000, 80_000
#: What the threads leave to others, as by nice(1).
STEP = 10
#: For work that threads do only if the asking one does not lose its processor.
TRIES = 20
#: Runs that the kernel has together at most.
LARGEST_BATCH = {"avx512-ifma": 16, "avx2-fma": 4}.get(poseidon2.kernel_name(), 1)


def _run(seed: int, arity: int = ARITY) -> bytes:
    dice = random.Random(seed)
    return b"".join([dice.randrange(MODULUS).to_bytes(32, "big") for _ in range(arity)])


def _step_back() -> None:
    """As threads do that come after the event loop."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + STEP)


def _behind(work: Callable[[], Any]) -> None:
    """In a thread that has stepped back."""

    def run() -> None:
        _step_back()
        work()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def _wait_for_silence() -> None:
    """Until nothing that an earlier test left is being hashed."""
    done = [kernel.start_hash(_run(seed)) for seed in range(2 * max(1, kernel.THREADS))]
    _behind(lambda: [pending.result() for pending in done])  # by the threads, each after all that came before


@pytest.fixture(params=poseidon2.available_kernels())
def each_poseidon2_kernel(request: pytest.FixtureRequest) -> Iterator[None]:
    before = poseidon2.kernel_name()
    if not kernels.USING_TWINS:
        poseidon2.use_kernel(request.param)
    yield
    if not kernels.USING_TWINS:
        poseidon2.use_kernel(before)


def test_a_pending_hash_becomes_the_hash() -> None:
    for arity in (1, 2, 3, 4, ARITY):
        run = _run(arity, arity)
        pending = kernel.start_hash(run)
        assert pending.result() == poseidon2.hash_fields(run)
        assert pending.is_done
        assert pending.result() == poseidon2.hash_fields(run)


def test_what_is_no_run_of_fields_is_refused() -> None:
    for wrong in (b"", bytes(31), bytes(33)):
        with pytest.raises(ValueError, match="fields must be a positive multiple of 32 bytes long"):
            kernel.start_hash(wrong)
    with pytest.raises(TypeError, match="fields must be bytes, not str"):
        kernel.start_hash("0" * 32)
    with pytest.raises(TypeError, match="start_hash makes these"):
        kernel.PendingHash()


def test_a_value_above_the_modulus_is_reported_to_each_caller() -> None:
    pending = kernel.start_hash(MODULUS_BYTES * ARITY)
    for _ in range(2):
        with pytest.raises(ValueError, match="modulus"):
            pending.result()


@pytest.mark.usefixtures("each_poseidon2_kernel")
def test_each_of_many_callers_gets_its_own_hash() -> None:
    found: dict[int, bytes] = {}
    start = threading.Barrier(16)

    def work(first: int) -> None:
        start.wait()
        for seed in range(first, first + 20):
            found[seed] = kernel.start_hash(_run(seed, ARITY + seed % 2)).result()

    threads = [threading.Thread(target=work, args=(20 * index,)) for index in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {seed: poseidon2.hash_fields(_run(seed, ARITY + seed % 2)) for seed in range(320)}


@pytest.mark.parametrize("count", [2, 3, 4, 5, 9, 16, 17, 40])
def test_any_number_can_be_started_before_the_first_is_asked_for(count: int) -> None:
    runs = [_run(seed) for seed in range(count)]
    pending = [kernel.start_hash(run) for run in runs]
    assert [item.result() for item in reversed(pending)] == [poseidon2.hash_fields(run) for run in reversed(runs)]


def test_several_threads_may_wait_for_one_hash() -> None:
    run = _run(1, LONG)
    pending = kernel.start_hash(run)
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(pending.result())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [poseidon2.hash_fields(run)] * 8


def test_a_bad_run_fails_alone() -> None:
    good = _run(1, LONG)
    bad = good[:-32] + MODULUS_BYTES
    runs = [good, good, bad, good, good, bad, good, good]
    pending = [kernel.start_hash(run) for run in runs]
    for run, item in zip(runs, pending, strict=True):
        if run is bad:
            with pytest.raises(ValueError, match="modulus"):
                item.result()
        else:
            assert item.result() == poseidon2.hash_fields(good)


@pytest.mark.skipif(LARGEST_BATCH == 1, reason="this processor's kernel has no lanes")
def test_what_waits_for_a_thread_goes_together() -> None:
    _wait_for_silence()
    # Each thread may have taken one or two before the others had come.
    assert any(_batches_of(60) <= 2 * kernel.THREADS + 60 // LARGEST_BATCH for _ in range(TRIES))


def _batches_of(count: int) -> int:
    """Count of takes from the queue by threads, for ``count`` hashes.  This thread may lose its processor at any time,
    and those that come after that wait for nothing: only the best of several tries says what the threads do.
    """
    runs = [_run(seed, LONG) for seed in range(count)]
    runs_before, batches_before = kernel.counts()
    pending = [kernel.start_hash(run) for run in runs]
    _behind(lambda: [item.result() for item in pending])  # this one would hash some itself on a busy machine
    assert [item.result() for item in pending] == [poseidon2.hash_fields(run) for run in runs]
    runs_after, batches_after = kernel.counts()
    assert runs_after - runs_before >= count
    # A thread may finish only now what an earlier test's waiter has hashed itself.
    return batches_after - batches_before if runs_after - runs_before == count else count


def _in_child(work: Callable[[], bool]) -> bool:
    """In a process that has no threads for hashes yet."""
    child = os.fork()
    if child == 0:
        outcome = 1
        try:
            outcome = 0 if work() else 1
        finally:
            os._exit(outcome)
    return os.waitpid(child, 0)[1] == 0


def _short_behind_long(count: int) -> tuple[kernel.PendingHash, kernel.PendingHash]:
    """One thread, which has much work before it gets to the second."""
    kernel.limit_threads(1)
    return kernel.start_hash(bytes(32 * count)), kernel.start_hash(_run(1))


def _is_short_done_first() -> bool:
    long, short = _short_behind_long(MANY)
    return short.result() == poseidon2.hash_fields(_run(1)) and not long.is_done


def _is_long_done_first() -> bool:
    long, short = _short_behind_long(SOME)
    _behind(short.result)
    return long.is_done


def _is_hashed_by_the_caller_too() -> bool:
    kernel.limit_threads(1)
    run = bytes(32 * SOME)
    pending = kernel.start_hash(run)
    found = pending.result()
    del pending  # a thread may be at it still
    return found == poseidon2.hash_fields(run) and kernel.start_hash(_run(1)).result() is not None


def _niceness() -> set[int]:
    """Of the threads of this process; proc(5)."""
    stats = [task.read_text() for task in Path("/proc/self/task").glob("*/stat")]
    return {int(stat.rpartition(")")[2].split()[16]) for stat in stats}


def _are_threads_one_step_behind() -> bool:
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    _behind(lambda: kernel.start_hash(_run(1)).result())
    return _niceness() == {usual, usual + STEP}


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priorities of their own here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(
    "work",
    [
        pytest.param(_is_short_done_first, id="who comes before the threads hashes what they do not get to"),
        pytest.param(_is_long_done_first, id="who does not waits for them"),
        pytest.param(_is_hashed_by_the_caller_too, id="what a thread has begun is hashed again"),
        pytest.param(_are_threads_one_step_behind, id="threads come after the process, whoever begins them"),
    ],
)
def test_on_a_busy_machine_nothing_waits_for_threads_of_a_lower_priority(work: Callable[[], bool]) -> None:
    assert _in_child(work)


def _hashes_with_one_thread() -> bool:
    """In a child, which has no threads yet: whether what waits went to one of them."""
    kernel.limit_threads(1)
    together = any(_batches_of(32) <= 2 + 32 // LARGEST_BATCH for _ in range(TRIES))
    return together and len(list(Path("/proc/self/task").iterdir())) == 2  # one beside the interpreter's


@pytest.mark.skipif(LARGEST_BATCH == 1, reason="this processor's kernel has no lanes")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_that_shares_the_processors_has_fewer_threads() -> None:
    assert _in_child(_hashes_with_one_thread)


def test_no_threads_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match="count must be at least 1, not 0"):
        kernel.limit_threads(0)


def test_a_hash_goes_on_while_the_interpreter_is_busy() -> None:
    pending = kernel.start_hash(_run(1, LONG))
    end = time.monotonic() + 10
    while not pending.is_done and time.monotonic() < end:  # never gives up the interpreter of its own accord
        pass
    assert pending.is_done


def test_a_hash_that_was_given_up_is_not_computed() -> None:
    _wait_for_silence()
    run = _run(1, LONG)
    before, _ = kernel.counts()
    pending = [kernel.start_hash(run) for _ in range(200)]
    del pending
    gc.collect()
    _wait_for_silence()
    after, _ = kernel.counts()
    assert after - before < 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_hashes_too() -> None:
    expected = kernel.start_hash(_run(1)).result()
    child = os.fork()
    if child == 0:
        os._exit(0 if kernel.start_hash(_run(1)).result() == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_signals_find_the_threads_of_the_interpreter() -> None:
    _wait_for_silence()
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: seen.append(number))
    try:
        for _ in range(20):
            os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen
