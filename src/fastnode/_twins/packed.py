"""Texts compressed once and sent in many envelopes, in plain Python: the readable form of the packed kernel.

The stub ``fastnode/_ext/wire/packed.pyi`` says what everything does, and ``packed.pyx`` draws the layout.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from isal import isal_zlib

__all__ = ["APART_BYTES_MIN", "Packed", "deflated", "join"]

#: A shorter text is not worth blocks of its own.
APART_BYTES_MIN: Final = 256

_HEADER: Final = bytes([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 4, 0xFF])
_TRAILER: Final = struct.Struct("<II")
_STORED: Final = struct.Struct("<BHH")
_RUN_BYTES_MAX: Final = 512
_LEVEL: Final = 1


class Packed:
    def __init__(self, text: bytes) -> None:
        self.blocks = deflated(text)
        self.length = len(text)
        self.text = text


def deflated(text: bytes) -> bytes:
    packer = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, -isal_zlib.MAX_WBITS)
    return packer.compress(text) + packer.flush(isal_zlib.Z_SYNC_FLUSH)


def join(pieces: Iterable[bytes | Packed]) -> bytes:
    texts: list[bytes] = []
    parts = [_HEADER]
    run = b""
    for piece in pieces:
        packed = piece
        if isinstance(packed, bytes):
            if len(packed) < APART_BYTES_MIN:
                run += packed
                continue
            packed = Packed(packed)
        parts += [_part(run), packed.blocks]
        texts += [run, packed.text]
        run = b""
    parts += [_part(run), _stored(1, b"")]
    whole = b"".join([*texts, run])  # the kernel joins the CRCs of the parts instead
    return b"".join([*parts, _TRAILER.pack(isal_zlib.crc32(whole), len(whole) & 0xFFFFFFFF)])


def _part(run: bytes) -> bytes:
    if len(run) > _RUN_BYTES_MAX:
        return deflated(run)
    return _stored(0, run) if run else b""


def _stored(kind: int, data: bytes) -> bytes:
    return _STORED.pack(kind, len(data), len(data) ^ 0xFFFF) + data
