"""Text forms: the extension and its twin, under the same tests."""

from __future__ import annotations

import base64
import json
import string
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode._ext.wire import encode as extension
from fastnode._twins import encode as twin

MODULUS = twin.MODULUS
BOTH = (extension, twin)

any_text = st.one_of(
    st.text(),
    st.binary(),
    st.text("0123456789abcdefABCDEFxX+/=g ", max_size=90),
    st.from_regex(r"\A0[xX][0-9a-fA-F]{0,66}\Z"),
    st.from_regex(r"\A[0-9]{1,80}\Z"),
    st.from_regex(r"\A([A-Za-z0-9+/]{4}){0,5}(|[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)\Z"),
)


@pytest.fixture(params=BOTH, ids=["extension", "twin"])
def encode(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def outcome(function: Any, argument: Any) -> Any:
    """Result of a call, or the kind and text of its error."""
    try:
        return function(argument)
    except (TypeError, ValueError) as error:
        return type(error), str(error)


# ---- both alike ---------------------------------------------------------------------------------


@given(any_text)
def test_extension_and_twin_read_alike_and_refuse_alike(text: str | bytes) -> None:
    for name in ("from_hex", "field_from_text", "from_base64"):
        assert outcome(getattr(extension, name), text) == outcome(getattr(twin, name), text), name


@given(st.one_of(st.binary(max_size=200), st.binary(min_size=32, max_size=32)))
def test_extension_and_twin_write_alike_and_refuse_alike(data: bytes) -> None:
    for name in ("to_hex", "to_base64", "field_to_decimal", "quoted_fields"):
        assert outcome(getattr(extension, name), data) == outcome(getattr(twin, name), data), name


@pytest.mark.parametrize("wrong", [None, 5, 1.5, bytearray(32), ["0x"]], ids=lambda wrong: type(wrong).__name__)
def test_a_wrong_type_is_refused_alike(wrong: Any) -> None:
    for name in (
        "to_hex",
        "to_base64",
        "field_to_decimal",
        "quoted_fields",
        "from_hex",
        "field_from_text",
        "from_base64",
    ):
        expected = outcome(getattr(twin, name), wrong)
        assert expected[0] is TypeError
        assert outcome(getattr(extension, name), wrong) == expected
    for wrong_int in ("1", 1.0, None):
        assert outcome(extension.field_from_int, wrong_int) == outcome(twin.field_from_int, wrong_int)


def test_both_know_the_same_modulus_and_names() -> None:
    assert extension.MODULUS == twin.MODULUS
    assert extension.__all__ == twin.__all__


# ---- hex ----------------------------------------------------------------------------------------


def test_bytes_are_written_with_prefix_and_small_digits(encode: ModuleType) -> None:
    assert encode.to_hex(b"\x00\xab\xff") == b"0x00abff"
    assert encode.to_hex(b"") == b"0x"


@given(st.binary())
def test_hex_goes_there_and_back(data: bytes) -> None:
    for module in BOTH:
        text = module.to_hex(data)
        assert text == b"0x" + data.hex().encode()
        for form in (text, text.decode(), text[2:], text[:2] + text[2:].upper()):
            assert module.from_hex(form) == data
        for wrong in (text.replace(b"0x", b"0X"), b" " + text, text + b" "):
            with pytest.raises(ValueError, match="not a hex string"):
                module.from_hex(wrong)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0x0", "odd number of hex digits"),
        ("abc", "odd number of hex digits"),
        ("0x0g", "not a hex string"),
        ("0x 1", "not a hex string"),
        ("0x0x", "not a hex string"),
        ("0:", "not a hex string"),
        ("0/", "not a hex string"),
        ("0@", "not a hex string"),
        ("0`", "not a hex string"),
        ("\u0661\u0661", "not a hex string"),
        ("\ud800", "not a hex string"),
        (b"\xff\xff", "not a hex string"),
    ],
)
def test_what_is_no_hex_is_refused(encode: ModuleType, text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        encode.from_hex(text)


def test_only_hex_digits_are_hex_digits(encode: ModuleType) -> None:
    for character in range(256):
        accepted = isinstance(outcome(encode.from_hex, bytes([character]) * 2), bytes)
        assert accepted == (chr(character) in "0123456789abcdefABCDEF"), character


@pytest.mark.parametrize("place", range(64))
def test_each_digit_of_a_field_is_read_at_its_place_and_nothing_else_is(encode: ModuleType, place: int) -> None:
    for character in map(chr, range(256)):
        digits = "0" * 64
        digits = digits[:place] + character + digits[place + 1 :]
        read = outcome(encode.field_from_text, "0x" + digits)
        value = int(digits, 16) if character in "0123456789abcdefABCDEF" else None
        if value is None or value >= encode.MODULUS:
            assert not isinstance(read, bytes), (character, read)
        else:
            assert read == value.to_bytes(32, "big"), character


# ---- field elements -----------------------------------------------------------------------------


@given(st.integers(0, MODULUS - 1))
def test_every_way_to_write_a_field_reads_as_the_same_field(value: int) -> None:
    field = value.to_bytes(32, "big")
    for module in BOTH:
        assert module.field_from_int(value) == field
        forms = [hex(value), f"0x{value:064x}", f"0x{value:064X}", str(value), f"000{value}", str(value).encode()]
        for form in forms:
            assert module.field_from_text(form) == field


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty string"),
        ("0x", "no digits after 0x"),
        ("0x" + "0" * 65, "more than 64 hex digits"),
        ("0x" + "g" * 64, "not a hex string"),
        ("0x" + "g" * 65, "not a hex string"),
        ("ff", "neither a hex string with 0x in front nor a decimal number"),
        ("-1", "neither a hex string with 0x in front nor a decimal number"),
        ("1_000", "neither a hex string with 0x in front nor a decimal number"),
        (" 1", "neither a hex string with 0x in front nor a decimal number"),
        ("1.0", "neither a hex string with 0x in front nor a decimal number"),
        ("\u0661", "neither a hex string with 0x in front nor a decimal number"),
        (hex(MODULUS), "not below the field modulus"),
        (str(MODULUS), "not below the field modulus"),
        ("0x" + "f" * 64, "not below the field modulus"),
        ("9" * 77, "not below the field modulus"),
        ("9" * 100_000, "not below the field modulus"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_field_is_refused(encode: ModuleType, text: str, message: str) -> None:
    for form in (text, text.encode()):
        with pytest.raises(ValueError, match=f"^{message}$"):
            encode.field_from_text(form)


def test_zeros_in_front_of_a_decimal_do_not_count(encode: ModuleType) -> None:
    assert encode.field_from_text("0" * 1000 + str(MODULUS - 1)) == (MODULUS - 1).to_bytes(32, "big")
    assert encode.field_from_text("0" * 1000) == bytes(32)


@pytest.mark.parametrize(("value", "message"), [(-1, "negative"), (MODULUS, "not below the field modulus")])
def test_a_number_out_of_range_is_no_field(encode: ModuleType, value: int, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        encode.field_from_int(value)


@given(st.integers(0, (1 << 256) - 1) | st.sampled_from([10**i for i in range(78)] + [10**i - 1 for i in range(78)]))
def test_any_number_of_32_bytes_is_written_in_decimal(value: int) -> None:
    for module in BOTH:
        assert module.field_to_decimal(value.to_bytes(32, "big")) == str(value).encode()


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_decimal_needs_32_bytes(encode: ModuleType, size: int) -> None:
    with pytest.raises(ValueError, match=f"value must be 32 bytes long, not {size}"):
        encode.field_to_decimal(bytes(size))


@given(st.lists(st.binary(min_size=32, max_size=32), max_size=8))
def test_quoted_fields_are_a_json_array(fields: list[bytes]) -> None:
    for module in BOTH:
        assert json.loads(module.quoted_fields(b"".join(fields))) == ["0x" + field.hex() for field in fields]


@pytest.mark.parametrize("size", [1, 31, 33, 65])
def test_quoted_fields_need_whole_fields(encode: ModuleType, size: int) -> None:
    with pytest.raises(ValueError, match=f"data must be a multiple of 32 bytes long, not {size}"):
        encode.quoted_fields(bytes(size))


# ---- base64 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", range(200))
def test_text_of_any_length_is_written_whole_and_no_further(encode: ModuleType, size: int) -> None:
    data = bytes((197 * place + size) % 256 for place in range(size))
    assert encode.to_base64(data) == encode.to_base64_narrow(data) == base64.b64encode(data)
    assert encode.to_hex(data) == b"0x" + data.hex().encode()


@given(st.binary())
def test_base64_goes_there_and_back(data: bytes) -> None:
    for module in BOTH:
        text = module.to_base64(data)
        assert text == module.to_base64_narrow(data) == base64.b64encode(data)
        assert module.from_base64(text) == data
        assert module.from_base64(text.decode()) == data


def test_spare_bits_of_the_last_digit_are_ignored(encode: ModuleType) -> None:
    assert encode.from_base64("AB==") == encode.from_base64("AA==") == b"\0"
    assert encode.from_base64("AAB=") == encode.from_base64("AAA=") == b"\0\0"


@pytest.mark.parametrize(
    "text", ["A", "AA", "AAA", "A===", "====", "=", "AA=A", "AA==AAAA", "AAAA====", "AA A", "AA-_", "AAA\n", "AAAé"]
)
def test_what_is_no_padded_base64_is_refused(encode: ModuleType, text: str) -> None:
    with pytest.raises(ValueError, match=r"^not padded base64 of the standard alphabet$"):
        encode.from_base64(text)


def test_only_the_standard_alphabet_is_base64(encode: ModuleType) -> None:
    for character in range(256):
        accepted = isinstance(outcome(encode.from_base64, b"AAA" + bytes([character])), bytes)
        assert accepted == (chr(character) in base64.b64encode(bytes(range(256))).decode() + "+/="), character


def test_a_character_that_is_no_digit_is_found_wherever_it_stands(encode: ModuleType) -> None:
    digits = base64.b64encode(bytes(range(90)))
    for position in range(len(digits)):
        for character in b"!*,-.:;@[]^_`{|}~\0\x7f\x80\xff =":
            broken = digits[:position] + bytes([character]) + digits[position + 1 :]
            is_padding = character == ord("=") and position == len(digits) - 1
            assert isinstance(outcome(encode.from_base64, broken), bytes) == is_padding, (position, character)


def test_every_digit_is_read_at_every_place(encode: ModuleType) -> None:
    alphabet = (string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/").encode()
    for shift in range(len(alphabet)):
        text = (alphabet[shift:] + alphabet[:shift]) * 2
        assert encode.from_base64(text) == base64.b64decode(text)
