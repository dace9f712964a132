"""Stored nodes of a tree as arrays, for those who read all of them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fastnode.kernels import tree_nodes
from fastnode.world_state.layout import INDEX_BYTES, NODE, TILE, u48
from fastnode.world_state.snapshot import Snapshot
from fastnode.world_state.trees import Tree

__all__ = ["Array", "entries", "nodes_of_tiles", "numbers"]

Array = np.ndarray[Any, Any]

_BITMAP_BYTES: Final = 8
_WORD_BYTES: Final = 8


def numbers(data: Array) -> Array:
    """Big-endian numbers, a row each, of up to 8 bytes."""
    wide = np.zeros((len(data), _WORD_BYTES), np.uint8)
    wide[:, _WORD_BYTES - data.shape[1] :] = data
    return wide.view(">u8")[:, 0].astype(np.uint64)


def nodes_of_tiles(snapshot: Snapshot, tree: Tree, node_bytes: int, first: int, stop: int) -> list[tuple[Array, Array]]:
    """For each level of tiles the nodes above the leaves from ``first`` to ``stop``: indexes, and a row for each.

    ValueError for a tile that makes no sense.
    """
    prefix, levels = TILE + tree.prefix, tree_nodes.TILE_LEVELS
    with snapshot.scan_range(prefix + u48(first >> levels), prefix + u48(-(-stop >> levels))) as found:
        keys, tiles = _columns(list(found))
    places = numbers(_rows(keys, len(prefix) + INDEX_BYTES)[:, len(prefix) :])
    bitmaps = np.frombuffer(b"".join([tile[:_BITMAP_BYTES] for tile in tiles]), np.uint8)
    if len(bitmaps) != _BITMAP_BYTES * len(tiles):
        raise ValueError("a tile is cut off")
    which, positions = np.nonzero(np.unpackbits(bitmaps.reshape(-1, _BITMAP_BYTES), axis=1)[:, ::-1])
    counts = np.bincount(which, minlength=len(tiles)) * node_bytes + _BITMAP_BYTES
    for tile, expected, place in zip(tiles, counts.tolist(), places.tolist(), strict=True):
        if len(tile) != expected:
            raise ValueError(f"tile {place} of {len(tile)} bytes does not match its bitmap")
    stored = np.frombuffer(b"".join([tile[_BITMAP_BYTES:] for tile in tiles]), np.uint8).reshape(-1, node_bytes)
    if (positions >= 64 - (64 >> levels)).any():
        raise ValueError("a tile holds more than its leaves have")
    result = []
    for level in range(levels):
        begin = 64 - (64 >> level)
        chosen = (positions >= begin) & (positions < begin + (tree_nodes.TILE_LEAVES >> level))
        within = (positions[chosen] - begin).astype(np.uint64)
        result.append(((places[which[chosen]] << np.uint64(levels - level)) + within, stored[chosen]))
    return result


def entries(
    snapshot: Snapshot,
    tree: Tree,
    level: int,
    first: int,
    stop: int,
    node_bytes: int,
    kind: bytes = NODE,
    tail: int = 0,
) -> tuple[Array, Array, Array]:
    """Nodes ``first`` to ``stop`` of a level: indexes, the numbers of ``tail`` bytes behind them, a row for each.

    ValueError for an entry of another length.
    """
    prefix = kind + tree.prefix + bytes([level])
    with snapshot.scan_range(prefix + u48(first), prefix + u48(stop)) as found:
        keys, nodes = _columns(list(found))
    end = len(prefix) + INDEX_BYTES
    rows = _rows(keys, end + tail)
    return numbers(rows[:, len(prefix) : end]), numbers(rows[:, end:]), _rows(nodes, node_bytes)


def _columns(found: list[tuple[bytes, bytes]]) -> tuple[list[bytes], list[bytes]]:
    return [key for key, _ in found], [value for _, value in found]


def _rows(values: list[bytes], length: int) -> Array:
    if any(len(value) != length for value in values):
        raise ValueError(f"an entry has not {length} bytes")
    return np.frombuffer(b"".join(values), np.uint8).reshape(-1, length)
