"""The shape of JSON texts and the texts of their ids."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.kernels import json_shape

MAXIMA = {"depth_max": 1000, "containers_max": 1000, "values_max": 1000}

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=12,
)


def shape_of(value: Any) -> tuple[int, int]:
    """Levels and containers of a value."""
    if not isinstance(value, list | dict):
        return 0, 0
    children = [shape_of(child) for child in (value.values() if isinstance(value, dict) else value)]
    return 1 + max((child[0] for child in children), default=0), 1 + sum(child[1] for child in children)


@given(value=values)
def test_levels_and_containers_are_counted(value: Any) -> None:
    text = json.dumps(value).encode()
    assert json_shape.measure(text, **MAXIMA)[:2] == shape_of(value)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (b"", (0, 0, 1)),
        (b"1", (0, 0, 1)),
        (b"[1,2,3]", (1, 1, 4)),
        (b'{"a":[],"b":[{}]}', (3, 4, 6)),
        (b'"[[[{{{,,,"', (0, 0, 1)),
        (rb'["\"[[[", "\\", []]', (2, 2, 5)),
        (b'["[[', (1, 1, 2)),
        (b'["\\', (1, 1, 2)),
        (b"]]]]", (0, 0, 1)),
    ],
)
def test_what_is_in_texts_does_not_count(text: bytes, shape: tuple[int, int, int]) -> None:
    assert json_shape.measure(text, **MAXIMA) == shape


def test_the_count_ends_with_the_first_maximum() -> None:
    many = b"[" * 100_000
    assert json_shape.measure(many, depth_max=64, containers_max=1000, values_max=1000)[0] == 65
    assert json_shape.measure(b"[]" * 100_000, depth_max=64, containers_max=1000, values_max=10**9)[1] == 1001
    assert json_shape.measure(b"1," * 100_000, depth_max=64, containers_max=1000, values_max=1000)[2] == 1001


@given(data=st.binary(max_size=60) | st.text(r'[]{}",\\ a', max_size=60).map(str.encode))
def test_any_bytes_are_measured(data: bytes) -> None:
    assert all(count >= 0 for count in json_shape.measure(data, **MAXIMA))


calls = st.lists(st.tuples(st.sampled_from(["id", r"i\u0064", r"\u0069d", "idx", "x"]), values), max_size=4)


@given(members=st.lists(calls, max_size=4), blank=st.sampled_from(["", " ", "\r\n\t"]))
def test_the_last_id_of_each_call_is_found(members: list[list[tuple[str, Any]]], blank: str) -> None:
    objects, expected = [], []
    for call in members:
        pairs = [f'"{name}"{blank}:{blank}{json.dumps(value)}{blank}' for name, value in call]
        objects.append(f"{blank}{{{blank}{f',{blank}'.join(pairs)}}}{blank}")
        found = [json.dumps(value).encode() for name, value in call if json.loads(f'"{name}"') == "id"]
        expected.append(found[-1] if found else b"null")
    assert json_shape.find_ids(f"{blank}[{','.join(objects)}]".encode()) == expected
    if objects:
        assert json_shape.find_ids(b"\xef\xbb\xbf" + objects[0].encode()) == expected[:1]


def test_what_is_no_call_has_no_id() -> None:
    assert json_shape.find_ids(b'[1,"id",[{"id":1}],null,{"id":2}]') == [b"null"] * 4 + [b"2"]
    assert json_shape.find_ids(b"7") == [b"null"]
    assert json_shape.find_ids(b"[]") == []


@given(data=st.binary(max_size=60) | st.text(r'[]{}",:\\ aid', max_size=60).map(str.encode))
def test_any_bytes_are_survived(data: bytes) -> None:
    try:
        json_shape.find_ids(data)
    except ValueError:  # a name that is none
        return
