"""The shape of a JSON text, in plain Python: the readable form of the json_shape kernel.

The stub ``fastnode/_ext/json_shape.pyi`` says what everything does.
"""

from __future__ import annotations

import json
import re
from typing import Final

__all__ = ["find_ids", "measure"]

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
#: A text, which may lack its end, or a byte that means something outside of texts.
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)
_BLANKS: Final = re.compile(rb"[ \t\n\r]*")
_PLAIN: Final = re.compile(rb"[^ \t\n\r,\]}]*")


def measure(text: bytes, *, depth_max: int, containers_max: int, values_max: int) -> tuple[int, int, int]:
    depth = deepest = containers = commas = 0
    for token in _TOKEN.finditer(text):
        kind = token[0]
        if kind in (b"[", b"{"):
            depth += 1
            containers += 1
            deepest = max(deepest, depth)
            if depth > depth_max or containers > containers_max:
                break
        elif kind in (b"]", b"}"):
            depth -= 1
        elif kind == b",":
            commas += 1
            if commas + containers >= values_max:
                break
    return deepest, containers, commas + containers + 1


def find_ids(text: bytes) -> list[bytes]:
    text = text.removeprefix(_BYTE_ORDER_MARK)
    position = _skip_blanks(text, 0)
    if text[position : position + 1] != b"[":
        return [_read_element(text, position)[0]]
    ids: list[bytes] = []
    position = _skip_blanks(text, position + 1)
    while text[position : position + 1] not in (b"]", b"}", b""):  # the second ends what is no JSON
        found, position = _read_element(text, position)
        ids.append(found)
        position = _skip_comma(text, position)
    return ids


def _read_element(text: bytes, position: int) -> tuple[bytes, int]:
    """The id of a value, that of its last member with the name, and the position behind the value."""
    if text[position : position + 1] != b"{":
        return b"null", _skip_value(text, position)
    found = b"null"
    position = _skip_blanks(text, position + 1)
    while text[position : position + 1] not in (b"}", b""):
        end_of_name = _skip_value(text, position)
        name = json.loads(text[position:end_of_name])
        start = _skip_blanks(text, _skip_blanks(text, end_of_name) + 1)
        position = _skip_value(text, start)
        if name == "id":
            found = text[start:position]
        position = _skip_comma(text, position)
    return found, position + 1


def _skip_comma(text: bytes, position: int) -> int:
    position = _skip_blanks(text, position)
    return _skip_blanks(text, position + 1) if text[position : position + 1] == b"," else position


def _skip_blanks(text: bytes, position: int) -> int:
    match = _BLANKS.match(text, position)
    assert match is not None
    return match.end()


def _skip_value(text: bytes, position: int) -> int:
    depth = 0
    if text[position : position + 1] not in (b'"', b"[", b"{"):
        match = _PLAIN.match(text, position)
        assert match is not None
        return match.end()
    for token in _TOKEN.finditer(text, position):
        if token[0] in (b"[", b"{"):
            depth += 1
        elif token[0] in (b"]", b"}"):
            depth -= 1
        elif token[0] == b",":
            continue
        if depth == 0:
            return token.end()
    return len(text)
