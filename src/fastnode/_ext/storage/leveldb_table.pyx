"""Every checksum of a LevelDB table."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer

crc32c_prepare()

cdef dict FAULTS = {
    TABLE_NO_FOOTER: "there is no footer at byte {}",
    TABLE_OUTSIDE: "a block at byte {} is said to lie outside of the file",
    TABLE_CHECKSUM: "the checksum of the block at byte {} is wrong",
    TABLE_MALFORMED: "the index at byte {} makes no sense",
    TABLE_COMPRESSED: "the index at byte {} is compressed",
    TABLE_OVERLAP: "the block at byte {} begins before the end of the one before it",
}


def crc32c(data not None):
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    cdef uint32_t checksum = _crc32c(<const uint8_t *>view.buf, view.len)
    PyBuffer_Release(&view)
    return checksum


def crc32c_portable(data not None):
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    cdef uint32_t checksum = _crc32c_portable(<const uint8_t *>view.buf, view.len)
    PyBuffer_Release(&view)
    return checksum


def fault_of(table not None):
    cdef uint64_t where = 0
    cdef int fault
    cdef Py_buffer view
    # Not a typed memoryview: the code for it would be half of this file's.
    PyObject_GetBuffer(table, &view, PyBUF_SIMPLE)
    with nogil:
        fault = table_check(<const uint8_t *>view.buf, view.len, &where)
    PyBuffer_Release(&view)
    return None if fault == TABLE_WHOLE else FAULTS[fault].format(where)
