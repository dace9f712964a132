"""Field elements and the readers of JSON scalars."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.errors import DecodeError
from fastnode.protocol.fields import (
    MODULUS,
    ZERO_FIELD,
    ZERO_FIELD_TEXT,
    as_record,
    field_from_int,
    field_texts,
    fields_from_texts,
    first_non_canonical,
    hex_text,
    int_from_field,
    integer_field_text,
    read_base64,
    read_bytes,
    read_decimal,
    read_field,
    read_field_integer,
    read_fields,
    read_list,
    read_number,
    read_record,
    split_fields,
)

FIELD_VALUES = st.integers(0, MODULUS - 1) | st.integers(0, 5) | st.integers(MODULUS - 5, MODULUS - 1)
MODULUS_TEXT = f"0x{MODULUS:064x}"
LARGEST_TEXT = f"0x{MODULUS - 1:064x}"


@given(FIELD_VALUES)
def test_a_field_survives_json(value: int) -> None:
    field = field_from_int(value)
    assert int_from_field(field) == value
    assert read_field({"x": hex_text(field)}, "x", "") == field
    assert read_field_integer({"x": integer_field_text(value)}, "x", "") == value


@pytest.mark.parametrize("value", [-1, MODULUS, 1 << 256])
def test_an_integer_out_of_range_is_no_field(value: int) -> None:
    with pytest.raises(ValueError, match="not a field element"):
        field_from_int(value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "expected a hex string, got null"),
        (5, "expected a hex string, got a number"),
        (True, "expected a hex string, got a boolean"),
        ([ZERO_FIELD_TEXT] * 66, "expected a hex string, got an array"),
        ({}, "expected a hex string, got an object"),
        ("", "expected 0x and 64 hex digits, got 0 characters"),
        ("0x", "expected 0x and 64 hex digits, got 2 characters"),
        ("0x1", "expected 0x and 64 hex digits, got 3 characters"),
        ("00" * 33, "expected 0x and 64 hex digits"),
        ("0X" + "00" * 32, "expected 0x and 64 hex digits"),
        (ZERO_FIELD_TEXT + "0", "got 67 characters"),
        ("0x" + "0g" * 32, "not hexadecimal"),
        ("0x" + "00 " * 21 + "0", "not hexadecimal"),
        ("0x" + "0\u0660" * 32, "not hexadecimal"),
        (MODULUS_TEXT, "not below the field modulus"),
        ("0x" + "ff" * 32, "not below the field modulus"),
    ],
)
def test_a_bad_field_is_refused_with_its_path(text: Any, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason) as single:
        read_field({"totalFees": text}, "totalFees", "checkpoint.blocks[2].header")
    assert str(single.value).startswith("checkpoint.blocks[2].header.totalFees: ")
    with pytest.raises(DecodeError, match=reason) as listed:
        read_fields({"noteHashes": [LARGEST_TEXT, text]}, "noteHashes", "effect", maximum=2)
    assert str(listed.value).startswith("effect.noteHashes[1]: ")


def test_a_missing_key_is_named() -> None:
    with pytest.raises(DecodeError, match=r"^header\.root: missing$"):
        read_field({}, "root", "header")
    with pytest.raises(DecodeError, match=r"^size: missing$"):
        read_number({}, "size", "")


@given(st.lists(FIELD_VALUES, max_size=40))
def test_an_array_of_fields_survives_json(values: list[int]) -> None:
    joined = b"".join(map(field_from_int, values))
    texts = field_texts(joined)
    assert texts == [integer_field_text(value) for value in values]
    assert fields_from_texts(texts, "") == joined
    assert split_fields(joined) == tuple(map(field_from_int, values))


def test_upper_case_digits_are_read_but_never_written() -> None:
    assert hex_text(read_field({"x": LARGEST_TEXT.upper().replace("0X", "0x")}, "x", "")) == LARGEST_TEXT


@pytest.mark.parametrize(
    "texts",
    [
        [ZERO_FIELD_TEXT * 2, ""],  # right length in all, wrong in each
        ["0x0x" + "00" * 31, "00" * 33],  # prefixes in the wrong places
        ["0x" + "00" * 31 + "0x", ZERO_FIELD_TEXT],
        [ZERO_FIELD_TEXT, ZERO_FIELD_TEXT[:-1] + " "],
        [b"0x" + b"00" * 32, ZERO_FIELD_TEXT],
    ],
)
def test_texts_that_only_look_right_when_joined_are_refused(texts: list[Any]) -> None:
    with pytest.raises(DecodeError, match=r"^list\[\d\]: "):
        fields_from_texts(texts, "list")


@given(st.lists(st.integers(0, (1 << 256) - 1) | FIELD_VALUES, max_size=10))
def test_the_first_field_not_below_the_modulus_is_found(values: list[int]) -> None:
    joined = b"".join(value.to_bytes(32, "big") for value in values)
    expected = next((i for i, value in enumerate(values) if value >= MODULUS), None)
    assert first_non_canonical(joined) == expected


def test_a_list_above_its_limit_is_refused_with_both_numbers() -> None:
    with pytest.raises(DecodeError, match=r"^tx\.noteHashes: has 65 elements, at most 64 allowed$"):
        read_fields({"noteHashes": [ZERO_FIELD_TEXT] * 65}, "noteHashes", "tx", maximum=64)
    assert read_fields({"noteHashes": [ZERO_FIELD_TEXT] * 64}, "noteHashes", "tx", maximum=64) == ZERO_FIELD * 64


@pytest.mark.parametrize("value", [None, {}, "x", 3, ()])
def test_only_an_array_is_a_list(value: Any) -> None:
    with pytest.raises(DecodeError, match=r"^body\.txEffects: expected an array"):
        read_list({"txEffects": value}, "txEffects", "body")


@pytest.mark.parametrize("value", [None, [], "x", 3, True])
def test_only_an_object_is_a_record(value: Any) -> None:
    with pytest.raises(DecodeError, match=r"^block\.header: expected an object"):
        read_record({"header": value}, "header", "block")
    with pytest.raises(DecodeError, match=r"^value: expected an object"):
        as_record(value, "")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (-1, "-1 is negative"),
        (1 << 32, "4294967296 does not fit 32 bits"),
        (1.0, "expected an integer, got a number"),
        ("1", "expected an integer, got a string"),
        (True, "expected an integer, got a boolean"),
        (None, "expected an integer, got null"),
    ],
)
def test_a_bad_number_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        read_number({"blockNumber": value}, "blockNumber", "header")


def test_numbers_reach_to_the_end_of_their_width() -> None:
    assert read_number({"n": 0}, "n", "") == 0
    assert read_number({"n": (1 << 32) - 1}, "n", "") == (1 << 32) - 1


@given(st.integers(0, (1 << 64) - 1))
def test_a_decimal_survives_json(value: int) -> None:
    assert read_decimal({"t": str(value)}, "t", "") == value


@given(st.integers(-(1 << 255) + 1, (1 << 255) - 1))
def test_a_signed_decimal_survives_json(value: int) -> None:
    assert read_decimal({"m": str(value)}, "m", "", bits=255, signed=True) == value


@pytest.mark.parametrize(
    "text",
    ["", "-", "-1", "+1", " 1", "1 ", "1_0", "0x1", "1e3", "1.0", "01", "-0", "\u0661", "\u00b2", 7, None, True],
)
def test_what_is_no_plain_decimal_string_is_refused(text: Any) -> None:
    with pytest.raises(DecodeError, match=r"^header\.timestamp: (not a decimal integer|expected a decimal string)"):
        read_decimal({"timestamp": text}, "timestamp", "header")


@pytest.mark.parametrize("text", [str(1 << 64), "9" * 21, "9" * 1_000_000])
def test_a_decimal_too_big_for_its_width_is_refused(text: str) -> None:
    with pytest.raises(DecodeError, match="does not fit 64 bits"):
        read_decimal({"timestamp": text}, "timestamp", "header")


def test_a_field_integer_is_held_to_its_width() -> None:
    with pytest.raises(DecodeError, match="4294967296 does not fit 32 bits"):
        read_field_integer({"slotNumber": integer_field_text(1 << 32)}, "slotNumber", "", 32)


def test_an_l1_hash_may_lie_above_the_modulus_and_an_address_has_20_bytes() -> None:
    assert read_bytes({"blockHash": "0x" + "ff" * 32}, "blockHash", "", 32) == b"\xff" * 32
    assert read_bytes({"coinbase": "0x" + "ab" * 20}, "coinbase", "", 20) == b"\xab" * 20
    with pytest.raises(DecodeError, match="expected 0x and 40 hex digits"):
        read_bytes({"coinbase": "0x" + "ab" * 32}, "coinbase", "", 20)
    with pytest.raises(DecodeError, match="not hexadecimal"):
        read_bytes({"coinbase": "0x" + "a " * 20}, "coinbase", "", 20)


@pytest.mark.parametrize("text", ["A", "A===", "AA==AA==", "A-_=", "AA\n==", 5, None])
def test_bad_base64_is_refused(text: Any) -> None:
    with pytest.raises(DecodeError, match=r"^class\.packedBytecode: "):
        read_base64({"packedBytecode": text}, "packedBytecode", "class")
