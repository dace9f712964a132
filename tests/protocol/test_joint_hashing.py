"""Hashing together gives the hashes one would have got alone."""

from __future__ import annotations

import random
import threading
from types import ModuleType

import pytest

from fastnode._twins import poseidon2 as twin
from fastnode.kernels import poseidon2
from fastnode.protocol.fields import MODULUS, MODULUS_BYTES
from fastnode.protocol.joint_hashing import RUNS_MAX, JointHasher

ARITY = 25


def _run(seed: int) -> bytes:
    dice = random.Random(seed)
    return b"".join([dice.randrange(MODULUS).to_bytes(32, "big") for _ in range(ARITY)])


@pytest.mark.parametrize("kernel", [poseidon2, twin])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, 17])
def test_runs_have_the_hashes_of_each_run(kernel: ModuleType, count: int) -> None:
    runs = [_run(seed) for seed in range(count)]
    assert kernel.hash_runs(b"".join(runs), ARITY) == b"".join([poseidon2.hash_fields(run) for run in runs])


@pytest.mark.parametrize("kernel", [poseidon2, twin])
def test_runs_of_a_wrong_length_are_refused(kernel: ModuleType) -> None:
    for arity in (0, 1 << 21, 24):
        with pytest.raises(ValueError, match=r"arity|multiple"):
            kernel.hash_runs(_run(0), arity)
    with pytest.raises(ValueError, match="modulus"):
        kernel.hash_runs(MODULUS_BYTES * ARITY, ARITY)


def test_one_thread_gets_its_hash() -> None:
    assert JointHasher(ARITY).hash(_run(1)) == poseidon2.hash_fields(_run(1))
    with pytest.raises(ValueError, match="expected"):
        JointHasher(ARITY).hash(_run(1)[32:])


def test_many_threads_get_each_its_own_hash() -> None:
    hasher = JointHasher(ARITY)
    found: dict[int, bytes] = {}
    start = threading.Barrier(2 * RUNS_MAX)

    def work(first: int) -> None:
        start.wait()
        for seed in range(first, first + 20):
            found[seed] = hasher.hash(_run(seed))

    threads = [threading.Thread(target=work, args=(20 * index,)) for index in range(2 * RUNS_MAX)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {seed: poseidon2.hash_fields(_run(seed)) for seed in range(40 * RUNS_MAX)}
    assert hasher._queue == []


def test_what_gathers_during_a_hash_goes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    entered, release = threading.Event(), threading.Event()
    real = poseidon2.hash_runs

    def slow(runs: bytes, arity: int) -> bytes:
        sizes.append(len(runs) // (32 * arity))
        if len(sizes) == 1:
            entered.set()
            release.wait(10)
        return real(runs, arity)

    monkeypatch.setattr(poseidon2, "hash_runs", slow)
    hasher = JointHasher(ARITY)
    threads = [threading.Thread(target=hasher.hash, args=(_run(seed),)) for seed in range(RUNS_MAX + 3)]
    threads[0].start()
    assert entered.wait(10)
    for thread in threads[1:]:
        thread.start()
    while len(hasher._queue) < RUNS_MAX + 2:
        pass
    release.set()
    for thread in threads:
        thread.join()
    assert sizes == [1, RUNS_MAX, 2]


def test_a_bad_run_fails_alone() -> None:
    hasher = JointHasher(ARITY)
    good = _run(1)
    outcomes: list[object] = []
    start = threading.Barrier(8)

    def work(run: bytes) -> None:
        start.wait()
        try:
            outcomes.append(hasher.hash(run))
        except ValueError as error:
            outcomes.append(str(error))

    runs = [good] * 6 + [MODULUS_BYTES * ARITY] * 2
    threads = [threading.Thread(target=work, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count(poseidon2.hash_fields(good)) == 6
    assert sum("modulus" in str(outcome) for outcome in outcomes if isinstance(outcome, str)) == 2
    assert hasher._queue == []
