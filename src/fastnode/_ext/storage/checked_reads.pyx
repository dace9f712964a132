"""Reads of a LevelDB snapshot that verify checksums and say in one place what went wrong."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t

from fastnode._ext.storage.stored_text cimport unpacked


cdef enum:
    FIRST_BYTES = 256

cdef bytes NOTHING_IS_TEXT = bytes(FIRST_BYTES)


@cython.final
cdef class CheckedSnapshot:
    def __init__(self, snapshot, error_of, bytes is_text not None=NOTHING_IS_TEXT):
        if PyBytes_GET_SIZE(is_text) != FIRST_BYTES:
            raise ValueError(f"{PyBytes_GET_SIZE(is_text)} kinds of keys")
        self.snapshot = snapshot
        self.raw_get = snapshot.get
        self.error_of = error_of
        self.is_text = is_text

    def get(self, bytes key not None):
        cdef object value
        try:
            value = self.raw_get(key, verify_checksums=True)
            if value is not None and PyBytes_GET_SIZE(key) and PyBytes_AS_STRING(self.is_text)[
                <uint8_t>PyBytes_AS_STRING(key)[0]
            ]:
                value = unpacked(<bytes?>value)
            return value
        except Exception as error:
            raise self.error_of(error) from error

    def iterator(self, **bounds):
        try:
            return CheckedIterator(self.snapshot.iterator(verify_checksums=True, **bounds), self.error_of)
        except Exception as error:
            raise self.error_of(error) from error

    def raw_iterator(self):
        try:
            return CheckedSeeks(self.snapshot.raw_iterator(verify_checksums=True), self.error_of)
        except Exception as error:
            raise self.error_of(error) from error

    def close(self):
        self.snapshot.close()


@cython.final
cdef class CheckedIterator:
    def __init__(self, entries, error_of):
        self.entries = entries
        self.advance = entries.__next__
        self.error_of = error_of

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self.advance()
        except StopIteration:
            raise
        except Exception as error:
            raise self.error_of(error) from error

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.entries.close()

    def close(self):
        self.entries.close()


@cython.final
cdef class CheckedSeeks:
    def __init__(self, raw, error_of):
        self.raw_seek = raw.seek
        self.error_of = error_of
        self.valid, self.key, self.value, self.close = raw.valid, raw.key, raw.value, raw.close

    def first(self, bytes key not None):
        try:
            self.raw_seek(key)
        except Exception as error:
            raise self.error_of(error) from error
        return (self.key(), self.value()) if self.valid() else None
