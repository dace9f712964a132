"""Texts compressed once and sent in many envelopes, in plain Python: the readable form of the packed kernel.

The stub ``fastnode/_ext/wire/packed.pyi`` says what everything does, and ``packed.pyx`` draws the layout.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

__all__ = ["Packed"]

_HEADER: Final = bytes([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 4, 0xFF])
_TRAILER: Final = struct.Struct("<II")
_STORED: Final = struct.Struct("<BHH")
_STORED_BYTES_MAX: Final = 0xFFFF


class Packed:
    def __init__(self, text: bytes, blocks: bytes) -> None:
        self.blocks = blocks
        self.length = len(text)
        self._text = text

    def join(self, before: bytes, behind: bytes) -> bytes:
        longest = max(len(before), len(behind))
        if longest > _STORED_BYTES_MAX:
            raise ValueError(f"{longest} bytes around what is packed")
        whole = before + self._text + behind  # the kernel joins the CRCs of the parts instead
        trailer = _TRAILER.pack(zlib.crc32(whole), len(whole) & 0xFFFFFFFF)
        return b"".join((_HEADER, _stored(0, before), self.blocks, _stored(0, behind), _stored(1, b""), trailer))


def _stored(kind: int, data: bytes) -> bytes:
    return _STORED.pack(kind, len(data), len(data) ^ 0xFFFF) + data
