"""Poseidon2 hashes, and steps of sponges, that are computed once, by their input, and told to the published classes.

Most of the time of a comparison is hashing: each transaction has a hash of more than a thousand fields, which the one
who makes it up, this project and the published classes all want.  Those look for what *they* would hash, so that one
who hashes anything else computes it; one in some of what they are told they compute too (transactions.mjs).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any

from fastnode.kernels import hash_threads, poseidon2
from fastnode.protocol.fields import FIELD_BYTES, MODULUS

#: Hashes that are kept; then all are forgotten.
KEPT_MAX = 20_000


class _Kept:
    """A hash that was computed before."""

    def __init__(self, value: bytes) -> None:
        self._value = value

    def result(self) -> bytes:
        return self._value


class _Awaited:
    """A hash that a thread computes, kept once it is there."""

    def __init__(self, pending: Any, keep: Callable[[bytes], bytes]) -> None:
        self._pending, self._keep = pending, keep

    def result(self) -> bytes:
        found: bytes = self._pending.result()
        self._keep(found)
        return found


class KeptHashes:
    """In the place of the kernels' functions until ``close``."""

    def __init__(self) -> None:
        self._modules: list[Any] = [poseidon2, hash_threads]
        self._hash_fields, self._start_hash = poseidon2.hash_fields, hash_threads.start_hash
        self._absorb_fields = poseidon2.sponge_absorb
        self._kept: dict[bytes, bytes] = {}
        self._asked: dict[str, str] = {}
        self._modules[0].hash_fields, self._modules[1].start_hash = self._hash, self._start
        self._modules[0].sponge_absorb = self._absorb

    def close(self) -> None:
        self._modules[0].hash_fields, self._modules[1].start_hash = self._hash_fields, self._start_hash
        self._modules[0].sponge_absorb = self._absorb_fields

    def _hash(self, fields: bytes) -> bytes:
        key = sha256(fields).digest()
        found = self._kept.get(key)
        return self._keep(key, self._hash_fields(fields) if found is None else found)

    def _start(self, fields: bytes) -> _Kept | _Awaited:
        key = sha256(fields).digest()
        found = self._kept.get(key)
        if found is None:
            return _Awaited(self._start_hash(fields), partial(self._keep, key))
        return _Kept(self._keep(key, found))

    def _keep(self, key: bytes, found: bytes) -> bytes:
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept[key] = found
        self._asked[key.hex()] = found.hex()
        return found

    def _absorb(self, state: bytes, fields: bytes) -> bytes:
        """Tell each step: its key is that of a hash with a letter before it, as both may have the same input."""
        for start in range(0, len(fields), 3 * FIELD_BYTES):
            lanes = [state[place : place + FIELD_BYTES] for place in range(0, 4 * FIELD_BYTES, FIELD_BYTES)]
            for lane in range(3):
                field = fields[start + lane * FIELD_BYTES : start + (lane + 1) * FIELD_BYTES]
                added = (int.from_bytes(lanes[lane], "big") + int.from_bytes(field, "big")) % MODULUS
                lanes[lane] = added.to_bytes(FIELD_BYTES, "big")
            before = b"".join(lanes)
            state = poseidon2.permute(before)
            self._asked["p" + sha256(before).hexdigest()] = state.hex()
        return state

    def taken(self) -> dict[str, str]:
        """Hashes that were asked for since the last time, by the SHA-256 of what is hashed."""
        taken, self._asked = self._asked, {}
        return taken
