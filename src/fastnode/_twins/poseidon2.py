"""Poseidon2 in plain Python: the readable twin of ``fastnode._ext.hash.poseidon2``.

A field element is 32 bytes, big-endian, below the modulus.  A state is four of them (128 bytes).
Several of them are passed as one run of bytes without separators.  Every function refuses a run
of the wrong length and an element that is not below the modulus with :class:`ValueError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastnode._twins.poseidon2_constants import (
    CAPACITY_SHIFT,
    INTERNAL_DIAGONAL,
    MODULUS,
    RATE,
    ROUND_CONSTANTS_FULL_FIRST,
    ROUND_CONSTANTS_FULL_LAST,
    ROUND_CONSTANTS_PARTIAL,
    WIDTH,
)

__all__ = [
    "available_kernels",
    "hash_fields",
    "hash_leaves_3",
    "hash_leaves_4",
    "hash_nodes",
    "hash_pair",
    "hash_pairs",
    "hash_runs",
    "kernel_name",
    "permute",
    "sponge_absorb",
    "sponges_absorb",
    "use_kernel",
]

FIELD_BYTES: Final = 32
STATE_BYTES: Final = WIDTH * FIELD_BYTES
RATE_BYTES: Final = RATE * FIELD_BYTES
RUN_ELEMENTS_MAX: Final = 1 << 20

State = tuple[int, int, int, int]


def kernel_name() -> str:
    """The code that does the arithmetic: here always ``python``."""
    return "python"


def available_kernels() -> tuple[str, ...]:
    """Every kernel this module could run on, the chosen one among them."""
    return (kernel_name(),)


def use_kernel(name: str) -> None:
    """Nothing to choose from here: ValueError for any other name."""
    if name != kernel_name():
        raise ValueError(f"there is no kernel {name!r}, only {kernel_name()}")


def permute(state: bytes) -> bytes:
    """The permutation of one state of 128 bytes."""
    _check_length(state, "state", STATE_BYTES)
    return _to_bytes(_permute(*_read_state(state)))


def hash_fields(fields: bytes) -> bytes:
    """Hash of n elements (32 * n bytes, n from 0), in fixed length mode."""
    _check_run(fields, "fields", FIELD_BYTES)
    return _hash(_read_fields(fields, "fields")).to_bytes(FIELD_BYTES, "big")


def hash_pair(left: bytes, right: bytes) -> bytes:
    """The Merkle node above two nodes: the hash of two elements."""
    _check_length(left, "left", FIELD_BYTES)
    _check_length(right, "right", FIELD_BYTES)
    children = [*_read_fields(left, "left"), *_read_fields(right, "right")]
    return _hash(children).to_bytes(FIELD_BYTES, "big")


def hash_pairs(nodes: bytes) -> bytes:
    """One level of a Merkle tree: 64 * n bytes in, the n parents (32 * n bytes) out."""
    return _hash_each(nodes, "nodes", 2)


def hash_nodes(nodes: bytes, separator: bytes) -> bytes:
    """One level of a Merkle tree, as :func:`hash_pairs`, with one element hashed before each pair; b"": with none."""
    _check_run(nodes, "nodes", 2 * FIELD_BYTES)
    _check_run(separator, "separator", FIELD_BYTES)
    first, values = _read_fields(separator, "separator"), _read_fields(nodes, "nodes")
    if len(first) > 1:
        raise ValueError(f"separator must be one element or none, not {len(first)}")
    hashes = [_hash([*first, *values[i : i + 2]]) for i in range(0, len(values), 2)]
    return b"".join(node.to_bytes(FIELD_BYTES, "big") for node in hashes)


def hash_leaves_3(leaves: bytes) -> bytes:
    """Hashes of n runs of three elements (96 * n bytes in, 32 * n bytes out)."""
    return _hash_each(leaves, "leaves", 3)


def hash_leaves_4(leaves: bytes) -> bytes:
    """Hashes of n runs of four elements (128 * n bytes in, 32 * n bytes out)."""
    return _hash_each(leaves, "leaves", 4)


def hash_runs(runs: bytes, arity: int) -> bytes:
    """Hashes of n runs of ``arity`` elements, 1 to 2^20 (32 * arity * n bytes in, 32 * n bytes out)."""
    if not 1 <= arity <= RUN_ELEMENTS_MAX:
        raise ValueError(f"arity must be from 1 to {RUN_ELEMENTS_MAX}, not {arity}")
    return _hash_each(runs, "runs", arity)


def sponge_absorb(state: bytes, fields: bytes) -> bytes:
    """Absorb whole groups of three elements (96 * n bytes): add each to lanes 0 to 2, then permute."""
    _check_length(state, "state", STATE_BYTES)
    _check_run(fields, "fields", RATE_BYTES)
    lanes = _read_state(state)
    values = _read_fields(fields, "fields")
    for start in range(0, len(values), RATE):
        lanes = _absorb(lanes, values[start : start + RATE])
    return _to_bytes(lanes)


def sponges_absorb(states: bytes, fields: Sequence[bytes]) -> bytes:
    """For each of n states (128 * n bytes) absorb whole groups of three elements, as :func:`sponge_absorb` does.

    ``fields`` has one run of groups for each state.
    """
    _check_run(states, "states", STATE_BYTES)
    _read_fields(states, "states")
    count = len(states) // STATE_BYTES
    if len(fields) != count:
        raise ValueError(f"fields must be {count} runs, one for each state, not {len(fields)}")
    for index, run in enumerate(fields):
        _check_run(run, f"run {index} of fields", RATE_BYTES)
    _read_fields(b"".join(fields), "fields")
    return b"".join(
        sponge_absorb(states[index * STATE_BYTES : (index + 1) * STATE_BYTES], run) for index, run in enumerate(fields)
    )


# ---- bytes -----------------------------------------------------------------------------------


def _check_bytes(data: bytes, name: str) -> None:
    if not isinstance(data, bytes):
        raise TypeError(f"{name} must be bytes, not {type(data).__name__}")


def _check_length(data: bytes, name: str, size: int) -> None:
    _check_bytes(data, name)
    if len(data) != size:
        raise ValueError(f"{name} must be {size} bytes long, not {len(data)}")


def _check_run(data: bytes, name: str, size: int) -> None:
    _check_bytes(data, name)
    if len(data) % size:
        raise ValueError(f"{name} must be a multiple of {size} bytes long, not {len(data)}")


def _read_fields(data: bytes, name: str) -> list[int]:
    values = []
    for start in range(0, len(data), FIELD_BYTES):
        value = int.from_bytes(data[start : start + FIELD_BYTES], "big")
        if value >= MODULUS:
            raise ValueError(f"element {start // FIELD_BYTES} of {name} is not below the field modulus")
        values.append(value)
    return values


def _read_state(data: bytes) -> State:
    a, b, c, d = _read_fields(data, "state")
    return a, b, c, d


def _to_bytes(lanes: State) -> bytes:
    return b"".join(lane.to_bytes(FIELD_BYTES, "big") for lane in lanes)


# ---- sponge ----------------------------------------------------------------------------------


def _hash_each(data: bytes, name: str, count: int) -> bytes:
    _check_run(data, name, count * FIELD_BYTES)
    values = _read_fields(data, name)
    return b"".join(
        _hash(values[start : start + count]).to_bytes(FIELD_BYTES, "big") for start in range(0, len(values), count)
    )


def _hash(values: list[int]) -> int:
    lanes: State = (0, 0, 0, len(values) << CAPACITY_SHIFT)
    if not values:
        return _permute(*lanes)[0]
    for start in range(0, len(values), RATE):
        lanes = _absorb(lanes, values[start : start + RATE])
    return lanes[0]


def _absorb(lanes: State, group: list[int]) -> State:
    x, y, z = (*group, 0, 0)[:RATE]
    return _permute(lanes[0] + x, lanes[1] + y, lanes[2] + z, lanes[3])


# ---- permutation -----------------------------------------------------------------------------


def _permute(a: int, b: int, c: int, d: int) -> State:
    """Lanes may come in slightly above the modulus; they go out reduced."""
    a, b, c, d = _external(a, b, c, d)
    a, b, c, d = _full_rounds(a, b, c, d, ROUND_CONSTANTS_FULL_FIRST)
    a, b, c, d = _partial_rounds(a, b, c, d)
    a, b, c, d = _full_rounds(a, b, c, d, ROUND_CONSTANTS_FULL_LAST)
    return a % MODULUS, b % MODULUS, c % MODULUS, d % MODULUS


def _external(a: int, b: int, c: int, d: int) -> State:
    """EXTERNAL_MATRIX by shared sums.  Nothing is reduced: the results are at most 16 times larger."""
    t0, t1 = a + b, c + d
    t2, t3 = 2 * b + t1, 2 * d + t0
    t4, t5 = 4 * t1 + t3, 4 * t0 + t2
    return t3 + t5, t5, t2 + t4, t4


def _full_rounds(a: int, b: int, c: int, d: int, table: tuple[tuple[int, int, int, int], ...]) -> State:
    p = MODULUS
    for ka, kb, kc, kd in table:
        a, b, c, d = a + ka, b + kb, c + kc, d + kd
        a2, b2, c2, d2 = a * a % p, b * b % p, c * c % p, d * d % p
        a, b, c, d = a2 * a2 % p * a % p, b2 * b2 % p * b % p, c2 * c2 % p * c % p, d2 * d2 % p * d % p
        a, b, c, d = _external(a, b, c, d)
    return a, b, c, d


def _partial_rounds(a: int, b: int, c: int, d: int) -> State:
    p = MODULUS
    da, db, dc, dd = INTERNAL_DIAGONAL
    for k in ROUND_CONSTANTS_PARTIAL:
        a += k
        a2 = a * a % p
        a = a2 * a2 % p * a % p
        total = a + b + c + d
        a, b, c, d = (da * a + total) % p, (db * b + total) % p, (dc * c + total) % p, (dd * d + total) % p
    return a, b, c, d
