"""Compressed answers, put together from results that have been compressed before.

The same results are asked for again and again under new ids.  DEFLATE data (RFC 1951) is a sequence of blocks, and
one that ends at a byte boundary and refers to nothing before it can be kept and used in any stream:

    gzip header | block: {"jsonrpc":"2.0","id":7,"result": | kept blocks: the result | last block: } | CRC-32, length
    zlib header |   as above, the ids as they are, the results compressed once               | Adler-32

Where an answer is divided decides only what can be kept; the content is the same.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections import OrderedDict
from functools import lru_cache
from hashlib import sha256
from typing import Final, NamedTuple

from fastnode.http.content_coding import COMPRESSION_LEVEL, Coding

__all__ = ["CompressedResponses"]

#: Results that are kept need at most so much memory.
KEPT_BYTES_MAX: Final = 48 << 20
#: A smaller result is not worth an entry.
RESULT_BYTES_MIN: Final = 256
#: What else an entry takes: its key, its places in the table and in the order.
ENTRY_BYTES: Final = 300
#: No entry takes more than this share of the memory.
SHARES: Final = 6

#: Up to here, what lies between results is stored as it is.
STORED_BYTES_MAX: Final = 512
#: From here on a result is kept beside its compressed form and found by comparing, which takes a twentieth of the time
#: of a digest and of looking for its end.
LARGE_BYTES_MIN: Final = 32 * 1024
#: What large results are looked up by: how they begin.
BEGINNING_BYTES: Final = 128
#: Large results with one beginning, those asked for last; checkpoints from one on, for instance, but different counts.
SAME_BEGINNING_MAX: Final = 4

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


class _Large(NamedTuple):
    """A large result that is kept."""

    result: bytes
    blocks: bytes
    crc: int


class CompressedResponses:
    """Encodes answers; keeps the compressed form of results, those asked for last.  May be used by several threads."""

    def __init__(self, kept_bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._kept_bytes_max = kept_bytes_max
        #: Blocks by the digest of a result, and large results by how they begin.
        self._kept: OrderedDict[bytes, bytes | tuple[_Large, ...]] = OrderedDict()
        self._lock = threading.Lock()
        #: Memory of what is kept.
        self.kept_bytes = 0

    def encode(self, body: bytes, coding: Coding) -> bytes:
        """An answer, to one call or to a batch, in a content coding."""
        chunks = self._encode(body, coding, may_compress=True)
        assert chunks is not None
        return b"".join(chunks)

    def encode_kept(self, body: bytes, coding: Coding) -> bytes | None:
        """Likewise if all results are large and kept, which takes hardly any time; None otherwise."""
        chunks = self._encode(body, coding, may_compress=False)
        return None if chunks is None else b"".join(chunks)

    def blocks_of(self, result: bytes) -> bytes:
        """A result as DEFLATE blocks, none of which is the last one of a stream."""
        if len(result) >= LARGE_BYTES_MIN:
            large = self._find_large(result, 0)
            return (large if large is not None and large.result == result else self._compress_large(result)).blocks
        key = sha256(result).digest()
        kept = self._look_up(key)
        if isinstance(kept, bytes):
            return kept
        blocks = _deflated(result)
        self._keep(key, blocks)
        return blocks

    # ---- dividing ----------------------------------------------------------------------------

    def _encode(self, body: bytes, coding: Coding, *, may_compress: bool) -> list[bytes] | None:
        stream = _Stream(body, coding)
        is_batch = body.startswith(b"[")
        position = 0
        while (found := body.find(_RESULT, position)) >= 0:
            start = found + len(_RESULT)
            large = self._find_large(body, start)
            if large is not None:
                end = start + len(large.result)
            elif not may_compress:
                return None
            else:
                next_call = body.find(_NEXT_CALL, start) if is_batch else -1
                end = next_call if next_call >= 0 else max(start, len(body) - (2 if is_batch else 1))
                if end - start >= LARGE_BYTES_MIN:
                    large = self._compress_large(body[start:end])
            if large is not None:
                stream.add(start, large.blocks, len(large.result), large.crc)
            elif end - start >= RESULT_BYTES_MIN:
                stream.add(start, self.blocks_of(body[start:end]), end - start, None)
            position = end
            if not is_batch:
                break
        return stream.finish()

    def _find_large(self, body: bytes, start: int) -> _Large | None:
        """The large result that is kept and stands at a position."""
        if len(body) - start < LARGE_BYTES_MIN:
            return None
        kept = self._look_up(body[start : start + BEGINNING_BYTES])
        if isinstance(kept, tuple):
            for large in kept:
                if body.startswith(large.result, start):
                    return large
        return None

    def _compress_large(self, result: bytes) -> _Large:
        large = _Large(result, _deflated(result), zlib.crc32(result))
        key = result[:BEGINNING_BYTES]
        kept = self._look_up(key)
        others = kept[: SAME_BEGINNING_MAX - 1] if isinstance(kept, tuple) else ()
        self._keep(key, (large, *(each for each in others if each.result != result)))
        return large

    # ---- keeping -----------------------------------------------------------------------------

    def _look_up(self, key: bytes) -> bytes | tuple[_Large, ...] | None:
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
            return kept

    def _keep(self, key: bytes, value: bytes | tuple[_Large, ...]) -> None:
        while (size := _memory_of(value)) > self._kept_bytes_max // SHARES:
            if isinstance(value, bytes) or len(value) == 1:
                return
            value = value[:-1]
        with self._lock:
            if (old := self._kept.pop(key, None)) is not None:
                self.kept_bytes -= _memory_of(old)
            self._kept[key] = value
            self.kept_bytes += size
            while self.kept_bytes > self._kept_bytes_max:
                _, oldest = self._kept.popitem(last=False)
                self.kept_bytes -= _memory_of(oldest)


def _memory_of(value: bytes | tuple[_Large, ...]) -> int:
    if isinstance(value, bytes):
        return len(value) + ENTRY_BYTES
    return sum(len(large.result) + len(large.blocks) + ENTRY_BYTES for large in value)


class _Stream:
    """A compressed stream of a body while it is put together."""

    def __init__(self, body: bytes, coding: Coding) -> None:
        self._body = body
        self._is_gzip = coding == "gzip"
        self._chunks = [_GZIP_HEADER if self._is_gzip else _ZLIB_HEADER]
        self._position = 0
        self._crc = 0
        self._summed = 0  # up to here the CRC is known

    def add(self, start: int, blocks: bytes, length: int, crc: int | None) -> None:
        """What lies before ``start``, then blocks for ``length`` bytes; ``crc`` is theirs, if it is known."""
        self._chunks += (_between(self._body[self._position : start]), blocks)
        self._position = start + length
        if crc is not None and self._is_gzip:
            before = zlib.crc32(memoryview(self._body)[self._summed : start], self._crc)
            self._crc = joint_crc(before, crc, length)
            self._summed = self._position

    def finish(self) -> list[bytes]:
        body = self._body
        self._chunks += (_between(body[self._position :]), _STORED_BLOCK.pack(1, 0, 0xFFFF))
        if self._is_gzip:
            crc = zlib.crc32(memoryview(body)[self._summed :], self._crc)
            self._chunks.append(_GZIP_TRAILER.pack(crc, len(body) & 0xFFFFFFFF))
        else:
            self._chunks.append(_ZLIB_TRAILER.pack(zlib.adler32(body)))
        return self._chunks


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(COMPRESSION_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)


def _between(data: bytes) -> bytes:
    """Blocks for what is not worth keeping."""
    if len(data) > STORED_BYTES_MAX:
        return _deflated(data)
    return _STORED_BLOCK.pack(0, len(data), len(data) ^ 0xFFFF) + data if data else b""


# ---- CRC-32 of two parts from that of each --------------------------------------------------------

#: The polynomial of CRC-32, the highest power first in the lowest bit (RFC 1952, section 8).
_POLYNOMIAL: Final = 0xEDB88320
_ONE: Final = 1 << 31


def joint_crc(first: int, second: int, second_bytes: int) -> int:
    """The CRC-32 of two parts together: that of the first, moved on by the second's length, and that of the second."""
    return _product(_power_of_length(second_bytes), first) ^ second


@lru_cache(maxsize=1024)
def _power_of_length(byte_count: int) -> int:
    """x to the power of the number of bits, modulo the polynomial."""
    result, square = _ONE, _ONE >> 8  # 1, x ** 8
    while byte_count:
        if byte_count & 1:
            result = _product(square, result)
        square = _product(square, square)
        byte_count >>= 1
    return result


def _product(left: int, right: int) -> int:
    """Of two polynomials over two elements, modulo the polynomial."""
    product = 0
    bit = _ONE
    while bit:
        if left & bit:
            product ^= right
        bit >>= 1
        right = (right >> 1) ^ _POLYNOMIAL if right & 1 else right >> 1
    return product
