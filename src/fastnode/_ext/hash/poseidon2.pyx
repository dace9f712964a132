"""Poseidon2 over the BN254 scalar field, width 4."""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from fastnode.errors import SettingError


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


# A bound that keeps sizes in bytes far from overflowing; nothing hashed is near it.
cdef size_t RUN_ELEMENTS_MAX = 1 << 20

cdef enum:
    # Nodes with a separator that are put together at once: a whole number of runs of every kernel.
    NODES_PER_RUN = 64


# ---- choice of the kernel -----------------------------------------------------------------------

# Changed only under the GIL; a call reads it once.
cdef const poseidon2_kernel *kernel = poseidon2_kernels[0]


def kernel_name():
    return kernel.name.decode()


def available_kernels():
    names = []
    cdef size_t i = 0
    while poseidon2_kernels[i] is not NULL:
        if poseidon2_kernel_runs_here(poseidon2_kernels[i]):
            names.append(poseidon2_kernels[i].name.decode())
        i += 1
    return tuple(names)


def use_kernel(str name not None):
    global kernel
    cdef size_t i = 0
    known = []
    while poseidon2_kernels[i] is not NULL:
        known.append(poseidon2_kernels[i].name.decode())
        if known[i] == name:
            if not poseidon2_kernel_runs_here(poseidon2_kernels[i]):
                raise ValueError(f"this processor lacks the instructions of the kernel {name}")
            kernel = poseidon2_kernels[i]
            return
        i += 1
    raise ValueError(f"there is no kernel {name!r}, only {' and '.join(known)}")


def _use_configured_kernel():
    # An empty variable counts as none.  The last kernel that runs here is the fastest.
    *_, fastest = available_kernels()
    try:
        use_kernel(os.environ.get("FASTNODE_KERNEL") or fastest)
    except ValueError as error:
        raise SettingError(f"FASTNODE_KERNEL: {error}") from None


_use_configured_kernel()


# ---- for other extensions -----------------------------------------------------------------------

cdef inline int hash_each(const uint8_t *inputs, size_t arity, size_t n, uint8_t *out) noexcept nogil:
    if poseidon2_first_not_canonical(inputs, arity * n) != arity * n:
        return -1
    kernel.hash_many(inputs, arity, n, out)
    return 0


cdef int hash_fields_c(const uint8_t *fields, size_t n, uint8_t *out) noexcept nogil:
    if poseidon2_first_not_canonical(fields, n) != n:
        return -1
    kernel.hash_one(fields, n, out)
    return 0


cdef int hash_pair_c(const uint8_t *left, const uint8_t *right, uint8_t *out) noexcept nogil:
    cdef uint8_t[2 * POSEIDON2_FIELD_BYTES] children
    memcpy(children, left, POSEIDON2_FIELD_BYTES)
    memcpy(children + POSEIDON2_FIELD_BYTES, right, POSEIDON2_FIELD_BYTES)
    return hash_fields_c(children, 2, out)


cdef int hash_pairs_c(const uint8_t *nodes, size_t n, uint8_t *out) noexcept nogil:
    return hash_each(nodes, 2, n, out)


cdef int hash_nodes_c(const uint8_t *separator, const uint8_t *nodes, size_t n, uint8_t *out) noexcept nogil:
    cdef uint8_t[3 * POSEIDON2_FIELD_BYTES * NODES_PER_RUN] run
    cdef size_t done = 0, count, i
    cdef uint8_t *target
    if separator is NULL:
        return hash_pairs_c(nodes, n, out)
    if poseidon2_first_not_canonical(nodes, 2 * n) != 2 * n:
        return -1
    # Hashes go where children stood that have been read already.
    while done < n:
        count = min(n - done, <size_t>NODES_PER_RUN)
        target = run
        for i in range(count):
            memcpy(target, separator, POSEIDON2_FIELD_BYTES)
            memcpy(
                target + POSEIDON2_FIELD_BYTES,
                nodes + 2 * POSEIDON2_FIELD_BYTES * (done + i),
                2 * POSEIDON2_FIELD_BYTES,
            )
            target += 3 * POSEIDON2_FIELD_BYTES
        kernel.hash_many(run, 3, count, out + POSEIDON2_FIELD_BYTES * done)
        done += count
    return 0


cdef int hash_leaves_3_c(const uint8_t *leaves, size_t n, uint8_t *out) noexcept nogil:
    return hash_each(leaves, 3, n, out)


cdef int hash_leaves_4_c(const uint8_t *leaves, size_t n, uint8_t *out) noexcept nogil:
    return hash_each(leaves, 4, n, out)


cdef int hash_runs_c(const uint8_t *runs, size_t arity, size_t n, uint8_t *out) noexcept nogil:
    return hash_each(runs, arity, n, out)


cdef size_t together_c(size_t waiting) noexcept nogil:
    return kernel.together(waiting)


cdef int permute_c(const uint8_t *state, uint8_t *out) noexcept nogil:
    cdef size_t lanes = POSEIDON2_STATE_BYTES // POSEIDON2_FIELD_BYTES
    if poseidon2_first_not_canonical(state, lanes) != lanes:
        return -1
    kernel.permute(state, out)
    return 0


# ---- for Python ---------------------------------------------------------------------------------

def permute(state):
    cdef const uint8_t *source = read_exactly(state, "state", POSEIDON2_STATE_BYTES)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, POSEIDON2_STATE_BYTES)
    cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(result)
    with nogil:
        kernel.permute(source, out)
    return result


def hash_fields(fields):
    cdef size_t n = 0
    cdef const uint8_t *source = read_run(fields, "fields", POSEIDON2_FIELD_BYTES, &n)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, POSEIDON2_FIELD_BYTES)
    cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(result)
    with nogil:
        kernel.hash_one(source, n, out)
    return result


