"""Parameters in their usual form: the kernel, and the parameter types of the method table."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import orjson
import pytest

from fastnode.api.chain_parameters import DEVELOPMENT_BLOCK, BlockReference, BlockReferenceKind
from fastnode.api.logs import TagList
from fastnode.kernels import usual_params as kernel
from fastnode.protocol.fields import MODULUS
from fastnode.values.field_elements import ADDRESS, FIELD, TX_HASH
from fastnode.values.numbers import Integer
from fastnode.values.value_type import ValueType

TIP = 106
ITEMS_MAX = 3

ODD_TEXTS = (
    "latest", "proven", "Latest", "0x", "0X1", "0x1 ", "7", "", "0xg", f"0x{MODULUS:x}",
    f"0x{MODULUS - 1:x}", "é", "\\",
)  # fmt: skip
TYPES: dict[str, tuple[ValueType, ...]] = {
    "b": (DEVELOPMENT_BLOCK,),
    "f": (FIELD,),
    "h": (TX_HASH, ADDRESS),
    "n": (Integer(minimum=0),),
    "t": (TagList("tags", ITEMS_MAX),),
}


def some_field(dice: Random) -> str:
    return f"0x{dice.randrange(MODULUS):064x}"


def some_text(dice: Random) -> str:
    digits = "0x" + "".join(dice.choices("0123456789abcdefABCDEF", k=dice.choice((0, 1, 5, 63, 64, 65, 66))))
    return dice.choice((some_field(dice), digits, dice.choice(ODD_TEXTS)))


def some_value(dice: Random, letter: str) -> Any:
    if letter == "b":
        return dice.choice((dice.randint(-2, 200), dice.randint(-2, 10**10), some_text(dice), 1.0, 1e3, None, True, {}))
    if letter == "n":
        return dice.choice((dice.randint(-1, 300), dice.randint(-1, 10**10), 1.0, "1", None))
    if letter == "t":
        tags = [dice.choice((some_field, some_text))(dice) for _ in range(dice.randrange(5))]
        return dice.choice((tags, tags, tags, some_text(dice), None))
    return some_text(dice)


def some_call(dice: Random) -> tuple[str, str]:
    """A shape, and a text of params that hardly ever has it by chance."""
    letters = "".join(dice.choices("bfhnt", k=dice.randrange(4)))
    values = [some_value(dice, letter) for letter in letters]
    optional = dice.randint(0, len(letters))
    shape = f"{letters[: len(letters) - optional]}|{letters[len(letters) - optional :]}" if optional else letters
    values = values[: len(values) - dice.randint(0, optional)]
    if dice.randrange(10) == 0:
        values.append(some_text(dice))
    blank = dice.choice(("", "", " ", "\t\n", "\r"))
    text = json.dumps(values, ensure_ascii=False, separators=(blank + "," + blank, ":"))
    if dice.randrange(10) == 0:
        place = dice.randint(0, len(text))
        text = text[:place] + dice.choice((" ", ",", "]", "[", '"', "0", "\\", "\x00")) + text[place:]
    return shape, blank + text + blank


def assert_read_as_the_types_read_it(shape: str, text: str) -> bool:
    """True if the kernel has read it."""
    values = kernel.read(shape.encode(), text.encode(), TIP, ITEMS_MAX)
    if values is None:
        return False
    given_values = orjson.loads(text)
    letters = shape.replace("|", "")
    assert shape.find("|") in (-1, *range(len(given_values) + 1))
    assert values[len(given_values) :] == (None,) * (len(letters) - len(given_values))
    for letter, value, given_value in zip(letters, values, given_values, strict=False):
        for kind in TYPES[letter]:
            decoded = kind.from_json(given_value)
            assert value == (TIP if decoded == BlockReference(BlockReferenceKind.TIP, "proposed") else decoded)
    return True


@pytest.mark.parametrize("seed", range(4))
def test_what_is_read_is_what_the_parameter_types_read(seed: int) -> None:
    dice = Random(seed)
    read = sum(assert_read_as_the_types_read_it(*some_call(dice)) for _ in range(5_000))
    assert 500 < read < 4_500


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
