from libc.stdint cimport uint8_t, uint32_t


cdef enum:
    STORED_BYTES_MAX = 65535    # that a part around the packed one may have


cdef class Packed:
    cdef:
        readonly bytes blocks       # of DEFLATE, none of them the last, up to a whole byte
        readonly Py_ssize_t length  # of what is packed
        uint32_t crc                # of what is packed
        uint32_t shift              # x^(8 * length) modulo the polynomial: what `length` more bytes do to a CRC

    # The parts around it are at most STORED_BYTES_MAX bytes long each.
    cdef Py_ssize_t joined_length(self, Py_ssize_t before, Py_ssize_t behind) noexcept
    cdef uint8_t *write(
        self, uint8_t *target, const uint8_t *before, Py_ssize_t before_length, const uint8_t *behind,
        Py_ssize_t behind_length,
    ) noexcept
