"""Texts packed once, and joined into gzip files that every reader takes."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastnode.kernels import packed as kernel

TEXTS = st.one_of(
    st.binary(max_size=300),
    st.integers(0, 70_000).map(lambda size: b"ab" * (size // 2)),
    st.sampled_from([b"x" * 255, b"x" * 256, b"y" * 512, b"z" * 513, b""]),
)


@given(pieces=st.lists(st.tuples(TEXTS, st.booleans()), max_size=12))
@settings(max_examples=300)
def test_what_is_joined_is_read_back(pieces: list[tuple[bytes, bool]]) -> None:
    member = kernel.join([kernel.Packed(text) if is_packed else text for text, is_packed in pieces])
    assert gzip.decompress(member) == b"".join(text for text, _ in pieces)


def test_it_is_one_member_and_nothing_follows() -> None:
    packed = kernel.Packed(b"x" * 1000)
    reader = zlib.decompressobj(wbits=31)
    assert reader.decompress(kernel.join([b"[", packed, b"]"])) == b"[" + b"x" * 1000 + b"]"
    assert reader.eof
    assert reader.unused_data == b""
    assert packed.length == 1000
    assert len(packed.blocks) < 100


def test_one_packed_text_goes_into_many_envelopes() -> None:
    text = b'{"a":1}' * 400
    packed = kernel.Packed(text)
    for number in range(300):
        before = b'{"id":%d,"result":' % number
        member = kernel.join([before, packed, b"}"])
        assert gzip.decompress(member) == before + text + b"}"
        assert packed.blocks in member


def test_many_small_texts_are_compressed_together() -> None:
    texts = [b'{"jsonrpc":"2.0","id":%d,"result":%d},' % (number, number) for number in range(1000)]
    member = kernel.join(texts)
    assert gzip.decompress(member) == b"".join(texts)
    assert len(member) < len(b"".join(texts)) // 3


def test_a_text_is_read_in_blocks_that_any_stream_may_have() -> None:
    reader = zlib.decompressobj(wbits=-15)
    blocks = kernel.deflated(b"text " * 100)
    assert reader.decompress(blocks + blocks) == b"text " * 200
    assert not reader.eof


@pytest.mark.parametrize("piece", ["text", None, bytearray(b"x")])
def test_what_is_no_text_is_refused(piece: Any) -> None:
    with pytest.raises((TypeError, AttributeError)):
        kernel.join([piece])


def test_the_gzip_program_reads_it() -> None:
    program = shutil.which("gzip")
    if program is None:
        pytest.skip("no gzip here")
    member = kernel.join([b"<", kernel.Packed(b"text " * 100), b">"])
    read = subprocess.run([program, "-dc"], input=member, capture_output=True, check=True)
    assert read.stdout == b"<" + b"text " * 100 + b">"
