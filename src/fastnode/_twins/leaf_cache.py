"""Tiles and leaves of an indexed tree, kept in memory, in plain Python: the readable form of the leaf_cache kernel.

The stub ``fastnode/_ext/trees/leaf_cache.pyi`` says what everything does.  The kernel finds a leaf by the upper bits of
a key, and so finds some of them only when they are asked for again; here all leaves are looked through.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["PLACE_BYTES", "LeafCache"]

PLACE_BYTES: Final = 8192
_KEY_BYTES: Final = 32
_NO_KEY: Final = bytes(_KEY_BYTES)
_TILE_BYTES_MAX: Final = 2240
_RECORD_BYTES: Final = (84, 116)
_NEXT_KEY: Final = slice(10, 42)
_INDEX: Final = slice(-42, -36)
_LEAVES_PER_TILE: Final = 32
_INDEX_MAX: Final = (1 << 32) - 2
_TILES_MAX: Final = 1 << 48


class _Place:
    def __init__(self, index: int) -> None:
        self.index = index
        self.tile: bytes | None = None
        self.leaves: dict[int, tuple[bytes, bytes]] = {}


class LeafCache:
    def __init__(self, bytes_max: int) -> None:
        places = bytes_max // PLACE_BYTES
        self._count = 1 << (places.bit_length() - 1) if places else 0
        self._places: dict[int, _Place] = {}
        self.generation = 0

    def drop(self, tiles: Iterable[int]) -> None:
        self.generation += 1
        for index in tiles:
            if self._place(index) is not None:
                del self._places[index % self._count]

    def clear(self) -> None:
        self.generation += 1
        self._places.clear()

    def has_room_for(self, size: int | None) -> bool:
        """Whether all leaves of a tree of ``size`` can be here; not of one whose size is not known."""
        return size is not None and size <= self._count * _LEAVES_PER_TILE

    def memory_bytes(self) -> int:
        kept = sum(
            len(place.tile or b"") + sum(_KEY_BYTES + 1 + len(record) for _, record in place.leaves.values())
            for place in self._places.values()
        )
        return kept + self._count * 528

    def tile(self, index: int) -> bytes | None:
        place = self._place(index)
        return None if place is None else place.tile

    def keep_tile(self, index: int, tile: bytes, generation: int) -> None:
        if generation == self.generation and self._count and len(tile) <= _TILE_BYTES_MAX and index <= _TILES_MAX:
            place = self._taken_place(index)
            place.tile = tile if place.tile is None else place.tile

    def low(self, key: bytes) -> tuple[bytes, bytes] | None:
        _require_key(key)
        for place in self._places.values():
            for found, record in place.leaves.values():
                if found <= key and (key < record[_NEXT_KEY] or record[_NEXT_KEY] == _NO_KEY):
                    return found, record
        return None

    def keep_leaf(self, asked: bytes, key: bytes, record: bytes, generation: int) -> None:
        _require_key(asked)
        _require_key(key)
        if len(record) not in _RECORD_BYTES:
            raise ValueError(f"a leaf record of {len(record)} bytes")
        index = int.from_bytes(record[_INDEX], "big")
        if generation == self.generation and self._count and index <= _INDEX_MAX:
            self._taken_place(index // _LEAVES_PER_TILE).leaves.setdefault(index, (key, record))

    def _place(self, index: int) -> _Place | None:
        """Where a tile is kept; None if another one is there, or none."""
        place = self._places.get(index % self._count) if self._count else None
        return place if place is not None and place.index == index else None

    def _taken_place(self, index: int) -> _Place:
        """The place of a tile, which is its own from now on."""
        place = self._place(index)
        if place is None:
            place = self._places[index % self._count] = _Place(index)
        return place


def _require_key(key: bytes) -> None:
    if len(key) != _KEY_BYTES:
        raise ValueError(f"a key of {len(key)} bytes")
