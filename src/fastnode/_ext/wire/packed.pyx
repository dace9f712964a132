# Texts packed once and sent in many envelopes.  The stub (packed.pyi) says what everything does.
#
#   gzip member     header (10) | parts | last block: nothing | CRC | length
#   part            blocks of a packed text, or a run of text between two of them: as it is in a stored block, or,
#                   if it is long, compressed
#   stored block    0, or 1 for the last one | length (2) | its complement (2) | bytes
#
# The numbers are little-endian.  The CRC is joined from those of the parts: CRCs are polynomials modulo another
# one, and a text of n bytes behind what has been read multiplies its CRC by x^(8 n).

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from isal import isal_zlib

cdef enum:
    HEADER_BYTES = 10
    STORED_HEADER_BYTES = 5
    TRAILER_BYTES = 8
    LAST_BLOCK = 1
    RUN_BYTES_MAX = 512         # a longer one is compressed
    KEPT_CAPACITY_MAX = 1048576 # written out, because a debug build cannot compute in an enum

cdef uint32_t POLYNOMIAL = 0xedb88320       # bits reversed: x^0 is the highest
cdef uint32_t ONE = 0x80000000
cdef uint32_t X = 0x40000000
cdef uint32_t[4][256] BYTES_CRC             # of each byte with 0 to 3 zeros behind it
cdef uint32_t[32] POWERS                    # x^(2^k)
cdef uint8_t[HEADER_BYTES] HEADER = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff]

cdef object crc32 = isal_zlib.crc32
cdef object compressor = isal_zlib.compressobj
cdef int DEFLATED = isal_zlib.DEFLATED
cdef int SYNC_FLUSH = isal_zlib.Z_SYNC_FLUSH
cdef int LEVEL = 1                          # the fields of these texts repeat: a higher one gains a twentieth
cdef int RAW = -15                          # no header, a window of 32 KiB


def deflated(text not None):
    cdef object packer = compressor(LEVEL, DEFLATED, RAW)
    return packer.compress(text) + packer.flush(SYNC_FLUSH)


def join(pieces not None):
    cdef Member member = Member()
    cdef object piece
    member.begin()
    for piece in pieces:
        if type(piece) is Packed:
            member.add_packed(<Packed>piece)
        elif len(<bytes?>piece) >= APART_BYTES_MIN:
            member.add_packed(Packed(<bytes>piece))
        else:
            member.add(PyBytes_AS_STRING(<bytes>piece), PyBytes_GET_SIZE(<bytes>piece))
    member.finish()
    return PyBytes_FromStringAndSize(<const char *>member.data, member.size)


@cython.final
cdef class Packed:
    def __init__(self, bytes text not None):
        self.blocks = deflated(text)
        self.length = PyBytes_GET_SIZE(text)
        self.crc = crc32(text)
        _multiples(self.shifted, _power_of_x(self.length))


