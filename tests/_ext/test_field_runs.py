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


#: Not one of them is a prefix of a field's text, whatever follows.
NO_FIELDS = ["0X" + "0" * 64, "0x" + "0" * 63 + "g", "0x" + "g" + "0" * 63, "0y" + "a" * 64, "x0" + "a" * 64, "0x" * 33]
TEXTS = st.lists(st.binary(min_size=32, max_size=32).map(lambda field: "0x" + field.hex()), max_size=8)


@pytest.mark.parametrize("module", MODULES)
@given(TEXTS, st.integers(0, 70))
def test_texts_are_read_as_fields(module: Any, texts: list[str], start: int) -> None:
    data = b"?" * start + "".join(texts).encode() + b"?"
    expected = b"".join(bytes.fromhex(text[2:]) for text in texts)
    for buffer in (data, memoryview(data), bytearray(data)):
        assert module.first_no_text(buffer, start, len(texts)) is None
        assert module.fields_of_texts(buffer, start, len(texts)) == expected


@pytest.mark.parametrize("module", MODULES)
@given(TEXTS, st.sampled_from(NO_FIELDS), st.data())
def test_the_first_text_that_is_no_field_is_found(module: Any, texts: list[str], wrong: str, data: Any) -> None:
    place = data.draw(st.integers(0, len(texts)))
    joined = "".join([*texts[:place], wrong, *texts[place:]]).encode()
    assert module.first_no_text(joined, 0, len(texts) + 1) == place
    with pytest.raises(ValueError, match=f"^text {place} is not 0x and 64 hexadecimal digits$"):
        module.fields_of_texts(joined, 0, len(texts) + 1)


@pytest.mark.parametrize("module", MODULES)
def test_upper_case_digits_are_read_and_told(module: Any) -> None:
    texts = b"0x" + b"0" * 64 + b"0x" + b"0" * 40 + b"A" + b"0" * 23
    assert module.first_no_text(texts, 0, 2) == 1
    assert module.fields_of_texts(texts, 66, 1).hex() == "0" * 40 + "a" + "0" * 23


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize(("start", "count"), [(-1, 1), (0, -1), (1, 1), (0, 2), (67, 0), (0, 1 << 60), (1 << 60, 1)])
def test_texts_outside_of_their_buffer_are_refused(module: Any, start: int, count: int) -> None:
    for read in (module.first_no_text, module.fields_of_texts):
        with pytest.raises(ValueError, match=f"^{count} texts from byte {start} on are not within 66 bytes$"):
            read(b"0x" + bytes(64), start, count)


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
