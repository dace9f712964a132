"""Texts that come with the package, as wheels have them: smaller than compressed alone.

Behind ``MAGIC`` comes xz of the text, a NUL, and the values one behind the other that the text has marks for:

    01 count ;    a string of ``0x`` and so many bytes in hexadecimal
    02 count ;    so many strings of 32 bytes in hexadecimal, with commas between; the first byte, a zero, is left out
    03 count ;    a string of so many bytes in base64

``setup.py`` runs this file when it builds a wheel, and there is no fastnode to import then: nothing of the package is
imported here.  The repository has the texts themselves.
"""

from __future__ import annotations

import base64
import binascii
import io
import lzma
import re
from typing import Final

__all__ = ["MAGIC", "is_packed", "packed", "unpacked"]

MAGIC: Final = b"\0texts"
_MARK: Final = re.compile(rb"([\1-\3])(\d+);")
_HEX, _FIELDS, _BASE64 = b"\1", b"\2", b"\3"
#: Of a field element, without its first byte.
_FIELD_BYTES: Final = 31
#: Fields that begin with a zero and stand side by side; other hexadecimals; base64.
_VALUES: Final = re.compile(
    rb'("0x00[0-9a-f]{62}"(?:,"0x00[0-9a-f]{62}")+)|"0x((?:[0-9a-f]{2}){8,})"|"((?:[A-Za-z0-9+/]{4}){10,}(?:[A-Za-z0-9+/]{2,3}==?)?)"'
)


def is_packed(first_bytes: bytes) -> bool:
    return first_bytes.startswith(MAGIC)


def packed(text: bytes) -> bytes:
    """In the form that :func:`unpacked` reads: base64 as an encoder writes it, hexadecimal in lower case.

    ValueError: the text has one of the marks already, or base64 that no encoder writes.
    """
    if re.search(rb"[\0-\3]", text):
        raise ValueError("a text with control characters cannot be packed")
    values: list[bytes] = []

    def mark(found: re.Match[bytes]) -> bytes:
        fields, digits, encoded = found.groups()
        if fields is not None:
            values.append(bytes.fromhex(fields.decode().replace('"', "").replace("0x00", "").replace(",", "")))
            return b"%b%d;" % (_FIELDS, len(values[-1]) // _FIELD_BYTES)
        if digits is not None:
            values.append(binascii.unhexlify(digits))
            return b"%b%d;" % (_HEX, len(values[-1]))
        values.append(base64.b64decode(encoded))
        if base64.b64encode(values[-1]) != encoded:
            raise ValueError("base64 that no encoder writes cannot be packed")
        return b"%b%d;" % (_BASE64, len(values[-1]))

    marked = _VALUES.sub(mark, text)
    how = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "nice_len": 273, "lc": 1, "pb": 0}
    return MAGIC + lzma.compress(b"\0".join([marked, b"".join(values)]), filters=[how])


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
