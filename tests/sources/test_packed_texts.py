"""Texts of the package in the form that wheels have; test_distribution.py looks at those of a wheel."""

from __future__ import annotations

import base64
import hashlib
import lzma
from pathlib import Path

import pytest

from fastnode.errors import ChainFileError
from fastnode.sources.chain_file import ChainFileSource
from fastnode.sources.packed_texts import MAGIC, is_packed, packed, unpacked

ENOUGH = 1 << 20


def in_the_form(marked: bytes, *values: bytes) -> bytes:
    return MAGIC + lzma.compress(marked + b"\0" + b"".join(values))


def test_a_mark_becomes_the_string_that_it_stands_for() -> None:
    field = bytes(range(1, 32))
    content = in_the_form(b'{"a":\x012;,"b":[\x022;],"c":\x034;}', b"\xab\x0c", field, bytes(31), b"\xff\x00\x01\x02")
    assert is_packed(content)
    text = b'{"a":"0xab0c","b":["0x00%b","0x%b"],"c":"/wABAg=="}' % (field.hex().encode(), b"00" * 32)
    assert unpacked(content, bytes_max=ENOUGH) == text


def test_what_is_packed_is_the_text_again_and_smaller() -> None:
    fields = b",".join(b'"0x00%062x"' % (number**25) for number in range(2, 60))
    digits = hashlib.sha256(b"digits").hexdigest().encode()
    encoded = [base64.b64encode(hashlib.sha512(bytes(number)).digest()[:number]) for number in range(30, 64)]
    text = b'{"fields":[%b],"one":"0x%b","short":"0x1f","odd":"0x%b1","encoded":["%b"],"upper":"0xAB"}\n' % (
        fields, digits, digits, b'","'.join(encoded),
    )  # fmt: skip
    content = packed(text)
    assert unpacked(content, bytes_max=ENOUGH) == text
    assert len(content) < len(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))


@pytest.mark.parametrize("text", [b'{"a":"\x01"}', b'"' + b"A" * 40 + b'AB=="'])
def test_a_text_that_would_not_be_the_same_again_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be packed"):
        packed(text)


def test_a_text_without_values_stays_as_it_is() -> None:
    assert unpacked(in_the_form(b'{"a":"0x1"}\n'), bytes_max=ENOUGH) == b'{"a":"0x1"}\n'
    assert not is_packed(lzma.compress(b"{}"))
    assert not is_packed(b"{}")


def test_no_more_is_unpacked_than_allowed() -> None:
    with pytest.raises(EOFError):
        unpacked(in_the_form(bytes(1) * ENOUGH), bytes_max=ENOUGH)


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_chain_file_is_refused_with_its_name(tmp_path: Path, damage: str) -> None:
    content = bytearray(in_the_form(b'{"kind":"chain","hash":\x0132;}\n', bytes(range(32))))
    if damage == "cut":
        del content[-20:]
    else:
        content[len(MAGIC) + 30] ^= 0xFF
    path = tmp_path / "chain"
    path.write_bytes(content)
    with pytest.raises(ChainFileError, match=str(path)):
        ChainFileSource(path)
