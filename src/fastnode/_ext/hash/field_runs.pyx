# Runs of joined field elements.  The stub (field_runs.pyi) says what everything does.

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

__all__ = ["Cuts", "fields_of_texts", "first_no_text", "first_non_canonical"]

# Records are transactions and smaller things.
cdef Py_ssize_t RECORD_BYTES_MAX = 1 << 24

cdef enum:
    FIELD_TEXT_BYTES = 66  # 0x and the digits


cdef Py_ssize_t first_non_canonical_c(const uint8_t *fields, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t index = 0
    while index < count and text_field_is_canonical(fields + index * TEXT_FIELD_BYTES):
        index += 1
    return index


def first_non_canonical(bytes fields not None):
    cdef Py_ssize_t size = PyBytes_GET_SIZE(fields), index
    if size % TEXT_FIELD_BYTES:
        raise ValueError(f"fields must be a multiple of {TEXT_FIELD_BYTES} bytes long, not {size}")
    index = first_non_canonical_c(<const uint8_t *>PyBytes_AS_STRING(fields), size // TEXT_FIELD_BYTES)
    return None if index == size // TEXT_FIELD_BYTES else index


cdef inline bint read_text(const uint8_t *text, uint8_t *field) noexcept nogil:
    return text[0] == c"0" and text[1] == c"x" and text_read_hex(text + 2, TEXT_FIELD_BYTES, field)


cdef inline bint is_lower_case(const uint8_t *text) noexcept nogil:
    cdef uint8_t[TEXT_FIELD_BYTES] field
    cdef uint8_t[TEXT_FIELD_HEX_DIGITS] again
    if not read_text(text, field):
        return False
    text_write_hex(field, TEXT_FIELD_BYTES, again)
    return memcmp(again, text + 2, TEXT_FIELD_HEX_DIGITS) == 0


cdef Py_ssize_t check_texts(const uint8_t[::1] texts, Py_ssize_t start, Py_ssize_t count) except -1:
    cdef Py_ssize_t size = texts.shape[0]
    if not 0 <= start <= size or not 0 <= count <= (size - start) // FIELD_TEXT_BYTES:
        raise ValueError(f"{count} texts from byte {start} on are not within {size} bytes")
    return 0


def first_no_text(const uint8_t[::1] texts not None, Py_ssize_t start, Py_ssize_t count):
    check_texts(texts, start, count)
    cdef const uint8_t *text = &texts[start] if count else NULL
    cdef Py_ssize_t index = 0
    with nogil:
        while index < count and is_lower_case(text + index * FIELD_TEXT_BYTES):
            index += 1
    return None if index == count else index


def fields_of_texts(const uint8_t[::1] texts not None, Py_ssize_t start, Py_ssize_t count):
    check_texts(texts, start, count)
    cdef const uint8_t *text = &texts[start] if count else NULL
    cdef bytes fields = PyBytes_FromStringAndSize(NULL, count * TEXT_FIELD_BYTES)
    cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(fields)
    cdef Py_ssize_t index = 0
    with nogil:
        while index < count and read_text(text + index * FIELD_TEXT_BYTES, out + index * TEXT_FIELD_BYTES):
            index += 1
    if index < count:
        raise ValueError(f"text {index} is not 0x and {TEXT_FIELD_HEX_DIGITS} hexadecimal digits")
    return fields


@cython.final
cdef class Cuts:
    def __cinit__(self, cuts):
        cdef Py_ssize_t index, zeros, start, end
        given = list(cuts)
        self._count = len(given)
        self._cuts = <cut *>calloc(self._count + 1, sizeof(cut))
        if self._cuts is NULL:
            raise MemoryError
        for index in range(self._count):
            zeros, start, end = given[index]
            if not (0 <= zeros <= RECORD_BYTES_MAX and 0 <= start <= end <= RECORD_BYTES_MAX):
                raise ValueError(f"cut {index} is not within {RECORD_BYTES_MAX} bytes")
            self._cuts[index].zeros = zeros
            self._cuts[index].start = start
            self._cuts[index].size = end - start
            self._source_size = max(self._source_size, end)
            self._size += zeros + end - start

    def __dealloc__(self):
        free(self._cuts)

    cdef void _join(self, const uint8_t *record, uint8_t *out) noexcept nogil:
        cdef Py_ssize_t index
        cdef cut piece
        for index in range(self._count):
            piece = self._cuts[index]
            memset(out, 0, piece.zeros)
            memcpy(out + piece.zeros, record + piece.start, piece.size)
            out += piece.zeros + piece.size

    def join(self, bytes record not None, bytes prefix not None = b""):
        if PyBytes_GET_SIZE(record) < self._source_size:
            raise ValueError(f"the record has {PyBytes_GET_SIZE(record)} bytes, the cuts need {self._source_size}")
        cdef Py_ssize_t prefix_size = PyBytes_GET_SIZE(prefix)
        cdef bytes joined = PyBytes_FromStringAndSize(NULL, prefix_size + self._size)
        cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(joined)
        memcpy(out, PyBytes_AS_STRING(prefix), prefix_size)
        self._join(<const uint8_t *>PyBytes_AS_STRING(record), out + prefix_size)
        return joined
