from libc.stdint cimport uint64_t, uint8_t


# One field of a protobuf message.
ctypedef struct pb_field:
    uint64_t number
    int kind            # its wire type
    uint64_t value      # of a varint
    Py_ssize_t start    # of what has a length
    Py_ssize_t end


cdef Py_ssize_t varint_at(const uint8_t *data, Py_ssize_t at, Py_ssize_t end, uint64_t *value) noexcept nogil
cdef Py_ssize_t field_at(const uint8_t *data, Py_ssize_t at, Py_ssize_t end, pb_field *field) except -1
