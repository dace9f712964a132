"""Runs of one length that are hashed in one call have the hashes of each."""

from __future__ import annotations

import random
from types import ModuleType

import pytest

from fastnode._twins import poseidon2 as twin
from fastnode.kernels import poseidon2
from fastnode.protocol.fields import MODULUS, MODULUS_BYTES

ARITY = 25


def _run(seed: int) -> bytes:
    dice = random.Random(seed)
    return b"".join([dice.randrange(MODULUS).to_bytes(32, "big") for _ in range(ARITY)])


@pytest.mark.parametrize("kernel", [poseidon2, twin])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 16, 17, 19])
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
