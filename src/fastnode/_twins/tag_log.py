"""The readable form of ``fastnode._ext.logs.tag_log``: same functions, same bits, no speed.

Layout of the filter: blocks of 64 bytes, each eight words of 64 bits (little-endian).  A key selects
one block and sets one bit in each of its words.  See ``_ext/logs/c/tag_filter.h``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from fastnode._twins.effect_logs import page_json

TAG_BYTES: Final = 32
BLOCK_BYTES: Final = 64
WORD_BYTES: Final = 8
PAGE_BYTES: Final = 4
ENTRIES: Final = b"\1"
PAGE_MAX: Final = 0xFFFFFFFF
MODULUS: Final = 0x30644E72E131A029B85045B68181585D2833E84879B9709143E1F593F0000001

_WORD_MASK: Final = 2**64 - 1
_MIX_1: Final = 0x9E3779B97F4A7C15
_MIX_2: Final = 0xBF58476D1CE4E5B9
_MIX_3: Final = 0x94D049BB133111EB
_CANONICAL: Final = re.compile("0x[0-9a-fA-F]{64}")


class TagFilter:
    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"a tag filter of {size} bytes")
        self.blocks = -(-size // BLOCK_BYTES)
        self._bits = bytearray(self.blocks * BLOCK_BYTES)
        self.unknown_count = self.found_count = self.missed_count = 0

    @classmethod
    def load(cls, data: bytes) -> TagFilter:
        if len(data) == 0 or len(data) % BLOCK_BYTES:
            raise ValueError(f"{len(data)} bytes are no whole number of filter blocks")
        loaded = cls(len(data))
        loaded._bits[:] = data
        return loaded

    @property
    def size(self) -> int:
        return self.blocks * BLOCK_BYTES

    def merge(self, data: bytes) -> None:
        if len(data) != self.size:
            raise ValueError(f"{len(data)} bytes do not fit a filter of {self.size}")
        self._bits[:] = bytes(ours | theirs for ours, theirs in zip(self._bits, data, strict=True))

    def count(self, *, is_known: bool, is_found: bool) -> None:
        """Count a tag that was asked for."""
        if not is_known:
            self.unknown_count += 1
        elif is_found:
            self.found_count += 1
        else:
            self.missed_count += 1

    def add(self, key: bytes) -> bool:
        changed = False
        for position, bit in self._choices(key):
            changed |= not self._bits[position] & bit
            self._bits[position] |= bit
        return changed

    def may_contain(self, key: bytes) -> bool:
        return all(self._bits[position] & bit for position, bit in self._choices(key))

    def dump(self) -> bytes:
        return bytes(self._bits)

    def _choices(self, key: bytes) -> list[tuple[int, int]]:
        """Byte position and bit of the key's eight choices."""
        key_hash = _hash(key)
        block = (key_hash * self.blocks >> 64) * BLOCK_BYTES
        choices = _fold(key_hash ^ _MIX_2, _MIX_3)
        found = []
        for word in range(BLOCK_BYTES // WORD_BYTES):
            bit = choices >> 6 * word & 63
            found.append((block + word * WORD_BYTES + bit // 8, 1 << bit % 8))
        return found


def _hash(key: bytes) -> int:
    if len(key) not in (TAG_BYTES, 2 * TAG_BYTES):
        raise ValueError(f"a tag key of {len(key)} bytes")
    state = _MIX_2
    if len(key) != TAG_BYTES:
        state = _mix(_MIX_3, key[:TAG_BYTES])
    return _mix(state, key[-TAG_BYTES:])


def _mix(state: int, data: bytes) -> int:
    words = [int.from_bytes(data[start : start + WORD_BYTES], "little") for start in range(0, TAG_BYTES, WORD_BYTES)]
    state = _fold(words[0] ^ state, words[1] ^ _MIX_1) + _MIX_2 & _WORD_MASK
    return _fold(words[2] ^ state, words[3] ^ _MIX_3) + _MIX_1 & _WORD_MASK


def _fold(a: int, b: int) -> int:
    product = a * b
    return product & _WORD_MASK ^ product >> 64


def read_fields(values: list[Any], strict: Callable[[Any, int], bytes]) -> bytes:
    fields = []
    for index, value in enumerate(values):
        field = _read_canonical(value)
        if field is None:
            field = strict(value, index)
            if len(field) != TAG_BYTES:
                raise ValueError("a field has 32 bytes")
        fields.append(field)
    return b"".join(fields)


def _read_canonical(value: Any) -> bytes | None:
    if type(value) is not str or _CANONICAL.fullmatch(value) is None:
        return None
    number = int(value, 16)
    return number.to_bytes(TAG_BYTES, "big") if number < MODULUS else None


def count_known(tag_filter: TagFilter | None, owner: bytes, tags: bytes) -> int:
    if len(owner) not in (0, TAG_BYTES) or len(tags) % TAG_BYTES:
        raise ValueError(f"tags of {len(tags)} bytes of an owner of {len(owner)} bytes")
    keys = [owner + tags[start : start + TAG_BYTES] for start in range(0, len(tags), TAG_BYTES)]
    return sum(tag_filter is None or tag_filter.may_contain(key) for key in keys)


def answer(
    tag_filter: TagFilter | None,
    prefix: bytes,
    owner: bytes,
    tags: bytes,
    page: int,
    get: Callable[[bytes], bytes | None],
    get_effect: Callable[[bytes], bytes | None] | None = None,
    found_max: int = 0x7FFFFFFF,
    require_bytes: Callable[[int], None] | None = None,
) -> bytes:
    if len(owner) not in (0, TAG_BYTES):
        raise ValueError(f"a tag owner of {len(owner)} bytes")
    if len(tags) % TAG_BYTES:
        raise ValueError(f"tags of {len(tags)} bytes")
    if not 0 <= page <= PAGE_MAX:
        raise ValueError(f"page {page} of a tag")
    tail = page.to_bytes(PAGE_BYTES, "big")
    pages = []
    found = length = 0
    for start in range(0, len(tags), TAG_BYTES):
        key = owner + tags[start : start + TAG_BYTES]
        stored = None
        if tag_filter is None or tag_filter.may_contain(key):
            stored = get(prefix + key + tail)
        if tag_filter is not None:
            tag_filter.count(is_known=tag_filter.may_contain(key), is_found=stored is not None)
        if stored is not None:
            found += 1
            if found > found_max:
                raise OverflowError(f"more than {found_max} tags have logs")
            if stored.startswith(ENTRIES):
                stored = page_json(get_effect or get, bool(owner), stored[len(ENTRIES) :])
            if require_bytes is not None:
                require_bytes(length + len(stored) + 2 * len(tags) // TAG_BYTES)
        pages.append(b"[]" if stored is None else stored)
        length += len(pages[-1])
    return b"[" + b",".join(pages) + b"]"
