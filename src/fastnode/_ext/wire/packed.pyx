# Texts packed once and sent in many envelopes.  The stub (packed.pyi) says what everything does.
#
#   gzip member     header (10) | stored block: before | blocks | stored block: behind | last block: nothing | CRC | length
#   stored block    0, or 1 for the last one | length (2) | its complement (2) | bytes
#
# The numbers are little-endian.  The CRC is joined from those of the parts: CRCs are polynomials modulo another
# one, and a text of n bytes behind what has been read multiplies its CRC by x^(8 n).

cimport cython
import zlib

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

cdef enum:
    HEADER_BYTES = 10
    STORED_HEADER_BYTES = 5
    TRAILER_BYTES = 8
    LAST_BLOCK = 1

cdef uint32_t POLYNOMIAL = 0xedb88320       # bits reversed: x^0 is the highest
cdef uint32_t ONE = 0x80000000
cdef uint32_t X = 0x40000000
cdef uint32_t[256] BYTES_CRC                # of each byte
cdef uint32_t[32] POWERS                    # x^(2^k)
cdef uint8_t[HEADER_BYTES] HEADER = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff]


@cython.final
cdef class Packed:
    def __init__(self, bytes text not None, bytes blocks not None):
        self.blocks = blocks
        self.length = PyBytes_GET_SIZE(text)
        self.crc = zlib.crc32(text)
        self.shift = _power_of_x(self.length)

    def join(self, bytes before not None, bytes behind not None):
        cdef Py_ssize_t before_length = PyBytes_GET_SIZE(before)
        cdef Py_ssize_t behind_length = PyBytes_GET_SIZE(behind)
        cdef bytes member
        if before_length > STORED_BYTES_MAX or behind_length > STORED_BYTES_MAX:
            raise ValueError(f"{max(before_length, behind_length)} bytes around what is packed")
        member = PyBytes_FromStringAndSize(NULL, self.joined_length(before_length, behind_length))
        self.write(
            <uint8_t *>PyBytes_AS_STRING(member), <const uint8_t *>PyBytes_AS_STRING(before), before_length,
            <const uint8_t *>PyBytes_AS_STRING(behind), behind_length,
        )
        return member

    cdef Py_ssize_t joined_length(self, Py_ssize_t before, Py_ssize_t behind) noexcept:
        return (
            HEADER_BYTES + 3 * STORED_HEADER_BYTES + before + PyBytes_GET_SIZE(self.blocks) + behind + TRAILER_BYTES
        )

    cdef uint8_t *write(
        self, uint8_t *target, const uint8_t *before, Py_ssize_t before_length, const uint8_t *behind,
        Py_ssize_t behind_length,
    ) noexcept:
        """Behind the member; there is room for all of it."""
        cdef uint32_t crc = _multiply(self.shift, _add_to_crc(0, before, before_length)) ^ self.crc
        memcpy(target, HEADER, HEADER_BYTES)
        target = _write_stored(target + HEADER_BYTES, 0, before, before_length)
        memcpy(target, PyBytes_AS_STRING(self.blocks), PyBytes_GET_SIZE(self.blocks))
        target += PyBytes_GET_SIZE(self.blocks)
        target = _write_stored(target, 0, behind, behind_length)
        target = _write_stored(target, LAST_BLOCK, behind, 0)
        target = _write_number(target, _add_to_crc(crc, behind, behind_length))
        return _write_number(target, <uint32_t>(before_length + self.length + behind_length))


cdef uint8_t *_write_stored(uint8_t *target, uint8_t kind, const uint8_t *data, Py_ssize_t length) noexcept nogil:
    target[0] = kind
    target[1] = <uint8_t>length
    target[2] = <uint8_t>(length >> 8)
    target[3] = target[1] ^ 0xff
    target[4] = target[2] ^ 0xff
    memcpy(target + STORED_HEADER_BYTES, data, length)
    return target + STORED_HEADER_BYTES + length


cdef uint8_t *_write_number(uint8_t *target, uint32_t number) noexcept nogil:
    cdef int index
    for index in range(4):
        target[index] = <uint8_t>(number >> (8 * index))
    return target + 4


# ---- CRCs -------------------------------------------------------------------------------------


cdef uint32_t _add_to_crc(uint32_t crc, const uint8_t *data, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t index
    crc = ~crc
    for index in range(length):
        crc = BYTES_CRC[(crc ^ data[index]) & 0xff] ^ (crc >> 8)
    return ~crc


cdef uint32_t _multiply(uint32_t left, uint32_t right) noexcept nogil:
    """Modulo the polynomial."""
    cdef uint32_t product = 0
    while left:
        if left & ONE:
            product ^= right
        left <<= 1
        right = (right >> 1) ^ (POLYNOMIAL if right & 1 else 0)
    return product


cdef uint32_t _power_of_x(uint64_t length) noexcept nogil:
    """x^(8 * length)."""
    cdef uint32_t power = ONE
    cdef int bit = 3
    while length:
        if length & 1:
            power = _multiply(POWERS[bit & 31], power)  # the powers repeat: x^(2^32) is x
        length >>= 1
        bit += 1
    return power


cdef void _fill_tables() noexcept:
    cdef uint32_t number, crc
    cdef int bit
    for number in range(256):
        crc = number
        for bit in range(8):
            crc = (crc >> 1) ^ (POLYNOMIAL if crc & 1 else 0)
        BYTES_CRC[number] = crc
    POWERS[0] = X
    for bit in range(1, 32):
        POWERS[bit] = _multiply(POWERS[bit - 1], POWERS[bit - 1])


_fill_tables()
