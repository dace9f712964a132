"""The readable form of ``fastnode._ext.storage.stored_text``: same functions, same bytes, no speed.

A packed text is a mark, the length of the text and tokens:

    0x81              mark
    length            seven bits a byte, the lowest first; the top bit says that another byte follows
    0x00..0x7f        this character
    0x80 + n          a field in quotes, of 0x and 64 digits; its last n bytes follow, those before are zero
    0xa1 + n          the same with a comma behind it
    0xc2..0xfd        one of the first 60 words
    0xfe  n           word 60 + n
    0xff  n           n bytes follow, at least 1

What would be no shorter is stored as it is, unless it begins with the mark.  A text is packed from its start on: a
field, or else the longest word, or else a run from a byte that is no ASCII up to the next ``"`` or ``{``, or else a
character.
"""

from __future__ import annotations

import re
from typing import Final

from fastnode._ext.storage.stored_text import MARK as MARK
from fastnode._ext.storage.stored_text import WORDS as WORDS

_FIELD: Final = re.compile(rb'"0x([0-9a-f]{64})"(,?)')
_RUN: Final = re.compile(rb'[\x80-\xff][^"{]{0,254}', re.DOTALL)
_FIELD_BYTES: Final = 32
_FIELD_TOKEN: Final = 0x80
_FIELD_COMMA_TOKEN: Final = 0xA1
_WORD_TOKEN: Final = 0xC2
_MORE_TOKEN: Final = 0xFE
_RUN_TOKEN: Final = 0xFF
_SHORT_WORDS: Final = _MORE_TOKEN - _WORD_TOKEN
_LENGTH_BYTES_MAX: Final = 5
_TEXT_BYTES_MAX: Final = 2**32 - 1
#: Characters that one byte gives at most: a field with its comma.
_EXPANSION_MAX: Final = 69


def pack(text: bytes) -> bytes:
    if len(text) > _TEXT_BYTES_MAX:
        raise ValueError(f"a text of {len(text)} bytes")
    out = bytearray(MARK)
    length = len(text)
    while length >= 0x80:
        out.append(length & 0x7F | 0x80)
        length >>= 7
    out.append(length)
    at = 0
    while at < len(text):
        if found := _FIELD.match(text, at):
            number = bytes.fromhex(found[1].decode()).lstrip(b"\0")
            out.append((_FIELD_COMMA_TOKEN if found[2] else _FIELD_TOKEN) + len(number))
            out += number
            at = found.end()
        elif words := [word for word in WORDS if text.startswith(word, at)]:
            word = max(words, key=len)
            place = WORDS.index(word)
            out += bytes([_WORD_TOKEN + place] if place < _SHORT_WORDS else [_MORE_TOKEN, place - _SHORT_WORDS])
            at += len(word)
        elif found := _RUN.match(text, at):
            out += bytes([_RUN_TOKEN, len(found[0])]) + found[0]
            at = found.end()
        else:
            out.append(text[at])
            at += 1
    return text if len(out) >= len(text) and not text.startswith(MARK) else bytes(out)


def unpack(stored: bytes) -> bytes:
    if not stored.startswith(MARK):
        return stored
    tokens = memoryview(stored)[1:]
    length, tokens = _read_length(tokens)
    if length < 0 or length > _EXPANSION_MAX * len(tokens):
        raise ValueError(f"a packed text of {len(stored)} bytes with a length that it cannot have")
    text, part = b"", MARK
    while tokens and part and len(text) <= length:
        part, tokens = _read_token(tokens[0], tokens[1:])
        text += part
    if not part or len(text) != length:
        raise ValueError(f"a packed text of {len(stored)} bytes that does not have {length}")
    return text


def _read_length(tokens: memoryview) -> tuple[int, memoryview]:
    """The length, -1 for one that is none, and what follows it."""
    length = 0
    for place, byte in enumerate(tokens[:_LENGTH_BYTES_MAX]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return length if length <= _TEXT_BYTES_MAX else -1, tokens[place + 1 :]
    return -1, tokens


def _read_token(token: int, rest: memoryview) -> tuple[bytes, memoryview]:
    """Its text, empty for a token that is none, and what follows it."""
    if token < _FIELD_TOKEN:
        return bytes([token]), rest
    if token < _WORD_TOKEN:
        has_comma = token >= _FIELD_COMMA_TOKEN
        count = token - (_FIELD_COMMA_TOKEN if has_comma else _FIELD_TOKEN)
        if len(rest) < count:
            return b"", rest
        digits = bytes(rest[:count]).rjust(_FIELD_BYTES, b"\0").hex().encode()
        return b'"0x%b"%b' % (digits, b"," if has_comma else b""), rest[count:]
    if token < _RUN_TOKEN:
        place = token - _WORD_TOKEN
        if token == _MORE_TOKEN:
            place, rest = (_SHORT_WORDS + rest[0], rest[1:]) if rest else (len(WORDS), rest)
        return (WORDS[place] if place < len(WORDS) else b""), rest
    count = rest[0] if rest else 0
    if count == 0 or len(rest) - 1 < count:
        return b"", rest
    return bytes(rest[1 : 1 + count]), rest[1 + count :]