def hash_pair(left, right):
    cdef const uint8_t *first = read_exactly(left, "left", POSEIDON2_FIELD_BYTES)
    cdef const uint8_t *second = read_exactly(right, "right", POSEIDON2_FIELD_BYTES)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, POSEIDON2_FIELD_BYTES)
    cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(result)
    with nogil:
        hash_pair_c(first, second, out)
    return result


def hash_pairs(nodes):
    return hash_run(nodes, "nodes", 2)


def hash_nodes(nodes, separator):
    cdef size_t n = 0, length = 0
    cdef const uint8_t *source = read_run(nodes, "nodes", 2 * POSEIDON2_FIELD_BYTES, &n)
    cdef const uint8_t *first = read_run(separator, "separator", POSEIDON2_FIELD_BYTES, &length)
    if length > 1:
        raise ValueError(f"separator must be one element or none, not {length}")
    if length == 0:
        first = NULL
    cdef bytes result = PyBytes_FromStringAndSize(NULL, n * POSEIDON2_FIELD_BYTES)
    cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(result)
    with nogil:
        hash_nodes_c(first, source, n, out)
    return result


def hash_leaves_3(leaves):
    return hash_run(leaves, "leaves", 3)


def hash_leaves_4(leaves):
    return hash_run(leaves, "leaves", 4)


def hash_runs(runs, arity):
    if not 1 <= arity <= RUN_ELEMENTS_MAX:
        raise ValueError(f"arity must be from 1 to {RUN_ELEMENTS_MAX}, not {arity}")
    return hash_run(runs, "runs", arity)


def sponge_absorb(state, fields):
    cdef const uint8_t *source = read_exactly(state, "state", POSEIDON2_STATE_BYTES)
    cdef size_t groups = 0
    cdef const uint8_t *elements = read_run(fields, "fields", POSEIDON2_RATE * POSEIDON2_FIELD_BYTES, &groups)
    cdef bytes result = PyBytes_FromStringAndSize(<const char *>source, POSEIDON2_STATE_BYTES)
    cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(result)
    with nogil:
        kernel.absorb(out, elements, groups)
    return result


def sponges_absorb(states, fields not None):
    cdef size_t count = 0, i
    cdef const uint8_t *source = read_run(states, "states", POSEIDON2_STATE_BYTES, &count)
    # A tuple does not change, so that what is joined is what was counted.
    cdef tuple runs = tuple(fields)
    if len(runs) != <Py_ssize_t>count:
        raise ValueError(f"fields must be {count} runs, one for each state, not {len(runs)}")
    cdef size_t *groups = <size_t *>calloc(count + 1, sizeof(size_t))
    if groups is NULL:
        raise MemoryError
    cdef bytes joined, result
    cdef const uint8_t *elements
    cdef uint8_t *out
    try:
        for i in range(count):
            groups[i] = groups_of(runs[i], i)
        joined = b"".join(runs)
        elements = checked(joined, "fields")
        result = PyBytes_FromStringAndSize(<const char *>source, count * POSEIDON2_STATE_BYTES)
        out = <uint8_t *>PyBytes_AS_STRING(result)
        with nogil:
            kernel.absorb_many(out, elements, groups, count)
    finally:
        free(groups)
    return result


cdef bytes hash_run(data, str name, size_t arity):
    cdef size_t n = 0
    cdef const uint8_t *source = read_run(data, name, arity * POSEIDON2_FIELD_BYTES, &n)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, n * POSEIDON2_FIELD_BYTES)
    cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(result)
    with nogil:
        kernel.hash_many(source, arity, n, out)
    return result


# ---- checks -------------------------------------------------------------------------------------

# Bytes objects do not change, so that what was checked under the GIL still holds without it.

cdef const uint8_t *read_exactly(data, str name, Py_ssize_t size) except NULL:
    if not isinstance(data, bytes):
        raise TypeError(f"{name} must be bytes, not {type(data).__name__}")
    if PyBytes_GET_SIZE(data) != size:
        raise ValueError(f"{name} must be {size} bytes long, not {PyBytes_GET_SIZE(data)}")
    return checked(data, name)


cdef size_t groups_of(data, size_t i) except? 0:
    if not isinstance(data, bytes):
        raise TypeError(f"run {i} of fields must be bytes, not {type(data).__name__}")
    if PyBytes_GET_SIZE(data) % (POSEIDON2_RATE * POSEIDON2_FIELD_BYTES):
        raise ValueError(
            f"run {i} of fields must be a multiple of {POSEIDON2_RATE * POSEIDON2_FIELD_BYTES} bytes long, "
            f"not {PyBytes_GET_SIZE(data)}"
        )
    return PyBytes_GET_SIZE(data) // (POSEIDON2_RATE * POSEIDON2_FIELD_BYTES)


cdef const uint8_t *read_run(data, str name, Py_ssize_t size, size_t *count) except NULL:
    if not isinstance(data, bytes):
        raise TypeError(f"{name} must be bytes, not {type(data).__name__}")
    if PyBytes_GET_SIZE(data) % size:
        raise ValueError(f"{name} must be a multiple of {size} bytes long, not {PyBytes_GET_SIZE(data)}")
    count[0] = PyBytes_GET_SIZE(data) // size
    return checked(data, name)


cdef const uint8_t *checked(data, str name) except NULL:
    cdef const uint8_t *elements = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef size_t count = PyBytes_GET_SIZE(data) // POSEIDON2_FIELD_BYTES
    cdef size_t wrong
    with nogil:
        wrong = poseidon2_first_not_canonical(elements, count)
    if wrong != count:
        raise ValueError(f"element {wrong} of {name} is not below the field modulus")
    return elements
