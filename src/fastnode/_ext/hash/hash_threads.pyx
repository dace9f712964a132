# Hashes that are computed beside what the interpreter does.  The stub (hash_threads.pyi) says what everything does.

cimport cython
import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t

from fastnode._ext.hash.poseidon2 cimport POSEIDON2_FIELD_BYTES, hash_runs_c, together_c

__all__ = ["THREADS", "PendingHash", "counts", "limit_threads", "start_hash"]

# More threads than this have nothing to do: the interpreter cannot bring so many runs.
cdef int THREADS_MAX = 8

THREADS = min(THREADS_MAX, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)

hash_threads_use(hash_runs_c, together_c, THREADS)


@cython.final
cdef class PendingHash:
    def __init__(self):
        raise TypeError("start_hash makes these")

    def __dealloc__(self):
        if self._job is not NULL:
            hash_threads_drop(self._job)

    @property
    def is_done(self):
        return self._hash is not None or hash_threads_is_done(self._job)

    def result(self):
        cdef uint8_t[HASH_BYTES] found
        cdef int outcome
        if self._hash is None:
            with nogil:
                outcome = hash_threads_wait(self._job, found)
            if outcome != 0:
                raise ValueError("an element of fields is not below the field modulus")
            self._hash = found[:HASH_BYTES]
        return self._hash


def start_hash(fields):
    if not isinstance(fields, bytes):
        raise TypeError(f"fields must be bytes, not {type(fields).__name__}")
    cdef Py_ssize_t size = PyBytes_GET_SIZE(fields)
    if size == 0 or size % POSEIDON2_FIELD_BYTES:
        raise ValueError(f"fields must be a positive multiple of {POSEIDON2_FIELD_BYTES} bytes long, not {size}")
    cdef PendingHash pending = PendingHash.__new__(PendingHash)
    pending._job = hash_threads_start(<const uint8_t *>PyBytes_AS_STRING(fields), size // POSEIDON2_FIELD_BYTES)
    if pending._job is NULL:
        raise MemoryError
    return pending


def limit_threads(count):
    if count < 1:
        raise ValueError(f"count must be at least 1, not {count}")
    hash_threads_limit(min(count, THREADS))


def counts():
    cdef hash_counts now = hash_threads_counts()
    return now.runs, now.batches
