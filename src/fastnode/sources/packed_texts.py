"""Texts that come with the package, as wheels have them: smaller than compressed alone.

Behind ``MAGIC`` comes xz of the text, a NUL, and the values one behind the other that the text has marks for:

    01 count ;    a string of ``0x`` and so many bytes in hexadecimal
    02 count ;    so many strings of 32 bytes in hexadecimal, with commas between; the first byte, a zero, is left out
    03 count ;    a string of so many bytes in base64

``setup.py`` packs them when it builds a wheel; the repository has the texts themselves.
"""

from __future__ import annotations

import binascii
import io
import lzma
import re
from typing import Final

__all__ = ["MAGIC", "is_packed", "unpacked"]

MAGIC: Final = b"\0texts"
_MARK: Final = re.compile(rb"([\1-\3])(\d+);")
_HEX, _FIELDS = b"\1", b"\2"
#: Of a field element, without its first byte.
_FIELD_BYTES: Final = 31


def is_packed(first_bytes: bytes) -> bool:
    return first_bytes.startswith(MAGIC)


def unpacked(content: bytes, *, bytes_max: int) -> bytes:
    """The text.  ``bytes_max``: of what is compressed; the text is at most three times as long.

    EOFError: the content ends in the middle, or is longer than ``bytes_max``.  lzma.LZMAError: it is damaged.
    """
    decompressor = lzma.LZMADecompressor()
    whole = decompressor.decompress(content[len(MAGIC) :], max_length=bytes_max)
    if not decompressor.eof:
        raise EOFError
    text, _, rest = whole.partition(b"\0")
    values = io.BytesIO(rest)

    def value(mark: re.Match[bytes]) -> bytes:
        kind, count = mark[1], int(mark[2])
        if kind == _HEX:
            return b'"0x%b"' % binascii.hexlify(values.read(count))
        if kind == _FIELDS:
            fields = binascii.hexlify(values.read(count * _FIELD_BYTES), ",", _FIELD_BYTES)
            return b'"0x00%b"' % fields.replace(b",", b'","0x00')
        return b'"%b"' % binascii.b2a_base64(values.read(count), newline=False)

    return _MARK.sub(value, text)
