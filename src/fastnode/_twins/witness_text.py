"""Witnesses as JSON, in plain Python: the readable form of the witness_text kernel.

The stub ``fastnode/_ext/witness_text.pyi`` says what everything does.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from typing import Final

__all__ = ["indexed", "leaf_place", "membership"]

_HASH_BYTES: Final = 32
_STATE_HEAD: Final = struct.Struct(">I6s32s")  # changed, next index, next key
_RECORD_TAIL: Final = struct.Struct(">6sI32s")  # index, inserted, predecessor key
_PATH_NODES_MAX: Final = 64


def leaf_place(record: bytes) -> tuple[int, int, int]:
    index, inserted, _ = _RECORD_TAIL.unpack_from(record, _tail_of(record))
    changed, _, _ = _STATE_HEAD.unpack_from(record)
    return int.from_bytes(index, "big"), inserted, changed


def indexed(key: bytes, record: bytes, path: bytes) -> bytes:
    tail = _tail_of(record)
    if len(key) != _HASH_BYTES:
        raise ValueError(f"a key of {len(key)} bytes")
    _require_path(path)
    _, next_index, next_key = _STATE_HEAD.unpack_from(record)
    value = record[_STATE_HEAD.size : tail]
    leaf = f'"slot":"0x{key.hex()}","value":"0x{value.hex()}"' if value else f'"nullifier":"0x{key.hex()}"'
    counted = (len(path) // _HASH_BYTES).to_bytes(4, "big") + path
    return (
        f'{{"index":"{leaf_place(record)[0]}","leafPreimage":{{"leaf":{{{leaf}}},"nextKey":"0x{next_key.hex()}",'
        f'"nextIndex":"{int.from_bytes(next_index, "big")}"}},"siblingPath":"{b64encode(counted).decode()}"}}'
    ).encode()


def membership(index: int, path: bytes) -> bytes:
    _require_path(path)
    return b'"%b"' % b64encode(index.to_bytes(8, "big").rjust(_HASH_BYTES, b"\0") + path)


def _tail_of(record: bytes) -> int:
    tail = len(record) - _RECORD_TAIL.size
    if tail - _STATE_HEAD.size not in (0, _HASH_BYTES):
        raise ValueError(f"a leaf record of {len(record)} bytes")
    return tail


def _require_path(path: bytes) -> None:
    if len(path) % _HASH_BYTES or len(path) > _PATH_NODES_MAX * _HASH_BYTES:
        raise ValueError(f"a sibling path of {len(path)} bytes")
