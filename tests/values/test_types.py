"""Every type of value: what it reads from text, from a settings file and from JSON, and what it says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from fastnode.api.chain_parameters import CHECKPOINTS_QUERY, DEVELOPMENT_BLOCK, LOG_FILTER
from fastnode.config.allow_list import ALLOW_LIST
from fastnode.values.arrays import ArrayOf, texts
from fastnode.values.choices import Boolean, Choice
from fastnode.values.field_elements import FIELD, TX_HASH
from fastnode.values.numbers import Amount, Integer, Number, Seconds, Size
from fastnode.values.refusal import Reject
from fastnode.values.texts import FileOrUrl, FilePath, HexText, Text, UrlPath
from fastnode.values.value_type import ValueType

PORT = Integer(0, 65_535)
SIZE = Size(1 << 10, 1 << 30)
SECONDS = Seconds(0.5, 3600)
SHARE = Number(0, 1, above_minimum=True)
ADDRESS = HexText(2)
ADDRESSES = ArrayOf(HexText(2))
LEVEL = Choice(("info", "error"), synonyms=(("fatal", "error"),))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Boolean(), "1", True),
        (Boolean(), "TRUE", True),
        (Boolean(), "0", False),
        (Boolean(), "false", False),
        (PORT, "0", 0),
        (PORT, "65535", 65_535),
        (Integer(-5, 5), "-3", -3),
        (SECONDS, "0.5", 0.5),
        (SECONDS, "3600", 3600.0),
        (SIZE, "1024", 1024),
        (SIZE, "1mb", 1 << 20),
        (SIZE, "1MB", 1 << 20),
        (SIZE, "64 kb", 1 << 16),
        (SIZE, "1gb", 1 << 30),
        (SIZE, "2048b", 2048),
        (LEVEL, "Info", "info"),
        (LEVEL, "fatal", "error"),
        (Text(), "0.0.0.0", "0.0.0.0"),
        (texts("TEXT"), "a, b,c", ("a", "b", "c")),
        (Amount(), "0", 0),
        (Amount(), str(2**256 - 1), 2**256 - 1),
        (SHARE, "0.1", 0.1),
        (SHARE, "1", 1),
        (SHARE, "1.0", 1),
        (ADDRESS, "0xABCD", "0xabcd"),
        (ADDRESS, "abcd", "0xabcd"),
        (ADDRESSES, "", ()),
        (ADDRESSES, "0xABCD, 0x0001", ("0xabcd", "0x0001")),
        (FileOrUrl(), "a/b", "a/b"),
        (FileOrUrl(), "~/b", str(Path.home() / "b")),
        (FileOrUrl(), "https://host/a?b", "https://host/a?b"),
        (UrlPath(), "/api", "/api"),
        (UrlPath(), "api/v1.0/", "/api/v1.0"),
        (UrlPath(), "/", ""),
        (UrlPath(), "", ""),
        (FilePath(), "a/b", Path("a/b")),
        (FilePath(), "~/b", Path.home() / "b"),
    ],
)
def test_text_is_read(kind: ValueType, text: str, value: object) -> None:
    assert kind.from_text(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (FileOrUrl(), ""),
        (FileOrUrl(), "https:///a"),
        (UrlPath(), "//"),
        (UrlPath(), "/a//b"),
        (UrlPath(), "/a?b"),
        (UrlPath(), "/a b"),
        (UrlPath(), "/a\n"),
        (UrlPath(), "http://host/a"),
        (Boolean(), "yes"),
        (Boolean(), ""),
        (PORT, "65536"),
        (PORT, "-1"),
        (PORT, "8080.0"),
        (PORT, "0x10"),
        (PORT, "1_000"),
        (PORT, "٣"),  # a digit, but not one of ours
        (PORT, "9" * 5000),
        (SECONDS, "0.4"),
        (SECONDS, "3601"),
        (SECONDS, "nan"),
        (SECONDS, "inf"),
        (SECONDS, "1e3"),
        (SIZE, "1"),
        (SIZE, "2gb"),
        (SIZE, "1tb"),
        (SIZE, "1.5mb"),
        (SIZE, "mb"),
        (LEVEL, "loud"),
        (Text(), ""),
        (Text(), "a\0b"),
        (texts("TEXT"), ""),
        (texts("TEXT"), "a,,b"),
        (Amount(), "-1"),
        (Amount(), str(2**256)),
        (Amount(), "1.5"),
        (Amount(), "9" * 5000),
        (SHARE, "0"),
        (SHARE, "1.1"),
        (SHARE, "nan"),
        (SHARE, "1e-1"),
        (SHARE, "-0.5"),
        (ADDRESS, "0xabc"),
        (ADDRESS, "0xabcdef"),
        (ADDRESS, "0xabcg"),
        (ADDRESSES, "0xabcd,"),
        (FilePath(), ""),
        (FilePath(), "~nobody-of-this-name/x"),
        (FilePath(), "a\0b"),
    ],
)
def test_bad_text_is_refused(kind: ValueType, text: str) -> None:
    with pytest.raises(Reject, match=r"^must be "):
        kind.from_text(text)


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        (Boolean(), True, True),
        (PORT, 8080, 8080),
        (SECONDS, 2, 2.0),
        (SECONDS, 2.5, 2.5),
        (SIZE, 4096, 4096),
        (SIZE, "1mb", 1 << 20),
        (Amount(), 5, 5),
        (Amount(), "5", 5),
        (SHARE, 0.5, 0.5),
        (SHARE, 1, 1),
        (texts("TEXT"), ["a", "b"], ("a", "b")),
        (texts("TEXT"), "a,b", ("a", "b")),
        (ADDRESS, "0xabcd", "0xabcd"),
        (ADDRESSES, [], ()),
        (ADDRESSES, ["0xabcd"], ("0xabcd",)),
        (LEVEL, "info", "info"),
        (Choice(("200", "400")), 400, "400"),
        (Text(), "host", "host"),
        (FilePath(), "/x", Path("/x")),
        (UrlPath(), "x", "/x"),
    ],
)
def test_a_toml_value_is_read(kind: ValueType, value: object, read: object) -> None:
    assert kind.from_toml(value) == read


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Boolean(), 1),
        (Boolean(), "true"),
        (PORT, "8080"),
        (PORT, True),
        (PORT, 70_000),
        (SECONDS, True),
        (SECONDS, "1"),
        (SECONDS, float("nan")),
        (SIZE, True),
        (SIZE, 1.5),
        (SIZE, 1),
        (Amount(), -1),
        (Amount(), True),
        (SHARE, True),
        (SHARE, "0.5"),
        (SHARE, float("nan")),
        (texts("TEXT"), []),
        (texts("TEXT"), [1]),
        (texts("TEXT"), 1),
        (ADDRESS, 1),
        (ADDRESSES, [1]),
        (ADDRESSES, 1),
        (LEVEL, True),
        (LEVEL, ["info"]),
        (Text(), 1),
        (FilePath(), 1),
        (UrlPath(), 1),
    ],
)
def test_a_toml_value_of_another_type_is_refused(kind: ValueType, value: object) -> None:
    with pytest.raises(Reject, match=r"^must be "):
        kind.from_toml(value)


@given(st.integers(1 << 10, 1 << 30))
def test_a_shown_size_reads_back(value: int) -> None:
    assert SIZE.from_text(SIZE.to_text(value)) == value


@given(st.integers(0, 65_535))
def test_a_shown_integer_reads_back(value: int) -> None:
    assert PORT.from_text(PORT.to_text(value)) == value


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for kind in (Boolean(), PORT, SECONDS, SIZE, LEVEL, SHARE, ADDRESS, ADDRESSES, Amount(), Text(), FilePath()):
        try:
            kind.from_text(text)
        except Reject:
            continue


def test_every_kind_says_what_it_allows() -> None:
    assert PORT.expects_text == "a whole number from 0 to 65535"
    assert SIZE.expects_text == "1kb to 1gb, in bytes or with b, kb, mb or gb"
    assert SECONDS.expects_text == "seconds from 0.5 to 3600"
    assert LEVEL.expects_text == "info or error"
    assert Choice(("a", "b", "c")).expects_text == "a, b or c"


# ---- one type, one truth ----------------------------------------------------------------------------

ALL: list[ValueType] = [
    Boolean(), PORT, SECONDS, SIZE, LEVEL, SHARE, ADDRESS, ADDRESSES, Amount(), Text(), Text(3), FilePath(), UrlPath(),
    FileOrUrl(), texts("TEXT"), FIELD, TX_HASH, Integer(minimum=0, accepts_text=True), ALLOW_LIST,
    DEVELOPMENT_BLOCK, CHECKPOINTS_QUERY, LOG_FILTER,
]  # fmt: skip
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["number", "tag", "epoch"]), inner),
    max_leaves=4,
)


@given(value=JSON_VALUES, kind=st.sampled_from(ALL))
def test_what_a_type_takes_its_schema_takes(value: object, kind: ValueType) -> None:
    try:
        kind.from_json(value)
    except Reject:
        return
    document = {**kind.schema(), "components": {"schemas": dict(kind.definitions())}}
    assert [error.message for error in Draft7Validator(document).iter_errors(value)] == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (PORT, "80"),
        (SIZE, "1mb"),
        (LEVEL, "error"),
        (ADDRESSES, "0xabcd,0x0001"),
        (Amount(), "7"),
        (FIELD, "0x" + "0" * 63 + "7"),
        (ALLOW_LIST, f"C:0x{'00' * 31}07:0x87654321:os+rn+cl=3"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, ValueType) else "",
)
def test_a_value_is_the_same_after_text_and_after_json(kind: ValueType, text: str) -> None:
    value = kind.from_text(text)
    assert kind.from_text(kind.to_text(value)) == kind.from_json(kind.to_json(value)) == value
