"""Pending hashes in plain Python, the readable form of the hash_threads kernel: computed when they are asked for.

The stub ``fastnode/_ext/hash/hash_threads.pyi`` says what everything does.
"""

from __future__ import annotations

import threading
from typing import Final

from fastnode._twins import poseidon2

__all__ = ["THREADS", "PendingHash", "counts", "limit_threads", "start_hash"]

_FIELD_BYTES: Final = 32
#: None beside the caller's own.
THREADS: Final = 0

_computed = 0


class PendingHash:
    __slots__ = ("_fields", "_hash", "_lock")

    _fields: bytes
    _hash: bytes | None
    _lock: threading.Lock

    def __init__(self) -> None:
        raise TypeError("start_hash makes these")

    @property
    def is_done(self) -> bool:
        return self._hash is not None

    def result(self) -> bytes:
        global _computed
        with self._lock:
            if self._hash is None:
                self._hash = poseidon2.hash_fields(self._fields)
                self._fields = b""
                _computed += 1
            return self._hash


def start_hash(fields: bytes) -> PendingHash:
    if not isinstance(fields, bytes):
        raise TypeError(f"fields must be bytes, not {type(fields).__name__}")
    if not fields or len(fields) % _FIELD_BYTES:
        raise ValueError(f"fields must be a positive multiple of {_FIELD_BYTES} bytes long, not {len(fields)}")
    pending = object.__new__(PendingHash)
    pending._fields, pending._hash, pending._lock = fields, None, threading.Lock()
    return pending


def limit_threads(count: int) -> None:
    if count < 1:
        raise ValueError(f"count must be at least 1, not {count}")


def counts() -> tuple[int, int]:
    return _computed, _computed
