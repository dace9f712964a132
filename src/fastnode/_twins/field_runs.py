"""Runs of joined field elements in plain Python: the readable form of the field_runs kernel.

The stub ``fastnode/_ext/hash/field_runs.pyi`` says what everything does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

__all__ = ["Cuts", "fields_of_texts", "first_no_text", "first_non_canonical"]

_FIELD_BYTES: Final = 32
_HEX_DIGITS: Final = 2 * _FIELD_BYTES
_TEXT_BYTES: Final = 2 + _HEX_DIGITS
_RECORD_BYTES_MAX: Final = 1 << 24
_MODULUS: Final = (0x30644E72E131A029B85045B68181585D2833E84879B9709143E1F593F0000001).to_bytes(_FIELD_BYTES, "big")


def first_non_canonical(fields: bytes) -> int | None:
    if len(fields) % _FIELD_BYTES:
        raise ValueError(f"fields must be a multiple of {_FIELD_BYTES} bytes long, not {len(fields)}")
    for position, start in enumerate(range(0, len(fields), _FIELD_BYTES)):
        if fields[start : start + _FIELD_BYTES] >= _MODULUS:
            return position
    return None


def first_no_text(texts: Any, start: int, count: int) -> int | None:
    for index, text in enumerate(_texts(texts, start, count)):
        if _field(text) is None or text != text.lower():
            return index
    return None


def fields_of_texts(texts: Any, start: int, count: int) -> bytes:
    fields = []
    for index, text in enumerate(_texts(texts, start, count)):
        field = _field(text)
        if field is None:
            raise ValueError(f"text {index} is not 0x and {_HEX_DIGITS} hexadecimal digits")
        fields.append(field)
    return b"".join(fields)


def _texts(texts: Any, start: int, count: int) -> list[bytes]:
    data = bytes(memoryview(texts))
    if start < 0 or count < 0 or start + count * _TEXT_BYTES > len(data):
        raise ValueError(f"{count} texts from byte {start} on are not within {len(data)} bytes")
    return [data[at : at + _TEXT_BYTES] for at in range(start, start + count * _TEXT_BYTES, _TEXT_BYTES)]


def _field(text: bytes) -> bytes | None:
    is_text = text[:2] == b"0x" and all(digit in b"0123456789abcdefABCDEF" for digit in text[2:])
    return bytes.fromhex(text[2:].decode()) if is_text else None


class Cuts:
    def __init__(self, cuts: Iterable[tuple[int, int, int]]) -> None:
        self._cuts: list[tuple[bytes, int, int]] = []
        for index, (zeros, start, end) in enumerate(cuts):
            if not (0 <= zeros <= _RECORD_BYTES_MAX and 0 <= start <= end <= _RECORD_BYTES_MAX):
                raise ValueError(f"cut {index} is not within {_RECORD_BYTES_MAX} bytes")
            self._cuts.append((bytes(zeros), start, end))
        self._source_size = max((end for _, _, end in self._cuts), default=0)

    def join(self, record: bytes, prefix: bytes = b"") -> bytes:
        if len(record) < self._source_size:
            raise ValueError(f"the record has {len(record)} bytes, the cuts need {self._source_size}")
        parts = [prefix]
        for zeros, start, end in self._cuts:
            parts += (zeros, record[start:end])
        return b"".join(parts)
