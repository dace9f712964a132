from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef enum:
    APART_BYTES_MIN = 256       # a shorter text is not worth blocks of its own


cdef class Packed:
    cdef:
        readonly bytes blocks       # of DEFLATE, none of them the last, up to a whole byte
        readonly Py_ssize_t length  # of what is packed
        uint32_t crc                # of what is packed
        uint32_t[128] shifted       # what `length` more bytes do to a CRC: to its digits of 4 bits, each with 0 around it


cdef class Member:
    cdef:
        uint8_t *data               # owned
        Py_ssize_t size
        Py_ssize_t capacity
        Py_ssize_t _run             # of the text at the end that no block has yet; room for a block's header is before it
        uint32_t _crc               # of what is in blocks
        uint64_t _length            # of what is in blocks

    cdef int begin(self) except -1
    cdef int add(self, const char *text, Py_ssize_t length) except -1
    cdef int add_packed(self, Packed packed) except -1
    cdef int finish(self) except -1
    cdef int _end_run(self) except -1
    cdef int _reserve(self, Py_ssize_t length) except -1
    cdef void _write_stored_header(self, uint8_t kind, Py_ssize_t length) noexcept
    cdef void _write_number(self, uint32_t number) noexcept
