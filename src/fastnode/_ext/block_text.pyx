# Blocks as JSON.  The stub (block_text.pyi) says what everything does.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy

from fastnode._ext.encode cimport text_write_hex

cdef enum:
    # A block record, as archiver/records.py draws it; the header and the archive follow.
    HASH = 0
    CHECKPOINT_NUMBER = 64
    INDEX_WITHIN_CHECKPOINT = 68
    TX_COUNT = 84
    HEADER_LENGTH = 88
    HEAD_BYTES = 92
    HASH_BYTES = 32
    # The key of a transaction's effect: a letter and two numbers.
    EFFECT_KEY_BYTES = 9
    EFFECT_LETTER = 101
    # Texts around the parts of a block, with room to spare.
    TEXT_BYTES_MAX = 512
    EMPTY_ARCHIVE_BYTES = 103

RELEASE = 0
JOINT = 1
DEVELOPMENT = 2
DATA = 3

cdef enum:
    C_RELEASE = 0
    C_JOINT = 1
    C_DEVELOPMENT = 2
    C_DATA = 3

EMPTY_ARCHIVE = b'{"root":"0x' + b"0" * 64 + b'","nextAvailableLeafIndex":0}'
cdef bytes EMPTY_ARCHIVE_TEXT = EMPTY_ARCHIVE


def header(bytes record not None):
    cdef Py_ssize_t length = _header_length(record)
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(record) + HEAD_BYTES, length)


def block(int form, uint32_t number, bytes record not None, get):
    cdef const char *head = PyBytes_AS_STRING(record)
    cdef const char *header = head + HEAD_BYTES
    cdef Py_ssize_t header_length = _header_length(record)
    cdef const char *archive = header + header_length
    cdef Py_ssize_t archive_length = PyBytes_GET_SIZE(record) - HEAD_BYTES - header_length
    cdef Py_ssize_t length = TEXT_BYTES_MAX + header_length + archive_length + EMPTY_ARCHIVE_BYTES
    cdef list effects = None
    cdef bytes effect
    cdef bytes text
    cdef char *start
    cdef char *at
    if not C_RELEASE <= form <= C_DATA:
        raise ValueError(f"form {form} of a block")
    if form == C_RELEASE or form == C_JOINT:
        effects = _effects(number, _number(head + TX_COUNT), get)
        for effect in effects:
            length += PyBytes_GET_SIZE(effect) + 1
    text = PyBytes_FromStringAndSize(NULL, length)
    start = PyBytes_AS_STRING(text)
    if effects is None:
        at = _write(start, b'{"header":', 10)
        at = _write(at, header, header_length)
        at = _write(at, b',"archive":', 11)
        at = _write(at, archive, archive_length)
        at = _write(at, b',"blockHash":"0x', 16) if form == C_DATA else _write(at, b',"hash":"0x', 11)
        text_write_hex(<const uint8_t *>head + HASH, HASH_BYTES, <uint8_t *>at)
        at = _write(at + 2 * HASH_BYTES, b'"', 1)
    else:
        at = _write(start, b'{"archive":', 11)
        if number:
            at = _write(at, archive, archive_length)
        else:
            at = _write(at, PyBytes_AS_STRING(EMPTY_ARCHIVE_TEXT), PyBytes_GET_SIZE(EMPTY_ARCHIVE_TEXT))
        at = _write(at, b',"header":', 10)
        at = _write(at, header, header_length)
        at = _write(at, b',"body":{"txEffects":[', 22)
        for effect in effects:
            at = _write(at, PyBytes_AS_STRING(effect), PyBytes_GET_SIZE(effect))
            at = _write(at, b",", 1)
        if effects:
            at -= 1
        at = _write(at, b"]}", 2)
    at = _write(at, b',"checkpointNumber":', 20)
    at = _write_decimal(at, _number(head + CHECKPOINT_NUMBER))
    at = _write(at, b',"indexWithinCheckpoint":', 25)
    at = _write_decimal(at, _number(head + INDEX_WITHIN_CHECKPOINT))
    if form == C_JOINT:
        at = _write(at, b',"hash":"0x', 11)
        text_write_hex(<const uint8_t *>head + HASH, HASH_BYTES, <uint8_t *>at)
        at = _write(at + 2 * HASH_BYTES, b'"', 1)
    if form == C_JOINT or form == C_DEVELOPMENT:
        at = _write(at, b',"number":', 10)
        at = _write_decimal(at, number)
    at = _write(at, b"}", 1)
    return PyBytes_FromStringAndSize(start, at - start)


cdef Py_ssize_t _header_length(bytes record) except -1:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(record)
    cdef Py_ssize_t length
    if size < HEAD_BYTES:
        raise ValueError(f"a block record of {size} bytes")
    length = _number(PyBytes_AS_STRING(record) + HEADER_LENGTH)
    if length > size - HEAD_BYTES:
        raise ValueError(f"a block record of {size} bytes with a header of {length}")
    return length


cdef list _effects(uint32_t number, uint32_t count, get):
    cdef list effects = []
    cdef uint32_t index
    cdef bytes key
    cdef bytes effect
    cdef uint8_t *at
    for index in range(count):
        key = PyBytes_FromStringAndSize(NULL, EFFECT_KEY_BYTES)
        at = <uint8_t *>PyBytes_AS_STRING(key)
        at[0] = EFFECT_LETTER
        _put_number(at + 1, number)
        _put_number(at + 5, index)
        effect = get(key)
        if effect is None:
            raise LookupError(f"no effect {index} of block {number}")
        effects.append(effect)
    return effects


cdef inline uint32_t _number(const char *data) noexcept nogil:
    cdef const uint8_t *at = <const uint8_t *>data
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline void _put_number(uint8_t *target, uint32_t number) noexcept nogil:
    target[0] = <uint8_t>(number >> 24)
    target[1] = <uint8_t>(number >> 16)
    target[2] = <uint8_t>(number >> 8)
    target[3] = <uint8_t>number


cdef inline char *_write(char *target, const char *text, Py_ssize_t length) noexcept nogil:
    memcpy(target, text, length)
    return target + length


cdef inline char *_write_decimal(char *target, uint32_t number) noexcept nogil:
    cdef char[10] digits
    cdef int place = 10
    while True:
        place -= 1
        digits[place] = <char>(48 + number % 10)
        number = number // 10
        if number == 0:
            break
    memcpy(target, digits + place, 10 - place)
    return target + 10 - place
