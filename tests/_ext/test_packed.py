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

from fastnode._twins import packed as twin
from fastnode.kernels import packed as kernel

MODULES = [kernel, twin]
parts = st.one_of(st.binary(max_size=300), st.integers(0, 70_000).map(lambda size: b"ab" * (size // 2)))


def blocks_of(text: bytes, level: int = 1) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH)


@given(text=parts, before=st.binary(max_size=300), behind=st.binary(max_size=300), level=st.integers(1, 9))
@settings(max_examples=300)
def test_what_is_joined_is_read_back(text: bytes, before: bytes, behind: bytes, level: int) -> None:
    first, second = (module.Packed(text, blocks_of(text, level)).join(before, behind) for module in MODULES)
    assert first == second
    assert gzip.decompress(first) == before + text + behind


@pytest.mark.parametrize("module", MODULES)
def test_it_is_one_member_and_nothing_follows(module: Any) -> None:
    packed = module.Packed(b"x" * 1000, blocks_of(b"x" * 1000))
    reader = zlib.decompressobj(wbits=31)
    assert reader.decompress(packed.join(b"[", b"]")) == b"[" + b"x" * 1000 + b"]"
    assert reader.eof
    assert reader.unused_data == b""
    assert packed.length == 1000
    assert len(packed.blocks) < 100


@pytest.mark.parametrize("module", MODULES)
def test_one_packed_text_goes_into_many_envelopes(module: Any) -> None:
    packed = module.Packed(b'{"a":1}' * 400, blocks_of(b'{"a":1}' * 400))
    for number in range(300):
        before = b'{"id":%d,"result":' % number
        assert gzip.decompress(packed.join(before, b"}")) == before + b'{"a":1}' * 400 + b"}"


@pytest.mark.parametrize("module", MODULES)
def test_an_envelope_that_no_stored_block_holds_is_refused(module: Any) -> None:
    packed = module.Packed(b"text", blocks_of(b"text"))
    assert gzip.decompress(packed.join(b"x" * 65_535, b"y" * 65_535)) == b"x" * 65_535 + b"text" + b"y" * 65_535
    for before, behind in ((b"x" * 65_536, b""), (b"", b"x" * 65_536)):
        with pytest.raises(ValueError, match="65536 bytes"):
            packed.join(before, behind)


def test_the_gzip_program_reads_it() -> None:
    program = shutil.which("gzip")
    if program is None:
        pytest.skip("no gzip here")
    member = kernel.Packed(b"text " * 100, blocks_of(b"text " * 100)).join(b"<", b">")
    read = subprocess.run([program, "-dc"], input=member, capture_output=True, check=True)
    assert read.stdout == b"<" + b"text " * 100 + b">"
