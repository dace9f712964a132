"""Parameters in the form in which clients write them, in plain Python: the readable form of the usual_params kernel.

The stub ``fastnode/_ext/wire/usual_params.pyi`` says what everything does.
"""

from __future__ import annotations

import re
from typing import Final

from fastnode._twins import encode

__all__ = ["read"]

_BLANKS: Final = r"[ \t\n\r]*"
_HASH: Final = r'"0x[0-9a-fA-F]{64}"'
_NUMBER: Final = re.compile(rb"0|[1-9][0-9]{0,8}")
_FORMS: Final = {
    ord("b"): rf'(?:0|[1-9][0-9]{{0,8}}|"latest"|{_HASH})',
    ord("f"): r'"0x[0-9a-fA-F]{1,64}"',
    ord("h"): _HASH,
    ord("n"): r"(?:0|[1-9][0-9]{0,8})",
    ord("t"): rf"\[{_BLANKS}(?:{_HASH}(?:{_BLANKS},{_BLANKS}{_HASH})*{_BLANKS})?\]",
}
_DIGITS: Final = re.compile(rb"0x[0-9a-fA-F]+")


def read(shape: bytes, text: bytes, tip: int, items_max: int) -> tuple[int | bytes | None, ...] | None:
    required, _, optional = shape.partition(b"|")
    letters = required + optional
    separators = ["", *[_BLANKS + "," + _BLANKS] * len(letters)]
    forms = [f"{separator}({_FORMS[letter]})" for separator, letter in zip(separators, letters, strict=False)]
    whole = "".join(forms[: len(required)]) + "".join(f"(?:{form}" for form in forms[len(required) :])
    whole += ")?" * len(optional)
    match = re.fullmatch(rf"{_BLANKS}\[{_BLANKS}{whole}{_BLANKS}\]{_BLANKS}".encode(), text)
    if match is None:
        return None
    try:
        return tuple(
            None if value is None else _value(letter, value, tip, items_max)
            for letter, value in zip(letters, match.groups(), strict=True)
        )
    except ValueError:
        return None


def _value(letter: int, text: bytes, tip: int, items_max: int) -> int | bytes:
    if text == b'"latest"':
        return tip
    if _NUMBER.fullmatch(text):
        return int(text)
    fields = [encode.field_from_text(digits) for digits in _DIGITS.findall(text)]
    if letter == ord("t") and len(fields) > items_max:
        raise ValueError("too many")
    return b"".join(fields)
