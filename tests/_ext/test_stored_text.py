"""Texts are packed into few bytes and come back as they were; nothing else is taken for a packed text."""

from __future__ import annotations

import random
from hashlib import sha256
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode._ext.storage import stored_text as extension
from fastnode._twins import stored_text as twin
from fastnode.kernels import encode

BOTH = pytest.mark.parametrize("module", [extension, twin])

#: Words at the time of version 3 of the chain database, and the hash over them: databases are full of their places.
WORD_COUNT = 90
WORDS_SHA256 = "11a3794f536e2e196ad79e42310d362894d475d4fbd20eb1524c77a7fd366f26"


def place_of(word: bytes) -> int:
    return extension.WORDS.index(word)


fields = st.binary(max_size=32).map(lambda number: encode.quoted_fields(number.rjust(32, b"\0"))[1:-1])
pieces = st.one_of(
    fields,
    fields.map(bytes.upper),
    fields.map(lambda field: field[:-2]),
    st.sampled_from(extension.WORDS),
    st.sampled_from(extension.WORDS).map(lambda word: word[:-1]),
    st.sampled_from((b",", b'"', b"{", b'"0x', b"\x81")),
    st.text(max_size=6).map(str.encode),
    st.binary(max_size=600),
)
texts = st.lists(pieces, max_size=30).map(b"".join)


@given(texts)
def test_a_text_comes_back_as_it_was_and_both_forms_pack_alike(text: bytes) -> None:
    packed = extension.pack(text)
    assert packed == twin.pack(text)
    assert extension.unpack(packed) == twin.unpack(packed) == text


@BOTH
@given(text=texts)
def test_a_packed_text_is_no_longer_than_the_text_but_for_one_that_begins_with_the_mark(
    module: ModuleType, text: bytes
) -> None:
    packed = module.pack(text)
    assert len(packed) <= len(text) or text.startswith(module.MARK)
    assert packed.startswith(module.MARK) or packed == text


@BOTH
@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (b'["0x%b","0x%b"]' % (b"00" * 31 + b"07", b"ab" * 32), b"[\xa2\x07\xa0" + b"\xab" * 32 + b"]"),
        (b'"nullifiers":["0x%b"]' % (b"00" * 32), bytes([0xC2 + place_of(b'"nullifiers":[')]) + b"\x80]"),
        (b'"totalManaUsed":' * 2, bytes([0xFE, place_of(b'"totalManaUsed":') - 60]) * 2),
        (b'\0\xff\x01"blobsHash":', b"\0\xff\x02\xff\x01" + bytes([0xFE, place_of(b'"blobsHash":') - 60])),
    ],
)
def test_tokens_are_those_of_the_layout(module: ModuleType, text: bytes, tokens: bytes) -> None:
    length = bytes([len(text)] if len(text) < 128 else [len(text) & 127 | 128, len(text) >> 7])
    assert module.pack(text) == module.MARK + length + tokens


def test_words_that_databases_have_stay_at_their_places() -> None:
    assert sha256(b"\n".join(extension.WORDS[:WORD_COUNT])).hexdigest() == WORDS_SHA256
    assert len(set(extension.WORDS)) == len(extension.WORDS)


@BOTH
@pytest.mark.parametrize(
    "stored",
    [
        b"\x81",
        b"\x81\x80",
        b"\x81\xff\xff\xff\xff\x7f" + b"a" * 64,
        b"\x81\xff\xff\xff\xff\xff\xff\x01a",
        b"\x81\x01",
        b"\x81\x01ab",
        b"\x81\x01a\xaa",
        b"\x81\x02a",
        b"\x81\x44\xa0" + b"\1" * 31,
        b"\x81\x44\xc1" + b"\1" * 32,
        b"\x81\x43\x80",
        b"\x81\x01\xff",
        b"\x81\x01\xff\0a",
        b"\x81\x02\xff\3ab",
        b"\x81\x05\xfe",
        b"\x81\x05\xfe\xff",
        b"\x81\x01" + b"\xc2",
        b"\x81\xff\xff\xff\x7fa",
    ],
)
def test_what_was_not_packed_here_is_refused(module: ModuleType, stored: bytes) -> None:
    with pytest.raises(ValueError, match=f"a packed text of {len(stored)} bytes"):
        module.unpack(stored)


@pytest.mark.parametrize("seed", range(20))
def test_spoiled_texts_are_read_alike_or_refused_alike(seed: int) -> None:
    dice = random.Random(seed)
    text = b"".join(
        dice.choice((encode.quoted_fields(dice.randbytes(32))[1:-1] + b",", dice.choice(extension.WORDS), b"x\xc3\xa9"))
        for _ in range(30)
    )
    packed = bytearray(extension.pack(text))
    for _ in range(200):
        spoiled = bytearray(packed)
        for _ in range(dice.randrange(1, 4)):
            spoiled[dice.randrange(len(spoiled))] = dice.randrange(256)
        cut = bytes(spoiled[: dice.choice((len(spoiled), dice.randrange(len(spoiled))))])
        assert read(extension, cut) == read(twin, cut)


def read(module: ModuleType, stored: bytes) -> bytes | str:
    try:
        text: bytes = module.unpack(stored)
    except ValueError as error:
        return str(error)
    return text
