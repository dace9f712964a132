"""Small encodings: protobuf and base58 as they are written, raw snappy with its limit."""

from __future__ import annotations

from typing import Final

from fastnode.errors import PeerFault
from fastnode.extras import LazyModule
from fastnode.kernels import peer_frames

__all__ = ["base58", "compress", "decompress", "protobuf"]

#: Imported when the first message comes: importing this module is cheap.
_cramjam: Final = LazyModule("cramjam")

_ALPHABET: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
#: Wire type of what has a length.
_LENGTH: Final = 2


def protobuf(*fields: tuple[int, int | bytes | str]) -> bytes:
    """A message of (number, value) pairs: numbers as varints, the rest with a length."""
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            out += peer_frames.write_varint(number << 3) + peer_frames.write_varint(int(value))
        else:
            data = value.encode() if isinstance(value, str) else value
            out += peer_frames.write_varint(number << 3 | _LENGTH) + peer_frames.write_varint(len(data)) + data
    return bytes(out)


def base58(data: bytes) -> str:
    number, digits = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return _ALPHABET[0] * (len(data) - len(data.lstrip(b"\0"))) + digits


def compress(data: bytes) -> bytes:
    """Raw snappy, without the framing of streams."""
    return bytes(_cramjam.snappy.compress_raw(data))


def decompress(data: bytes, bytes_max: int) -> bytes:
    """Content of raw snappy; empty for nothing.

    PeerFault if it is none, or would be more than ``bytes_max``: that is known before anything is made of it.
    """
    if not data:
        return b""
    try:
        head = peer_frames.read_varint(data, 0)
    except ValueError as error:
        raise PeerFault(f"snappy: {error}") from error
    if head is None or head[0] > bytes_max:
        raise PeerFault(f"snappy: more than {bytes_max} bytes" if head else "snappy: no length")
    try:
        content = bytes(_cramjam.snappy.decompress_raw(data))
    except Exception as error:  # the package's own type is in no stub
        raise PeerFault(f"snappy: {error}") from error
    if len(content) != head[0]:
        raise PeerFault("snappy: another length than it says")
    return content
