# Blocks as JSON.  The stub (block_text.pyi) says what everything does.

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport strlen

from fastnode._ext.wire.encode cimport text_put, text_put_hex, text_put_literal, text_put_number
from fastnode._ext.numbers cimport read_number, write_number

cdef extern from *:
    # In C, so that their lengths are known when this is compiled.
    """
    #define ARCHIVE_FIRST "{\\"archive\\":"
    #define ARCHIVE_NEXT ",\\"archive\\":"
    #define HEADER_FIRST "{\\"header\\":"
    #define HEADER_NEXT ",\\"header\\":"
    #define EFFECTS_BEGIN ",\\"body\\":{\\"txEffects\\":["
    #define EFFECTS_END "]}"
    """
    const char *ARCHIVE_FIRST
    const char *ARCHIVE_NEXT
    const char *HEADER_FIRST
    const char *HEADER_NEXT
    const char *EFFECTS_BEGIN
    const char *EFFECTS_END

cdef enum:
    # A block record, as archiver/records.py draws it; the header and the archive follow.
    HASH = 0
    CHECKPOINT_NUMBER = 64
    INDEX_WITHIN_CHECKPOINT = 68
    TX_COUNT = 84
    HEADER_LENGTH = 88
    HEAD_BYTES = 92
    HASH_BYTES = 32
    # Keys: of a block's record a letter and a number, of a transaction's effect another one and two numbers.
    BLOCK_LETTER = 98
    BLOCK_KEY_BYTES = 5
    EFFECT_LETTER = 101
    EFFECT_KEY_BYTES = 9
    # Of what is kept, how many and how long at most: 1 MB.
    KEPT_MAX = 128
    KEPT_BYTES_MAX = 8192
    # What stands behind the stored parts, with room to spare.
    END_BYTES_MAX = 256

RELEASE = 0
JOINT = 1
DEVELOPMENT = 2
DATA = 3
HEADER = 4

cdef enum:
    C_RELEASE = 0
    C_JOINT = 1
    C_DEVELOPMENT = 2
    C_DATA = 3
    C_HEADER = 4

EMPTY_ARCHIVE = b'{"root":"0x' + b"0" * 64 + b'","nextAvailableLeafIndex":0}'
cdef bytes EMPTY_ARCHIVE_TEXT = EMPTY_ARCHIVE


# A text that lives as long as what it is a part of.
cdef struct Part:
    const uint8_t *start
    Py_ssize_t length


@cython.final
cdef class Blocks:
    def __init__(self, get, uint32_t tip):
        self.get = get
        self.tip = tip
        self.kept = {}

    cdef bytes read(self, bytes key):
        cdef object found = self.kept.get(key)
        if found is None:
            found = self.get(key)
            if found is not None and PyBytes_GET_SIZE(<bytes?>found) <= KEPT_BYTES_MAX:
                if len(self.kept) >= KEPT_MAX:
                    self.kept.clear()
                self.kept[key] = found
        return <bytes>found


cdef inline bytes _read(object source, bytes key):
    """Of blocks, or of a function."""
    return (<Blocks>source).read(key) if type(source) is Blocks else source(key)


@cython.final
cdef class BlockQuestion:
    def __init__(self, int form, otherwise):
        if form != C_HEADER and not C_RELEASE <= form <= C_DATA:
            raise ValueError(f"form {form} of a block")
        self.form = form
        self.otherwise = otherwise

    def __call__(self, view, block=None, options=None):
        cdef Blocks blocks
        cdef bytes record
        cdef long long number
        cdef int overflow = 0
        if type(block) is not int or options is not None:
            return self.otherwise(view, block) if options is None else self.otherwise(view, block, options)
        blocks = <Blocks?>view.chain.blocks
        number = PyLong_AsLongLongAndOverflow(block, &overflow)
        if overflow or not 0 <= number <= blocks.tip:
            return None
        if self.form != C_HEADER:
            return _block(self.form, <uint32_t>number, blocks)
        record = blocks.read(_block_key(<uint32_t>number))
        if record is None:
            raise LookupError(f"no block {number}")
        return _header_text(record)


def header(bytes record not None):
    return _header_text(record)


cdef inline bytes _header_text(bytes record):
    cdef Part json = _header(record)
    return PyBytes_FromStringAndSize(<const char *>json.start, json.length)


def block(int form, uint32_t number, get):
    return _block(form, number, get)


cdef bytes _block(int form, uint32_t number, object source):
    cdef bytes record = _read(source, _block_key(number))
    cdef const uint8_t *head
    cdef Part json
    cdef Part archive
    cdef uint8_t[END_BYTES_MAX] end
    cdef Py_ssize_t end_length
    if not C_RELEASE <= form <= C_DATA:
        raise ValueError(f"form {form} of a block")
    if record is None:
        raise LookupError(f"no block {number}")
    json = _header(record)
    archive.start = json.start + json.length
    archive.length = PyBytes_GET_SIZE(record) - HEAD_BYTES - json.length
    head = <const uint8_t *>PyBytes_AS_STRING(record)
    end_length = _end(end, form, number, head) - end
    if form == C_DEVELOPMENT or form == C_DATA:
        return _without_body(json, archive, end, end_length)
    if number == 0:
        archive.start = <const uint8_t *>PyBytes_AS_STRING(EMPTY_ARCHIVE_TEXT)
        archive.length = PyBytes_GET_SIZE(EMPTY_ARCHIVE_TEXT)
    return _with_body(json, archive, _effects(number, read_number(head + TX_COUNT, 4), source), end, end_length)


