from libc.stdint cimport uint32_t, uint8_t


cdef extern from "text.h" nogil:
    enum:
        TEXT_FIELD_BYTES
        TEXT_FIELD_HEX_DIGITS
    bint text_read_hex(const uint8_t *digits, size_t size, uint8_t *out)
    void text_write_hex(const uint8_t *data, size_t size, uint8_t *out)
    bint text_field_is_canonical(const uint8_t *field)


# Some bytes of a record, with zeros in front of them.
ctypedef struct cut:
    uint32_t zeros
    uint32_t start
    uint32_t size


cdef class Cuts:
    cdef:
        cut *_cuts              # owned
        Py_ssize_t _count
        Py_ssize_t _source_size # the least a record must have
        Py_ssize_t _size        # of what is joined

    cdef void _join(self, const uint8_t *record, uint8_t *out) noexcept nogil


cdef Py_ssize_t first_non_canonical_c(const uint8_t *fields, Py_ssize_t count) noexcept nogil  # `count` if there is none
