"""Parsing requests: the fast parser, and the one for what it refuses without reason."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.errors import ParseError
from fastnode.jsonrpc import json_text
from fastnode.jsonrpc.json_text import IdTexts, parse

DEPTH = 20

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=12,
)


@given(value=values)
def test_both_parsers_read_the_same(value: Any) -> None:
    text = json.dumps(value).encode()
    fast = parse(text, depth_max=DEPTH)
    strict = json_text._parse_with_lone_surrogates(text, DEPTH)
    assert repr(fast) == repr(strict)


@given(text=st.binary(max_size=60))
def test_both_parsers_refuse_the_same(text: bytes) -> None:
    try:
        fast = repr(orjson.loads(text))
    except orjson.JSONDecodeError:
        fast = None
    try:
        strict = repr(json_text._parse_with_lone_surrogates(text, DEPTH))
    except ParseError:
        strict = None
    if fast is not None:
        assert strict == fast


@pytest.mark.parametrize("text", [b'"\\ud800"', b'"\\udfff x"', b'{"a":"\\uD83D"}', b'["\\ude00\\ud83d"]'])
def test_a_lone_surrogate_is_a_character(text: bytes) -> None:
    assert parse(text, depth_max=DEPTH) == json.loads(text)


@pytest.mark.parametrize("text", [b'"\\ud800" x', b'["\\ud800",NaN]', b'["\\ud800",1e999]', b'["\\ud800",-Infinity]'])
def test_a_lone_surrogate_excuses_nothing_else(text: bytes) -> None:
    with pytest.raises(ParseError):
        parse(text, depth_max=DEPTH)


@pytest.mark.parametrize("depth", range(1, 6))
def test_the_depth_counts_arrays_and_objects_inside_each_other(depth: int) -> None:
    nested: Any = 1
    for level in range(depth):
        nested = [nested, [0], [0]] if level % 2 and depth > level + 1 else {"a": nested}
    text = orjson.dumps(nested)
    assert parse(text, depth_max=depth) == nested
    with pytest.raises(ParseError, match=f"more than {depth - 1} "):
        parse(text, depth_max=depth - 1)


def test_brackets_in_strings_are_no_depth() -> None:
    assert parse(b'["[[[[[[[[{{{{{"]', depth_max=1) == ["[[[[[[[[{{{{{"]


@given(entries=st.lists(st.tuples(values, st.lists(st.tuples(st.text(), values), max_size=3)), max_size=4))
def test_the_text_of_an_id_is_found_wherever_it_stands(entries: list[tuple[Any, list[tuple[str, Any]]]]) -> None:
    """Keys before and after it, equal keys, and values that contain ids of their own."""
    objects, expected = [], []
    for identifier, members in entries:
        text = json.dumps(identifier)
        others = [f"{json.dumps(key)} : {json.dumps([{'id': value}])}" for key, value in members if key != "id"]
        objects.append(
            "{" + " , ".join([f'"id":{json.dumps("first")}', *others, f'"\\u0069d"  :  {text} ', *others]) + "}"
        )
        expected.append(text.encode())
    body = ("\ufeff[ " + ",\n".join(objects) + " ]").encode()
    ids = IdTexts(body)
    parsed = parse(body, depth_max=DEPTH)
    assert [ids.text(request["id"], index) for index, request in enumerate(parsed)] == expected
