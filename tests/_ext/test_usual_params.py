"""Parameters in their usual form: the kernel, and the parameter types of the method table."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastnode.api.chain_parameters import DEVELOPMENT_BLOCK, BlockReference, BlockReferenceKind
from fastnode.api.logs import TagList
from fastnode.kernels import usual_params as kernel
from fastnode.protocol.fields import MODULUS
from fastnode.values.field_elements import ADDRESS, FIELD, TX_HASH
from fastnode.values.numbers import Integer
from fastnode.values.value_type import ValueType

TIP = 106
ITEMS_MAX = 3

hex_digits = st.text("0123456789abcdefABCDEF", min_size=0, max_size=66)
full_hashes = st.integers(0, MODULUS - 1).map(lambda number: f"0x{number:064x}")
odd_texts = st.sampled_from(
    [
        "latest",
        "proven",
        "Latest",
        "0x",
        "0X1",
        "0x1 ",
        "7",
        "",
        "0xg",
        f"0x{MODULUS:x}",
        f"0x{MODULUS - 1:x}",
        "é",
        "\\",
    ]
)
texts = st.one_of(full_hashes, hex_digits.map(lambda digits: "0x" + digits), odd_texts)
blocks = st.one_of(st.integers(-2, 10**10), texts, st.sampled_from([1.0, 1e3, None, True, {}]))
tags = st.one_of(st.lists(st.one_of(full_hashes, texts), max_size=4), texts, st.none())
numbers = st.one_of(st.integers(-1, 10**10), st.sampled_from([1.0, "1", None]))
VALUES = {"b": blocks, "f": texts, "h": texts, "n": numbers, "t": tags}
TYPES: dict[str, tuple[ValueType, ...]] = {
    "b": (DEVELOPMENT_BLOCK,),
    "f": (FIELD,),
    "h": (TX_HASH, ADDRESS),
    "n": (Integer(minimum=0),),
    "t": (TagList("tags", ITEMS_MAX),),
}


@st.composite
def calls(draw: Any) -> tuple[str, str]:
    """A shape, and a text of params that hardly ever has it by chance."""
    shape = draw(st.text("bfhnt", max_size=3))
    values = [draw(VALUES[letter]) for letter in shape]
    optional = draw(st.integers(0, len(shape)))
    if optional:
        shape = shape[: len(shape) - optional] + "|" + shape[-optional:]
        values = values[: len(values) - draw(st.integers(0, optional))]
    if draw(st.integers(0, 9)) == 0:
        values.append(draw(texts))
    blank = draw(st.sampled_from(["", "", " ", "\t\n", "\r"]))
    text = json.dumps(values, ensure_ascii=False, separators=(blank + "," + blank, ":"))
    if draw(st.integers(0, 9)) == 0:
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.sampled_from([" ", ",", "]", "[", '"', "0", "\\", "\x00"])) + text[place:]
    return shape, blank + text + blank


@given(call=calls())
@settings(max_examples=3000)
def test_what_is_read_is_what_the_parameter_types_read(call: tuple[str, str]) -> None:
    shape, text = call
    values = kernel.read(shape.encode(), text.encode(), TIP, ITEMS_MAX)
    if values is None:
        return
    given_values = orjson.loads(text)
    letters = shape.replace("|", "")
    assert shape.find("|") in (-1, *range(len(given_values) + 1))
    assert values[len(given_values) :] == (None,) * (len(letters) - len(given_values))
    for letter, value, given_value in zip(letters, values, given_values, strict=False):
        for kind in TYPES[letter]:
            decoded = kind.from_json(given_value)
            assert value == (TIP if decoded == BlockReference(BlockReferenceKind.TIP, "proposed") else decoded)


def test_the_usual_forms_are_read() -> None:
    field = f"0x{7:064x}"
    usual = f'["latest","0x7", "{field}"]'.encode()
    assert kernel.read(b"bfh", usual, TIP, 0) == (TIP, bytes(31) + b"\x07", bytes(31) + b"\x07")
    assert kernel.read(b"b", b"[0]", TIP, 0) == (0,)
    assert kernel.read(b"b", b" [ 123456789 ] ", TIP, 0) == (123456789,)
    assert kernel.read(b"b", f'["{field}"]'.encode(), TIP, 0) == (bytes(31) + b"\x07",)
    assert kernel.read(b"t", f'[["{field}" , "{field}"]]'.encode(), TIP, 2) == ((bytes(31) + b"\x07") * 2,)


@pytest.mark.parametrize(
    "text",
    ["", "[", "[]", "[1", "[1,", "[1]x", "[01]", "[-1]", "[1234567890]", '["0x7"]', "[1,2]", "1", "[1.0]", "[1e2]"],
)
def test_unusual_forms_are_left_alone(text: str) -> None:
    assert kernel.read(b"b", text.encode(), TIP, 0) is None


def test_more_items_than_allowed_are_left_alone() -> None:
    tag = f'"0x{7:064x}"'
    assert kernel.read(b"t", f"[[{tag},{tag}]]".encode(), TIP, 1) is None
    assert kernel.read(b"t", b"[ [ ] ]", TIP, 1) == (b"",)


def test_what_is_optional_may_be_left_out_from_the_end_on() -> None:
    assert kernel.read(b"n|nn", b"[1]", TIP, 0) == (1, None, None)
    assert kernel.read(b"n|nn", b"[1,2]", TIP, 0) == (1, 2, None)
    assert kernel.read(b"n|nn", b"[1,2 , 3]", TIP, 0) == (1, 2, 3)
    for text in (b"[1,]", b"[1,null]", b"[1,2,3,4]", b"[]"):
        assert kernel.read(b"n|nn", text, TIP, 0) is None
