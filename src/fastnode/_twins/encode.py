"""Text forms of bytes and field elements: the readable twin of ``fastnode._ext.wire.encode``.

Everything that goes out is ``bytes`` (ASCII), ready to be spliced into an answer.  Text that comes
in may be ``str`` or ``bytes``.  A value of the wrong type raises :class:`TypeError`, anything else
that is wrong raises :class:`ValueError` whose message says what is wrong but not where: the caller
knows the name of the parameter.
"""

from __future__ import annotations

import base64
import re
from typing import Final

from fastnode._twins.poseidon2_constants import MODULUS

__all__ = [
    "MODULUS",
    "field_from_int",
    "field_from_text",
    "field_to_decimal",
    "from_base64",
    "from_hex",
    "quoted_fields",
    "to_base64",
    "to_base64_narrow",
    "to_hex",
]

FIELD_BYTES: Final = 32
FIELD_HEX_DIGITS: Final = 2 * FIELD_BYTES

_PREFIX: Final = re.compile(rb"0x")
_HEX: Final = re.compile(rb"[0-9a-fA-F]*")
_DECIMAL: Final = re.compile(rb"[0-9]+")
_BASE64: Final = re.compile(rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")

#: A decimal text with more significant digits than the modulus has is not converted at all.
_DECIMAL_DIGITS_MAX: Final = len(str(MODULUS))


def to_hex(data: bytes) -> bytes:
    """``0x`` and two lower-case digits per byte."""
    return b"0x" + _bytes_of(data, "data").hex().encode()


def from_hex(text: str | bytes) -> bytes:
    """Bytes of an even number of hex digits of either case; ``0x`` in front is optional."""
    raw = _ascii_of(text)
    digits = raw[2:] if raw is not None and _PREFIX.match(raw) else raw
    if digits is None or not _HEX.fullmatch(digits):
        raise ValueError("not a hex string")
    if len(digits) % 2:
        raise ValueError("odd number of hex digits")
    return bytes.fromhex(digits.decode())


def field_from_text(text: str | bytes) -> bytes:
    """A field element from ``0x`` and 1 to 64 hex digits, or from decimal digits only.

    Digits without ``0x`` are always read as decimal: ``"10"`` is ten.
    """
    raw = _ascii_of(text)
    if raw is not None and _PREFIX.match(raw):
        return _field_from_hex_digits(raw[2:])
    if raw == b"":
        raise ValueError("empty string")
    if raw is None or not _DECIMAL.fullmatch(raw):
        raise ValueError("neither a hex string with 0x in front nor a decimal number")
    digits = raw.lstrip(b"0")
    if len(digits) > _DECIMAL_DIGITS_MAX:
        raise ValueError("not below the field modulus")
    return field_from_int(int(digits or b"0"))


def field_from_int(value: int) -> bytes:
    """The 32 bytes of a number from 0 to the modulus - 1."""
    if not isinstance(value, int):
        raise TypeError(f"value must be int, not {type(value).__name__}")
    if value < 0:
        raise ValueError("negative")
    if value >= MODULUS:
        raise ValueError("not below the field modulus")
    return value.to_bytes(FIELD_BYTES, "big")


def field_to_decimal(value: bytes) -> bytes:
    """Decimal digits of 32 big-endian bytes: any number below 2^256, canonical element or not."""
    _bytes_of(value, "value")
    if len(value) != FIELD_BYTES:
        raise ValueError(f"value must be {FIELD_BYTES} bytes long, not {len(value)}")
    return str(int.from_bytes(value, "big")).encode()


def quoted_fields(data: bytes) -> bytes:
    """JSON array of the ``"0x..."`` strings of n runs of 32 bytes; ``[]`` for none."""
    _bytes_of(data, "data")
    if len(data) % FIELD_BYTES:
        raise ValueError(f"data must be a multiple of {FIELD_BYTES} bytes long, not {len(data)}")
    strings = (b'"0x' + data[i : i + FIELD_BYTES].hex().encode() + b'"' for i in range(0, len(data), FIELD_BYTES))
    return b"[" + b",".join(strings) + b"]"


def to_base64(data: bytes) -> bytes:
    """Standard alphabet, padded, one line."""
    return base64.b64encode(_bytes_of(data, "data"))


def to_base64_narrow(data: bytes) -> bytes:
    """The same, made without vectors of 512 bits, as on processors that have none."""
    return to_base64(data)


def from_base64(text: str | bytes) -> bytes:
    """Bytes of padded base64 in the standard alphabet, without blanks.

    Bits of the last digit beyond the last byte are ignored, as decoders in JavaScript do.
    """
    raw = _ascii_of(text)
    if raw is None or not _BASE64.fullmatch(raw):
        raise ValueError("not padded base64 of the standard alphabet")
    return base64.b64decode(raw)


def _bytes_of(data: bytes, name: str) -> bytes:
    if not isinstance(data, bytes):
        raise TypeError(f"{name} must be bytes, not {type(data).__name__}")
    return data


def _ascii_of(text: str | bytes) -> bytes | None:
    """The text as bytes; None when it is a string with characters that no encoding here uses."""
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise TypeError(f"text must be str or bytes, not {type(text).__name__}")
    return text.encode() if text.isascii() else None


def _field_from_hex_digits(digits: bytes) -> bytes:
    if not digits:
        raise ValueError("no digits after 0x")
    if not _HEX.fullmatch(digits):
        raise ValueError("not a hex string")
    if len(digits) > FIELD_HEX_DIGITS:
        raise ValueError(f"more than {FIELD_HEX_DIGITS} hex digits")
    return field_from_int(int(digits, 16))
