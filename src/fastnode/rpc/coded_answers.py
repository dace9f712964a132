"""Compressed answers, put together from results that have been compressed before.

The same results are asked for again and again under new ids.  DEFLATE data (RFC 1951) is a sequence of blocks, and
one that ends at a byte boundary and refers to nothing before it can be kept and used in any stream:

    gzip header | block: {"jsonrpc":"2.0","id":7,"result": | kept blocks: the result | last block: } | CRC-32, length
    zlib header |   as above, the ids as they are, the results compressed once               | Adler-32

Where an answer is divided decides only what can be kept; the content is the answer, whatever it is.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from fastnode.rpc.content_coding import COMPRESSION_LEVEL, Coding

__all__ = ["CodedAnswers"]

#: Results that are kept need at most so much memory.
KEPT_BYTES_MAX: Final = 32 << 20
#: A smaller result is not worth an entry.
RESULT_BYTES_MIN: Final = 256
#: What else an entry takes: its key, its places in the table and in the order.
ENTRY_BYTES: Final = 200
#: No entry takes more than this share of the memory.
SHARES: Final = 8

#: Up to here, what lies between results is stored as it is.
STORED_BYTES_MAX: Final = 512

_RESULT: Final = b'"result":'
_NEXT_CALL: Final = b'},{"jsonrpc":"2.0","id":'

#: No name, no time, the fastest compression, an unknown system (RFC 1952, section 2.3).
_GZIP_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
#: A window of 32 KiB, the fastest compression (RFC 1950, section 2.2).
_ZLIB_HEADER: Final = b"\x78\x01"
_GZIP_TRAILER: Final = struct.Struct("<II")
_ZLIB_TRAILER: Final = struct.Struct(">I")
#: A block that is not compressed: its type and whether it is the last one, its length, and that inverted.
_STORED_BLOCK: Final = struct.Struct("<BHH")


class CodedAnswers:
    """Encodes answers; keeps the compressed form of results, those asked for last.  May be used by several threads."""

    def __init__(self, kept_bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._kept_bytes_max = kept_bytes_max
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self._lock = threading.Lock()
        #: Memory of what is kept.
        self.kept_bytes = 0

    def encode(self, body: bytes, coding: Coding) -> bytes:
        """An answer, to one call or to a batch, in a content coding."""
        blocks: list[bytes] = []
        position = 0
        for start, end in _results_of(body):
            if end - start >= RESULT_BYTES_MIN:
                blocks.append(_between(body[position:start]))
                blocks.append(self.blocks_of(body[start:end]))
                position = end
        blocks.append(_between(body[position:]))
        return _wrapped(body, coding, blocks)

    def blocks_of(self, result: bytes) -> bytes:
        """A result as DEFLATE blocks, none of which is the last one of a stream."""
        key = sha256(result).digest()
        with self._lock:
            blocks = self._kept.get(key)
            if blocks is not None:
                self._kept.move_to_end(key)
                return blocks
        blocks = _deflated(result)
        self._keep(key, blocks)
        return blocks

    def _keep(self, key: bytes, blocks: bytes) -> None:
        size = len(blocks) + ENTRY_BYTES
        if size > self._kept_bytes_max // SHARES:
            return
        with self._lock:
            if key in self._kept:  # another thread has been as fast
                return
            self._kept[key] = blocks
            self.kept_bytes += size
            while self.kept_bytes > self._kept_bytes_max:
                _, oldest = self._kept.popitem(last=False)
                self.kept_bytes -= len(oldest) + ENTRY_BYTES


def _results_of(body: bytes) -> Iterator[tuple[int, int]]:
    """Where results seem to begin and end."""
    is_batch = body.startswith(b"[")
    position = 0
    while (found := body.find(_RESULT, position)) >= 0:
        start = found + len(_RESULT)
        next_call = body.find(_NEXT_CALL, start) if is_batch else -1
        end = next_call if next_call >= 0 else max(start, len(body) - (2 if is_batch else 1))
        yield start, end
        if next_call < 0:
            return
        position = end


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(COMPRESSION_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)


def _between(data: bytes) -> bytes:
    """Blocks for what is not worth keeping."""
    if len(data) > STORED_BYTES_MAX:
        return _deflated(data)
    return _STORED_BLOCK.pack(0, len(data), len(data) ^ 0xFFFF) + data if data else b""


def _wrapped(body: bytes, coding: Coding, blocks: list[bytes]) -> bytes:
    """The complete stream."""
    last = _STORED_BLOCK.pack(1, 0, 0xFFFF)
    if coding == "gzip":
        trailer = _GZIP_TRAILER.pack(zlib.crc32(body), len(body) & 0xFFFFFFFF)
        return b"".join((_GZIP_HEADER, *blocks, last, trailer))
    return b"".join((_ZLIB_HEADER, *blocks, last, _ZLIB_TRAILER.pack(zlib.adler32(body))))