cdef bytes _with_body(Part json, Part archive, list effects, const uint8_t *end, Py_ssize_t end_length):
    cdef Py_ssize_t length = strlen(ARCHIVE_FIRST) + archive.length + strlen(HEADER_NEXT) + json.length
    cdef Py_ssize_t index
    cdef bytes effect
    cdef bytes text
    cdef uint8_t *at
    length += strlen(EFFECTS_BEGIN) + max(len(effects) - 1, 0) + strlen(EFFECTS_END) + end_length
    for effect in effects:
        length += PyBytes_GET_SIZE(effect)
    text = PyBytes_FromStringAndSize(NULL, length)
    at = text_put_literal(<uint8_t *>PyBytes_AS_STRING(text), ARCHIVE_FIRST)
    at = text_put(at, archive.start, archive.length)
    at = text_put_literal(at, HEADER_NEXT)
    at = text_put(at, json.start, json.length)
    at = text_put_literal(at, EFFECTS_BEGIN)
    for index in range(len(effects)):
        if index:
            at = text_put_literal(at, b",")
        effect = <bytes>effects[index]
        at = text_put(at, PyBytes_AS_STRING(effect), PyBytes_GET_SIZE(effect))
    at = text_put_literal(at, EFFECTS_END)
    text_put(at, end, end_length)
    return text


cdef bytes _without_body(Part json, Part archive, const uint8_t *end, Py_ssize_t end_length):
    cdef Py_ssize_t length = strlen(HEADER_FIRST) + json.length + strlen(ARCHIVE_NEXT) + archive.length + end_length
    cdef bytes text = PyBytes_FromStringAndSize(NULL, length)
    cdef uint8_t *at = text_put_literal(<uint8_t *>PyBytes_AS_STRING(text), HEADER_FIRST)
    at = text_put(at, json.start, json.length)
    at = text_put_literal(at, ARCHIVE_NEXT)
    at = text_put(at, archive.start, archive.length)
    text_put(at, end, end_length)
    return text


cdef uint8_t *_end(uint8_t *at, int form, uint32_t number, const uint8_t *head) noexcept:
    """What a block knows of itself and of its checkpoint, and the bracket."""
    if form == C_DEVELOPMENT:
        at = text_put_literal(at, b',"hash":"0x')
    elif form == C_DATA:
        at = text_put_literal(at, b',"blockHash":"0x')
    if form == C_DEVELOPMENT or form == C_DATA:
        at = text_put_hex(at, head + HASH, HASH_BYTES)
        at = text_put_literal(at, b'"')
    at = text_put_literal(at, b',"checkpointNumber":')
    at = text_put_number(at, read_number(head + CHECKPOINT_NUMBER, 4))
    at = text_put_literal(at, b',"indexWithinCheckpoint":')
    at = text_put_number(at, read_number(head + INDEX_WITHIN_CHECKPOINT, 4))
    if form == C_JOINT:
        at = text_put_literal(at, b',"hash":"0x')
        at = text_put_hex(at, head + HASH, HASH_BYTES)
        at = text_put_literal(at, b'"')
    if form == C_JOINT or form == C_DEVELOPMENT:
        at = text_put_literal(at, b',"number":')
        at = text_put_number(at, number)
    return text_put_literal(at, b"}")


cdef Part _header(bytes record) except *:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(record)
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(record)
    cdef Part json
    if size < HEAD_BYTES:
        raise ValueError(f"a block record of {size} bytes")
    json.start = start + HEAD_BYTES
    json.length = read_number(start + HEADER_LENGTH, 4)
    if json.length > size - HEAD_BYTES:
        raise ValueError(f"a block record of {size} bytes with a header of {json.length}")
    return json


cdef list _effects(uint32_t number, uint32_t count, object source):
    cdef list effects = []
    cdef uint32_t index
    cdef bytes effect
    for index in range(count):
        effect = _read(source, _effect_key(number, index))
        if effect is None:
            raise LookupError(f"no effect {index} of block {number}")
        effects.append(effect)
    return effects


cdef bytes _block_key(uint32_t number):
    cdef uint8_t[BLOCK_KEY_BYTES] key
    key[0] = BLOCK_LETTER
    write_number(key + 1, number, 4)
    return PyBytes_FromStringAndSize(<const char *>key, BLOCK_KEY_BYTES)


cdef bytes _effect_key(uint32_t number, uint32_t index):
    cdef uint8_t[EFFECT_KEY_BYTES] key
    key[0] = EFFECT_LETTER
    write_number(key + 1, number, 4)
    write_number(key + 5, index, 4)
    return PyBytes_FromStringAndSize(<const char *>key, EFFECT_KEY_BYTES)
