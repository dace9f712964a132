from libc.stdint cimport uint8_t


cdef extern from "base64.h" nogil:
    size_t text_base64_length(size_t size)
    void text_write_base64(const uint8_t *data, size_t size, uint8_t *out)
    void text_write_base64_narrow(const uint8_t *data, size_t size, uint8_t *out)
    Py_ssize_t text_base64_size(const uint8_t *text, size_t count)
    bint text_read_base64(const uint8_t *text, size_t size, uint8_t *out)
