from libc.stdint cimport uint8_t, uint64_t


cdef extern from "numbers.h" nogil:
    uint64_t read_number(const uint8_t *source, size_t size)
    void write_number(uint8_t *target, uint64_t number, size_t size)
