# Blocks as JSON.  The stub (block_text.pyi) says what everything does.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t

from fastnode._ext.encode cimport text_put, text_put_hex, text_put_number
from fastnode._ext.numbers cimport read_number, write_number

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
    cdef const uint8_t *head = <const uint8_t *>PyBytes_AS_STRING(record)
    cdef const uint8_t *header = head + HEAD_BYTES
    cdef Py_ssize_t header_length = _header_length(record)
    cdef const uint8_t *archive = header + header_length
    cdef Py_ssize_t archive_length = PyBytes_GET_SIZE(record) - HEAD_BYTES - header_length
    cdef Py_ssize_t length = TEXT_BYTES_MAX + header_length + archive_length + EMPTY_ARCHIVE_BYTES
    cdef list effects = None
    cdef bytes effect
    cdef bytes text
    cdef uint8_t *start
    cdef uint8_t *at
    if not C_RELEASE <= form <= C_DATA:
        raise ValueError(f"form {form} of a block")
    if form == C_RELEASE or form == C_JOINT:
        effects = _effects(number, read_number(head + TX_COUNT, 4), get)
        for effect in effects:
            length += PyBytes_GET_SIZE(effect) + 1
    text = PyBytes_FromStringAndSize(NULL, length)
    start = <uint8_t *>PyBytes_AS_STRING(text)
    if effects is None:
        at = text_put(start, b'{"header":', 10)
        at = text_put(at, header, header_length)
        at = text_put(at, b',"archive":', 11)
        at = text_put(at, archive, archive_length)
        at = text_put(at, b',"blockHash":"0x', 16) if form == C_DATA else text_put(at, b',"hash":"0x', 11)
        at = text_put_hex(at, head + HASH, HASH_BYTES)
        at = text_put(at, b'"', 1)
    else:
        at = text_put(start, b'{"archive":', 11)
        if number:
            at = text_put(at, archive, archive_length)
        else:
            at = text_put(at, PyBytes_AS_STRING(EMPTY_ARCHIVE_TEXT), PyBytes_GET_SIZE(EMPTY_ARCHIVE_TEXT))
        at = text_put(at, b',"header":', 10)
        at = text_put(at, header, header_length)
        at = text_put(at, b',"body":{"txEffects":[', 22)
        for effect in effects:
            at = text_put(at, PyBytes_AS_STRING(effect), PyBytes_GET_SIZE(effect))
            at = text_put(at, b",", 1)
        if effects:
            at -= 1
        at = text_put(at, b"]}", 2)
    at = text_put(at, b',"checkpointNumber":', 20)
    at = text_put_number(at, read_number(head + CHECKPOINT_NUMBER, 4))
    at = text_put(at, b',"indexWithinCheckpoint":', 25)
    at = text_put_number(at, read_number(head + INDEX_WITHIN_CHECKPOINT, 4))
    if form == C_JOINT:
        at = text_put(at, b',"hash":"0x', 11)
        at = text_put_hex(at, head + HASH, HASH_BYTES)
        at = text_put(at, b'"', 1)
    if form == C_JOINT or form == C_DEVELOPMENT:
        at = text_put(at, b',"number":', 10)
        at = text_put_number(at, number)
    at = text_put(at, b"}", 1)
    return PyBytes_FromStringAndSize(<const char *>start, at - start)


cdef Py_ssize_t _header_length(bytes record) except -1:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(record)
    cdef Py_ssize_t length
    if size < HEAD_BYTES:
        raise ValueError(f"a block record of {size} bytes")
    length = read_number(<const uint8_t *>PyBytes_AS_STRING(record) + HEADER_LENGTH, 4)
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
        write_number(at + 1, number, 4)
        write_number(at + 5, index, 4)
        effect = get(key)
        if effect is None:
            raise LookupError(f"no effect {index} of block {number}")
        effects.append(effect)
    return effects