@cython.final
cdef class Member:
    """A gzip member while it is written; written again and again, it keeps its memory."""

    def __dealloc__(self):
        free(self.data)

    cdef int begin(self) except -1:
        if self.capacity > KEPT_CAPACITY_MAX:
            free(self.data)
            self.data = NULL
            self.capacity = 0
        self.size = self._run = self._length = self._crc = 0
        self._reserve(HEADER_BYTES + STORED_HEADER_BYTES)
        memcpy(self.data, HEADER, HEADER_BYTES)
        self.size = HEADER_BYTES
        return 0

    cdef int add(self, const char *text, Py_ssize_t length) except -1:
        """More of the run behind the last packed text."""
        cdef Py_ssize_t start = self.size
        if self._run == 0:
            start += STORED_HEADER_BYTES
        self._reserve(start - self.size + length)
        memcpy(self.data + start, text, length)
        self._run += length
        self.size = start + length if self._run else self.size
        return 0

    cdef int add_packed(self, Packed packed) except -1:
        cdef Py_ssize_t length = PyBytes_GET_SIZE(packed.blocks)
        self._end_run()
        self._reserve(length)
        memcpy(self.data + self.size, PyBytes_AS_STRING(packed.blocks), length)
        self.size += length
        self._crc = _sum_of(packed.shifted, self._crc) ^ packed.crc
        self._length += packed.length
        return 0

    cdef int finish(self) except -1:
        self._end_run()
        self._reserve(STORED_HEADER_BYTES + TRAILER_BYTES)
        self._write_stored_header(LAST_BLOCK, 0)
        self._write_number(self._crc)
        self._write_number(<uint32_t>self._length)
        return 0

    cdef int _end_run(self) except -1:
        cdef Py_ssize_t length = self._run
        cdef const uint8_t *start = self.data + self.size - length
        cdef bytes text
        cdef bytes blocks
        if length == 0:
            return 0
        self.size -= STORED_HEADER_BYTES + length
        self._run = 0
        self._length += length
        if length <= RUN_BYTES_MAX:
            self._crc = _add_to_crc(self._crc, start, length)
            self._write_stored_header(0, length)
            self.size += length
            return 0
        text = PyBytes_FromStringAndSize(<const char *>start, length)
        self._crc = crc32(text, self._crc)
        blocks = deflated(text)
        self._reserve(PyBytes_GET_SIZE(blocks))
        memcpy(self.data + self.size, PyBytes_AS_STRING(blocks), PyBytes_GET_SIZE(blocks))
        self.size += PyBytes_GET_SIZE(blocks)
        return 0

    cdef int _reserve(self, Py_ssize_t length) except -1:
        cdef Py_ssize_t wanted = self.size + length
        cdef uint8_t *larger
        if wanted > self.capacity:
            wanted *= 2
            larger = <uint8_t *>realloc(self.data, wanted)
            if larger == NULL:
                raise MemoryError
            self.data = larger
            self.capacity = wanted
        return 0

    cdef void _write_stored_header(self, uint8_t kind, Py_ssize_t length) noexcept:
        cdef uint8_t *target = self.data + self.size
        target[0] = kind
        target[1] = <uint8_t>length
        target[2] = <uint8_t>(length >> 8)
        target[3] = target[1] ^ 0xff
        target[4] = target[2] ^ 0xff
        self.size += STORED_HEADER_BYTES

    cdef void _write_number(self, uint32_t number) noexcept:
        cdef int index
        for index in range(4):
            self.data[self.size + index] = <uint8_t>(number >> (8 * index))
        self.size += 4


# ---- CRCs -------------------------------------------------------------------------------------


cdef uint32_t _add_to_crc(uint32_t crc, const uint8_t *data, Py_ssize_t length) noexcept nogil:
    cdef const uint8_t *end = data + length
    crc = ~crc
    while end - data >= 4:
        crc ^= data[0] | <uint32_t>data[1] << 8 | <uint32_t>data[2] << 16 | <uint32_t>data[3] << 24
        crc = (
            BYTES_CRC[3][crc & 0xff] ^ BYTES_CRC[2][crc >> 8 & 0xff] ^ BYTES_CRC[1][crc >> 16 & 0xff]
            ^ BYTES_CRC[0][crc >> 24]
        )
        data += 4
    while data < end:
        crc = BYTES_CRC[0][(crc ^ data[0]) & 0xff] ^ (crc >> 8)
        data += 1
    return ~crc


cdef void _multiples(uint32_t *target, uint32_t factor) noexcept nogil:
    """Of a factor with all polynomials that have bits in one digit of 4 only: products with others are their sums."""
    cdef int digit, bit, number
    target += 8 * 16
    for digit in range(8):
        target -= 16
        target[0] = 0
        for bit in range(3, -1, -1):
            for number in range(1 << (3 - bit)):
                target[1 << bit | number << (bit + 1)] = target[number << (bit + 1)] ^ factor
            factor = (factor >> 1) ^ (POLYNOMIAL if factor & 1 else 0)


cdef inline uint32_t _sum_of(const uint32_t *multiples, uint32_t other) noexcept nogil:
    cdef uint32_t total = 0
    cdef int digit
    for digit in range(8):
        total ^= multiples[16 * digit + (other >> (4 * digit) & 15)]
    return total


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
    cdef int bit, zeros
    for number in range(256):
        crc = number
        for bit in range(8):
            crc = (crc >> 1) ^ (POLYNOMIAL if crc & 1 else 0)
        BYTES_CRC[0][number] = crc
    for zeros in range(1, 4):
        for number in range(256):
            crc = BYTES_CRC[zeros - 1][number]
            BYTES_CRC[zeros][number] = BYTES_CRC[0][crc & 0xff] ^ (crc >> 8)
    POWERS[0] = X
    for bit in range(1, 32):
        POWERS[bit] = _multiply(POWERS[bit - 1], POWERS[bit - 1])


_fill_tables()
