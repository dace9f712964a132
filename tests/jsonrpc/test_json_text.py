"""Parsing requests: the fast parser, and the one for what it refuses without reason."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.errors import ParseError
from fastnode.http.limits import Limits
from fastnode.jsonrpc import json_text
from fastnode.jsonrpc.json_text import IdTexts, parse

LIMITS = Limits(json_depth_max=20)

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
    fast = parse(text, LIMITS)
    strict = json_text._parse_with_lone_surrogates(text)
    assert repr(fast) == repr(strict)


@given(text=st.binary(max_size=60))
def test_both_parsers_refuse_the_same(text: bytes) -> None:
    try:
        fast = repr(orjson.loads(text))
    except orjson.JSONDecodeError:
        fast = None
    try:
        strict = repr(json_text._parse_with_lone_surrogates(text))
    except ParseError:
        strict = None
    if fast is not None:
        assert strict == fast


@pytest.mark.parametrize("text", [b'"\\ud800"', b'"\\udfff x"', b'{"a":"\\uD83D"}', b'["\\ude00\\ud83d"]'])
def test_a_lone_surrogate_is_a_character(text: bytes) -> None:
    assert parse(text, LIMITS) == json.loads(text)


@pytest.mark.parametrize("text", [b'"\\ud800" x', b'["\\ud800",NaN]', b'["\\ud800",1e999]', b'["\\ud800",-Infinity]'])
def test_a_lone_surrogate_excuses_nothing_else(text: bytes) -> None:
    with pytest.raises(ParseError):
        parse(text, LIMITS)


@pytest.mark.parametrize("depth", range(1, 6))
def test_the_depth_counts_arrays_and_objects_inside_each_other(depth: int) -> None:
    nested: Any = 1
    for level in range(depth):
        nested = [nested, [0], [0]] if level % 2 and depth > level + 1 else {"a": nested}
    text = orjson.dumps(nested)
    assert parse(text, Limits(json_depth_max=depth)) == nested
    with pytest.raises(ParseError, match=f"more than {depth - 1} "):
        parse(text, Limits(json_depth_max=depth - 1))


def test_brackets_in_strings_are_no_depth() -> None:
    assert parse(b'["[[[[[[[[{{{{{"]', Limits(json_depth_max=1)) == ["[[[[[[[[{{{{{"]


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
    parsed = parse(body, LIMITS)
    assert [ids.text(request["id"], index) for index, request in enumerate(parsed)] == expected


# ---- what is refused before it is built -----------------------------------------------------------


def test_containers_are_counted_before_anything_is_built() -> None:
    limits = Limits(json_containers_max=10)
    assert parse(b"[[],[],[],[],{},{},{},[],[]]", limits) is not None
    with pytest.raises(ParseError, match="more than 10 arrays and objects"):
        parse(b"[[],[],[],[],{},{},{},[],[],[] and this is not even JSON", limits)


def test_values_are_counted_before_anything_is_built() -> None:
    limits = Limits(json_values_max=10)
    assert parse(b"[1,2,3,4,5,6,7,8,9]", limits) == [*range(1, 10)]
    with pytest.raises(ParseError, match="more than 10 values"):
        parse(b"[1,2,3,4,5,6,7,8,9,10]", limits)


def test_the_memory_of_many_values_is_asked_for_first() -> None:
    asked: list[int] = []
    text = b"[%b1]" % (b"1," * 999)
    parse(text, Limits(), asked.append)
    assert asked == [len(text) + 1001 * json_text.VALUE_BYTES]
    parse(b"[1]", Limits(), asked.append)
    assert len(asked) == 1  # a few are not worth asking


def test_half_a_character_in_a_long_text_is_refused() -> None:
    long = b'["\\ud800","%b"]' % (b"x" * json_text.LENIENT_BYTES_MAX)
    with pytest.raises(ParseError, match=f"more than {json_text.LENIENT_BYTES_MAX} bytes"):
        parse(long, LIMITS)
