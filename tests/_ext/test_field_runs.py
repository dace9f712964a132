"""Runs of fields, in the kernel and in its twin."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode._twins import field_runs as twin
from fastnode.kernels import field_runs as kernel
from fastnode.protocol.fields import MODULUS

MODULES = [kernel, twin]
NEAR_THE_MODULUS = st.integers(MODULUS - 2, MODULUS + 2)


@pytest.mark.parametrize("module", MODULES)
@given(st.lists(st.integers(0, (1 << 256) - 1) | NEAR_THE_MODULUS, max_size=10))
def test_the_first_element_not_below_the_modulus_is_found(module: Any, values: list[int]) -> None:
    joined = b"".join(value.to_bytes(32, "big") for value in values)
    expected = next((i for i, value in enumerate(values) if value >= MODULUS), None)
    assert module.first_non_canonical(joined) == expected


@pytest.mark.parametrize("module", MODULES)
def test_what_is_no_run_is_refused(module: Any) -> None:
    with pytest.raises(ValueError, match="fields must be a multiple of 32 bytes long, not 33"):
        module.first_non_canonical(bytes(33))


@pytest.mark.parametrize("module", MODULES)
def test_pieces_are_joined_in_the_order_of_the_cuts(module: Any) -> None:
    cuts = module.Cuts([(1, 4, 6), (0, 0, 2), (2, 3, 3)])
    assert cuts.join(b"abcdefgh") == b"\0efab\0\0"
    assert cuts.join(b"abcdef", b"xy") == b"xy\0efab\0\0"
    assert module.Cuts([]).join(b"") == b""


@pytest.mark.parametrize("module", MODULES)
def test_a_record_that_is_too_short_is_refused(module: Any) -> None:
    with pytest.raises(ValueError, match="the record has 5 bytes, the cuts need 6"):
        module.Cuts([(1, 4, 6), (0, 0, 2)]).join(b"abcde")


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("wrong", [(-1, 0, 1), (0, -1, 1), (0, 2, 1), (0, 0, (1 << 24) + 1), ((1 << 24) + 1, 0, 0)])
def test_a_cut_outside_of_any_record_is_refused(module: Any, wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="cut 1 is not within 16777216 bytes"):
        module.Cuts([(0, 0, 1), wrong])


@given(
    st.lists(st.tuples(st.integers(0, 32), st.integers(0, 40), st.integers(0, 40)), max_size=20),
    st.binary(max_size=80),
    st.binary(max_size=32),
)
def test_kernel_and_twin_join_alike(pieces: list[tuple[int, int, int]], record: bytes, prefix: bytes) -> None:
    cuts = [(zeros, start, start + size) for zeros, start, size in pieces]
    outcomes = []
    for module in MODULES:
        try:
            outcomes.append(module.Cuts(cuts).join(record, prefix))
        except ValueError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]
