"""The tag kernel and its twin: the same bits, the same answers."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode._twins import tag_log as twin
from fastnode.kernels import tag_log as kernel

MODULUS = twin.MODULUS
fields = st.integers(0, MODULUS - 1).map(lambda value: value.to_bytes(32, "big"))
keys = st.one_of(fields, st.tuples(fields, fields).map(b"".join))


#: As text.
FIELD = b'"0x' + b"1" * 64 + b'"'


def numbered(count: int, *, salt: str = "") -> list[bytes]:
    """``count`` different 32-byte values."""
    return [hashlib.sha256(f"{salt}{number}".encode()).digest() for number in range(count)]


def refuse(value: Any, index: int) -> bytes:
    raise ValueError(f"{index}: {value!r}")


# ---- filter ---------------------------------------------------------------------------------


@given(st.lists(keys), st.integers(1, 4096))
def test_a_key_that_was_added_is_never_unknown(added: list[bytes], size: int) -> None:
    tag_filter = kernel.TagFilter(size)
    for key in added:
        tag_filter.add(key)
    assert all(tag_filter.may_contain(key) for key in added)


@given(st.lists(keys, max_size=30), st.integers(1, 2048))
def test_kernel_and_twin_set_the_same_bits(added: list[bytes], size: int) -> None:
    ours, readable = kernel.TagFilter(size), twin.TagFilter(size)
    for key in added:
        assert ours.add(key) == readable.add(key)
    assert ours.dump() == readable.dump()
    assert ours.blocks == readable.blocks


def test_few_unknown_keys_pass_at_sixteen_bits_a_key() -> None:
    known, unknown = numbered(2_000), numbered(2_000, salt="u")
    tag_filter = kernel.TagFilter(2 * len(known))
    for key in known:
        tag_filter.add(key)
    passed = sum(tag_filter.may_contain(key) for key in unknown)
    assert passed <= len(unknown) // 100  # about one in a thousand is expected


def test_a_tag_is_another_key_under_another_owner() -> None:
    tag, owner, other = numbered(3)
    tag_filter = kernel.TagFilter(1 << 16)
    tag_filter.add(owner + tag)
    assert not tag_filter.may_contain(other + tag)
    assert not tag_filter.may_contain(tag)


def test_adding_tells_whether_the_key_was_unknown() -> None:
    tag_filter = kernel.TagFilter(1 << 16)
    tag = numbered(1)[0]
    assert tag_filter.add(tag) is True
    assert tag_filter.add(tag) is False


@given(st.lists(keys, max_size=30))
def test_a_dumped_filter_loads_as_it_was(added: list[bytes]) -> None:
    tag_filter = kernel.TagFilter(640)
    for key in added:
        tag_filter.add(key)
    loaded = kernel.TagFilter.load(tag_filter.dump())
    assert loaded.dump() == tag_filter.dump()
    assert loaded.size == tag_filter.size == 640
    assert all(loaded.may_contain(key) for key in added)


@given(st.lists(keys, max_size=30), st.lists(keys, max_size=30))
def test_a_merged_filter_knows_the_keys_of_both(ours: list[bytes], theirs: list[bytes]) -> None:
    dumps = []
    for module in (kernel, twin):
        one, other = module.TagFilter(640), module.TagFilter(640)
        for key in ours:
            one.add(key)
        for key in theirs:
            other.add(key)
        one.merge(other.dump())
        assert all(one.may_contain(key) for key in ours + theirs)
        dumps.append(one.dump())
    assert dumps[0] == dumps[1]


def test_a_filter_of_another_size_is_not_merged() -> None:
    for module in (kernel, twin):
        with pytest.raises(ValueError, match="do not fit"):
            module.TagFilter(640).merge(bytes(64))


@pytest.mark.parametrize("size", [0, -1])
def test_a_filter_without_room_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="tag filter"):
        kernel.TagFilter(size)


@pytest.mark.parametrize("data", [b"", bytes(63), bytes(65)])
def test_a_dump_of_a_wrong_length_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="whole number"):
        kernel.TagFilter.load(data)


@pytest.mark.parametrize("length", [0, 31, 33, 63, 65, 96])
def test_a_key_of_a_wrong_length_is_refused(length: int) -> None:
    tag_filter = kernel.TagFilter(64)
    with pytest.raises(ValueError, match="tag key"):
        tag_filter.add(bytes(length))
    with pytest.raises(ValueError, match="tag key"):
        tag_filter.may_contain(bytes(length))


# ---- reading tags ---------------------------------------------------------------------------


@given(st.lists(fields, max_size=20))
def test_canonical_texts_are_read(values: list[bytes]) -> None:
    texts = ["0x" + value.hex() for value in values]
    assert kernel.read_fields(texts, refuse) == b"".join(values)


def test_upper_case_digits_are_canonical_too() -> None:
    assert kernel.read_fields(["0x" + "0A" * 32, "0x" + "0a" * 32], refuse) == b"\x0a" * 64


ODD = [
    None,
    5,
    "",
    "0x",
    "0X" + "00" * 32,
    "0x" + "00" * 31,
    "0x" + "00" * 33,
    "0x" + "00" * 31 + "0g",
    "0x" + "00" * 31 + "0\u00e9",
    "0x" + "00" * 31 + "0\u4e00",
    "\u0130x" + "00" * 32,
    "0x" + MODULUS.to_bytes(32, "big").hex(),
    "0x" + "ff" * 32,
    ["0x" + "00" * 32],
    b"0x" + b"00" * 32,
]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_anything_else_goes_to_the_strict_reader(odd: Any) -> None:
    seen: list[tuple[Any, int]] = []

    def strict(value: Any, index: int) -> bytes:
        seen.append((value, index))
        return b"\x07" * 32

    plain = "0x" + "01" * 32
    expected = b"\x01" * 32 + b"\x07" * 32 + b"\x01" * 32
    for module in (kernel, twin):
        seen.clear()
        assert module.read_fields([plain, odd, plain], strict) == expected
        assert seen == [(odd, 1)]


def test_an_error_of_the_strict_reader_comes_through() -> None:
    with pytest.raises(ValueError, match="1: 'bad'"):
        kernel.read_fields(["0x" + "00" * 32, "bad"], refuse)


@pytest.mark.parametrize("length", [0, 31, 33])
def test_the_strict_reader_must_return_32_bytes(length: int) -> None:
    for module in (kernel, twin):
        with pytest.raises(ValueError, match="32 bytes"):
            module.read_fields(["bad"], lambda value, index: bytes(length))


def test_the_modulus_less_one_is_a_field() -> None:
    largest = (MODULUS - 1).to_bytes(32, "big")
    assert kernel.read_fields(["0x" + largest.hex()], refuse) == largest


# ---- answering ------------------------------------------------------------------------------


def test_each_tag_has_its_page_in_request_order_and_twice_when_asked_twice() -> None:
    one, two, unknown = numbered(3)
    stored = {b"\x82" + one + bytes(4): b'["one"]', b"\x82" + two + bytes(4): b'["two"]'}
    tag_filter = kernel.TagFilter(1 << 12)
    tag_filter.add(one)
    tag_filter.add(two)
    tags = two + unknown + one + two
    expected = b'[["two"],[],["one"],["two"]]'
    for tagged in (tag_filter, None):
        assert kernel.answer(tagged, b"\x82", b"", tags, 0, stored.get) == expected


def test_an_unknown_tag_is_not_looked_up() -> None:
    def fail(key: bytes) -> bytes | None:
        raise AssertionError("the filter knows no tag")

    tags = b"".join(numbered(100))
    answer = kernel.answer(kernel.TagFilter(1 << 12), b"\x82", b"", tags, 0, fail)
    assert answer == b"[" + b",".join([b"[]"] * 100) + b"]"


def test_the_key_holds_prefix_owner_tag_and_page() -> None:
    owner, tag = numbered(2)
    asked: list[bytes] = []
    for module in (kernel, twin):
        asked.clear()
        module.answer(None, b"\x83", owner, tag, 258, lambda key: asked.append(key))
        assert asked == [b"\x83" + owner + tag + b"\x00\x00\x01\x02"]


@given(st.lists(fields, max_size=6), st.lists(fields, max_size=6), st.integers(0, 3), st.one_of(st.just(b""), fields))
def test_kernel_and_twin_give_the_same_answer(known: list[bytes], asked: list[bytes], page: int, owner: bytes) -> None:
    tags = b"".join(known + asked)
    stored = {b"p" + owner + tag + bytes(4): b"[%d]" % number for number, tag in enumerate(known)}
    answers = []
    for module in (kernel, twin):
        tag_filter = module.TagFilter(256)
        for tag in known:
            tag_filter.add(owner + tag)
        answers.append(module.answer(tag_filter, b"p", owner, tags, page, stored.get))
    assert answers[0] == answers[1]


def test_no_tags_are_answered_with_no_pages() -> None:
    assert kernel.answer(None, b"p", b"", b"", 0, {}.get) == b"[]"


@pytest.mark.parametrize(
    ("owner", "tags", "page"), [(bytes(31), b"", 0), (b"", bytes(33), 0), (b"", b"", -1), (b"", b"", 2**32)]
)
def test_arguments_out_of_shape_are_refused(owner: bytes, tags: bytes, page: int) -> None:
    for module in (kernel, twin):
        with pytest.raises(ValueError, match="tag"):
            module.answer(None, b"p", owner, tags, page, {}.get)


def test_no_tags_are_an_empty_array() -> None:
    for module in (kernel, twin):
        assert module.answer(None, b"\x82", b"", b"", 0, {}.get) == b"[]"


def is_text(page: bytes) -> bool:
    return not page.startswith(kernel.ENTRIES)


@given(st.lists(st.one_of(st.none(), st.binary(max_size=300).filter(is_text)), max_size=30))
def test_kernel_and_twin_join_any_stored_pages_alike(stored: list[bytes | None]) -> None:
    pages = dict(zip(numbered(len(stored)), stored, strict=True))
    expected = b"[" + b",".join(b"[]" if page is None else page for page in stored) + b"]"
    for module in (kernel, twin):
        assert module.answer(None, b"", b"", b"".join(pages), 0, lambda key: pages[key[:32]]) == expected


def test_a_page_with_entries_is_rendered_from_what_the_other_reader_gives() -> None:
    tag = numbered(1)[0]
    effect = (
        b'{"revertCode":0,"txHash":%b,"transactionFee":"0x5","noteHashes":[],"nullifiers":[],"l2ToL1Msgs":[],' % FIELD
    )
    effect += b'"publicDataWrites":[],"privateLogs":[{"fields":[%b,%b],"emittedLength":1}],' % (FIELD, FIELD)
    effect += b'"publicLogs":[],"contractClassLogs":[]}'
    page = kernel.ENTRIES + (5).to_bytes(4, "big") + bytes(4) + (6).to_bytes(8, "big")
    asked: list[bytes] = []

    def read_effect(key: bytes) -> bytes:
        asked.append(key)
        return effect

    for module in (kernel, twin):
        assert module.ENTRIES == kernel.ENTRIES
        answer = module.answer(None, b"\x82", b"", tag, 0, lambda _key: page, read_effect)
        assert answer == (
            b'[[{"txHash":%b,"blockNumber":5,"blockTimestamp":"6","logData":[%b],"noteHashes":[],"firstNullifier":%b}]]'
            % (FIELD, FIELD, FIELD.translate(bytes.maketrans(b"1", b"0")))
        )
    assert asked == [b"e" + (5).to_bytes(4, "big") + bytes(4)] * 2
