"""Texts of the package in the form that wheels have; test_distribution.py looks at those of a wheel."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from fastnode.errors import ChainFileError
from fastnode.sources.chain_file import ChainFileSource
from fastnode.sources.packed_texts import MAGIC, is_packed, unpacked

ENOUGH = 1 << 20


def packed(marked: bytes, *values: bytes) -> bytes:
    return MAGIC + lzma.compress(marked + b"\0" + b"".join(values))


def test_a_mark_becomes_the_string_that_it_stands_for() -> None:
    field = bytes(range(1, 32))
    content = packed(b'{"a":\x012;,"b":[\x022;],"c":\x034;}', b"\xab\x0c", field, bytes(31), b"\xff\x00\x01\x02")
    assert is_packed(content)
    text = b'{"a":"0xab0c","b":["0x00%b","0x%b"],"c":"/wABAg=="}' % (field.hex().encode(), b"00" * 32)
    assert unpacked(content, bytes_max=ENOUGH) == text


def test_a_text_without_values_stays_as_it_is() -> None:
    assert unpacked(packed(b'{"a":"0x1"}\n'), bytes_max=ENOUGH) == b'{"a":"0x1"}\n'
    assert not is_packed(lzma.compress(b"{}"))
    assert not is_packed(b"{}")


def test_no_more_is_unpacked_than_allowed() -> None:
    with pytest.raises(EOFError):
        unpacked(packed(bytes(1) * ENOUGH), bytes_max=ENOUGH)


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_chain_file_is_refused_with_its_name(tmp_path: Path, damage: str) -> None:
    content = bytearray(packed(b'{"kind":"chain","hash":\x0132;}\n', bytes(range(32))))
    if damage == "cut":
        del content[-20:]
    else:
        content[len(MAGIC) + 30] ^= 0xFF
    path = tmp_path / "chain"
    path.write_bytes(content)
    with pytest.raises(ChainFileError, match=str(path)):
        ChainFileSource(path)
