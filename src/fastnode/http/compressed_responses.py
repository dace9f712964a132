"""Answers in a content coding, in one piece.

gzip       every result is compressed by itself, or was before, and what lies between as it is: _ext/wire/packed.pyx
deflate    the same results in the format of zlib
zstd       all of it at once, for a client that prefers it, where the package zstandard is installed
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Final

from fastnode.http.content_coding import Coding
from fastnode.kernels import packed

__all__ = ["CompressedResponses"]

#: From here on a result that was compressed is offered to those who keep it.
KEPT_BYTES_MIN: Final = 32 * 1024

#: A window of 32 KiB, the fastest compression (RFC 1950, section 2.2).
_ZLIB_HEADER: Final = b"\x78\x01"
#: The last block of a stream, with nothing in it.
_LAST_BLOCK: Final = b"\x01\x00\x00\xff\xff"
#: The fields of these texts repeat; a higher level gains little.
_ZSTD_LEVEL: Final = 1


class CompressedResponses:
    """Encodes answers, which come in pieces with each result by itself.  May be used by several threads."""

    def __init__(self) -> None:
        #: Finds a large result that has been compressed before, and keeps one: set by the owner of the results.
        self.find: Callable[[bytes], packed.Packed | None] = lambda result: None
        self.keep: Callable[[bytes, packed.Packed], None] = lambda result, compressed: None

    def encode(
        self, pieces: Sequence[bytes], coding: Coding, made: list[tuple[bytes, packed.Packed]] | None = None
    ) -> bytes:
        """A body in a content coding; ``made`` gets its large results with what they were compressed to."""
        if coding == "gzip":
            return packed.join([self._pack(piece, made) if len(piece) >= KEPT_BYTES_MIN else piece for piece in pieces])
        if coding == "zstd":
            from zstandard import ZstdCompressor  # of an extra: choose_coding knows whether it is there

            return ZstdCompressor(level=_ZSTD_LEVEL).compress(b"".join(pieces))
        text = b"".join(pieces)
        return b"".join((_ZLIB_HEADER, packed.deflated(text), _LAST_BLOCK, zlib.adler32(text).to_bytes(4)))

    def _pack(self, result: bytes, made: list[tuple[bytes, packed.Packed]] | None) -> packed.Packed:
        compressed = self.find(result)
        if compressed is None:
            compressed = packed.Packed(result)
            if made is not None:
                made.append((result, compressed))
        return compressed
