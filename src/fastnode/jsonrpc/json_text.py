"""The JSON of a request: parsing it, and finding the exact text of its ids.

orjson parses.  Two things it cannot do are done here with the standard library's scanner:

* An id is echoed byte for byte.  orjson turns ``12345678901234567890123`` into a float, ``-0``
  into ``0`` and forgets how a string was escaped.  :class:`IdTexts` finds the text itself.
* ``"\\ud800"``, a lone surrogate, is grammatical JSON (RFC 8259, section 8.2) that orjson refuses.

Both are rare, so the common request never pays for them.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

import orjson

from fastnode.errors import ParseError

__all__ = ["IdTexts", "parse"]

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
#: The integers that orjson keeps exact; others become floats, here as there.
INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**64 - 1

_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_WHITESPACE: Final = re.compile(r"[ \t\n\r]*")


def parse(body: bytes, *, depth_max: int) -> Any:
    """The value of a JSON text.

    A byte order mark is skipped; of equal keys the last one counts.  Raises
    :class:`~fastnode.errors.ParseError` for anything that is not JSON, for numbers too large for a
    double, and for more than ``depth_max`` arrays and objects inside each other.
    """
    if body.startswith(BYTE_ORDER_MARK):
        body = body[len(BYTE_ORDER_MARK) :]
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if "depth limit" in str(error):  # orjson's own limit is far above ours
            raise _too_deep(depth_max) from None
        if _SURROGATE_ESCAPE.search(body) is None:
            raise ParseError(f"Parse error: {error}") from None
        value = _parse_with_lone_surrogates(body, depth_max)
    # Fast path. If: the text opens fewer containers than may be nested.  Then: none is too deep.
    if not _opens_at_most(depth_max, body) and _is_deeper(value, depth_max):
        raise _too_deep(depth_max)
    return value


def _too_deep(depth_max: int) -> ParseError:
    return ParseError(f"Parse error: more than {depth_max} arrays and objects inside each other")


def _opens_at_most(count: int, body: bytes) -> bool:
    """Whether a text has no more than ``count`` opening brackets and braces."""
    for opener in (b"[", b"{"):
        at = body.find(opener)  # several times as fast as count() where there are few
        while at >= 0:
            count -= 1
            if count < 0:
                return False
            at = body.find(opener, at + 1)
    return True


def _is_deeper(value: object, levels: int) -> bool:
    """Whether ``value`` holds more than ``levels`` containers inside each other."""
    if type(value) is dict:
        children: Any = value.values()
    elif type(value) is list:
        children = value
    else:
        return False
    if levels == 0:
        return True
    return any(type(child) in (dict, list) and _is_deeper(child, levels - 1) for child in children)


# ---- lone surrogates ------------------------------------------------------------------------


def _parse_with_lone_surrogates(body: bytes, depth_max: int) -> Any:
    """As :func:`orjson.loads`, but a lone surrogate is a character like another."""
    try:
        return _LENIENT_DECODER.decode(body.decode("utf-8"))
    except RecursionError:
        raise _too_deep(depth_max) from None
    except ValueError as error:
        raise ParseError(f"Parse error: {error}") from None


def _read_integer(text: str) -> int | float:
    # 20 characters hold every integer of 64 bits; longer texts are never worth an exact integer.
    if len(text) <= 20 and INT_MIN <= (value := int(text)) <= INT_MAX:
        return value
    return _read_float(text)


def _read_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("number is infinity when parsed as double")
    return value


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


_LENIENT_DECODER: Final = json.JSONDecoder(
    parse_int=_read_integer, parse_float=_read_float, parse_constant=_refuse_constant
)

# ---- ids ------------------------------------------------------------------------------------

#: Finds the end of the value at a position, at C speed; what the value is matters for keys only.
_scan_value: Final = json.JSONDecoder(parse_int=float).raw_decode


class IdTexts:
    """The exact texts of the ids in one request body that :func:`parse` has accepted."""

    __slots__ = ("_body", "_has_escapes", "_texts")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._has_escapes: bool | None = None
        self._texts: list[bytes] | None = None

    def text(self, value: object, index: int) -> bytes:
        """The text of the id whose parsed value is ``value``; ``index`` is the request's place in its batch,
        0 for a request alone."""
        # Fast path. If: only one text can stand for the value.  Then: write it.
        if value is None:
            return b"null"
        kind = type(value)
        if kind is int and (value != 0 or b"-0" not in self._body):
            return str(value).encode()
        if kind is bool:
            return b"true" if value else b"false"
        if kind is str and not self._escapes():
            return b'"%b"' % str(value).encode()
        # Strict path: look it up.
        if self._texts is None:
            self._texts = _find_id_texts(self._body)
        return self._texts[index]

    def _escapes(self) -> bool:
        if self._has_escapes is None:
            self._has_escapes = b"\\" in self._body
        return self._has_escapes


def _find_id_texts(body: bytes) -> list[bytes]:
    """The id's text of each request in ``body``, which is valid JSON; ``null`` where there is none."""
    text = body.removeprefix(BYTE_ORDER_MARK).decode("utf-8")
    position = _skip_whitespace(text, 0)
    if text[position] == "{":
        return [_find_id_in_object(text, position)[0]]
    texts: list[bytes] = []
    position = _skip_whitespace(text, position + 1)
    while text[position] != "]":
        if text[position] == "{":
            found, position = _find_id_in_object(text, position)
        else:
            found, position = b"null", _scan_value(text, position)[1]
        texts.append(found)
        position = _skip_whitespace(text, position)
        if text[position] == ",":
            position = _skip_whitespace(text, position + 1)
    return texts


def _find_id_in_object(text: str, start: int) -> tuple[bytes, int]:
    """The text of the last ``id`` of the object that opens at ``start``, and the position after the object."""
    found = "null"
    position = _skip_whitespace(text, start + 1)
    while text[position] != "}":
        key, position = _scan_value(text, position)
        value_start = _skip_whitespace(text, _skip_whitespace(text, position) + 1)
        position = _scan_value(text, value_start)[1]
        if key == "id":
            found = text[value_start:position]
        position = _skip_whitespace(text, position)
        if text[position] == ",":
            position = _skip_whitespace(text, position + 1)
    return found.encode("utf-8"), position + 1


def _skip_whitespace(text: str, position: int) -> int:
    match = _WHITESPACE.match(text, position)
    return position if match is None else match.end()
