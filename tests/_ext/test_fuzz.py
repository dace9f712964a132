"""Some calls of every kernel with spoiled inputs; scripts/fuzz makes a million of them under sanitizers."""

from __future__ import annotations

import pytest
from tests._ext import fuzz

from fastnode.kernels import USING_TWINS

CALLS = 20


@pytest.mark.skipif(USING_TWINS, reason="there are only the twins")
@pytest.mark.parametrize("subject", fuzz.SUBJECTS, ids=lambda subject: subject.__name__)
def test_a_kernel_says_of_spoiled_inputs_what_its_twin_says(subject: fuzz.Subject) -> None:
    calls = fuzz.Calls()
    seed = 0
    while calls.made.total() < CALLS:
        subject(fuzz.Random(f"test {seed}"), calls)
        seed += 1


@pytest.mark.skipif(USING_TWINS, reason="there are only the twins")
def test_every_kernel_has_its_share() -> None:
    from fastnode import kernels

    assert set(fuzz.fuzz(3000, 1).made) == set(kernels.__all__) - {"TWINS", "USING_TWINS", "clock", "layouts"}
