"""Witnesses as JSON, in plain Python: the readable form of the witness_text kernel.

The stub ``fastnode/_ext/wire/witness_text.pyi`` says what everything does.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from fastnode._twins.tree_nodes import TILE_LEVELS

if TYPE_CHECKING:
    from fastnode._twins.indexed_tree import IndexedNodes

__all__ = ["leaf_key", "low_entry", "membership", "tail_of", "unchanged"]

_HASH_BYTES: Final = 32
_STATE_HEAD: Final = struct.Struct(">I6s32s")  # changed, next index, next key
_RECORD_TAIL: Final = struct.Struct(">6sI32s")  # index, inserted, predecessor key
_PATH_NODES_MAX: Final = 64


def low_entry(
    iterators: deque[Any], make_iterator: Callable[[], Any], prefix: bytes, key: bytes
) -> tuple[bytes, bytes] | None:
    _require_key(key)
    try:
        iterator = iterators.pop()
    except IndexError:
        iterator = make_iterator()
    entry = iterator.first(leaf_key(prefix, key))
    iterators.append(iterator)
    if entry is None:
        return None
    found, record = entry
    if not found.startswith(prefix) or len(found) != len(prefix) + _HASH_BYTES:
        return None
    return _inverted(found[len(prefix) :]), record


def unchanged(
    nodes: IndexedNodes,
    key: bytes,
    record: bytes,
    block: int,
    size: int,
    tile_prefix: bytes,
    get: Callable[[bytes], bytes | None],
) -> bytes | None:
    _require_key(key)
    tail = tail_of(record)
    index_bytes, inserted, _ = _RECORD_TAIL.unpack_from(record, tail)
    changed, next_index, next_key = _STATE_HEAD.unpack_from(record)
    if inserted > block or changed > block:
        return None
    index = int.from_bytes(index_bytes, "big")
    tile = get(tile_prefix + (index >> TILE_LEVELS).to_bytes(len(index_bytes), "big")) or b""
    missing: list[int] = []
    path = nodes.path(index, block, size, tile, missing)
    if missing:
        return None
    value = record[_STATE_HEAD.size : tail]
    leaf = f'"slot":"0x{key.hex()}","value":"0x{value.hex()}"' if value else f'"nullifier":"0x{key.hex()}"'
    counted = (len(path) // _HASH_BYTES).to_bytes(4, "big") + path
    return (
        f'{{"index":"{index}","leafPreimage":{{"leaf":{{{leaf}}},"nextKey":"0x{next_key.hex()}",'
        f'"nextIndex":"{int.from_bytes(next_index, "big")}"}},"siblingPath":"{b64encode(counted).decode()}"}}'
    ).encode()


def leaf_key(prefix: bytes, key: bytes) -> bytes:
    """The key of a leaf: they are stored from the greatest to the smallest."""
    return prefix + _inverted(key)


def _inverted(key: bytes) -> bytes:
    return bytes(byte ^ 0xFF for byte in key)


def membership(index: int, path: bytes) -> bytes:
    _require_path(path)
    return b'"%b"' % b64encode(index.to_bytes(8, "big").rjust(_HASH_BYTES, b"\0") + path)


def message(index: int, path: bytes) -> bytes:
    _require_path(path)
    return b'["%d","%b"]' % (index, b64encode((len(path) // _HASH_BYTES).to_bytes(4, "big") + path))


def _require_key(key: bytes) -> None:
    if len(key) != _HASH_BYTES:
        raise ValueError(f"a key of {len(key)} bytes")


def tail_of(record: bytes) -> int:
    """Start of the constant part of a leaf record; ValueError for other bytes."""
    tail = len(record) - _RECORD_TAIL.size
    if tail - _STATE_HEAD.size not in (0, _HASH_BYTES):
        raise ValueError(f"a leaf record of {len(record)} bytes")
    return tail


def _require_path(path: bytes) -> None:
    if len(path) % _HASH_BYTES or len(path) > _PATH_NODES_MAX * _HASH_BYTES:
        raise ValueError(f"a sibling path of {len(path)} bytes")
