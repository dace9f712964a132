from libc.stdint cimport uint8_t


cdef extern from "grumpkin.h" nogil:
    enum:
        GRUMPKIN_SCALAR_BYTES
        GRUMPKIN_POINT_BYTES

    bint grumpkin_multiply_and_add(const uint8_t *scalar, const uint8_t *point, const uint8_t *addend, uint8_t *sum)
