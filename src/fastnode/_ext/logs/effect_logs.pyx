"""Logs of transactions, read from the JSON of their effects."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from fastnode._ext.numbers cimport read_number, write_number
from fastnode._ext.storage.layouts cimport EFFECT_KEY_BYTES, EFFECT_LETTER, HASH_BYTES, NUMBER_BYTES
from fastnode._ext.wire.encode cimport text_put_hex

from fastnode.errors import DatabaseError


cdef enum:
    LOGS_MAX = 10
    # An entry: where the log is, and when its block was.
    ENTRY_TX = 4
    ENTRY_LOG = 6
    ENTRY_TIMESTAMP = 8
    ENTRY_SIZE = 16

PAGE_LOGS = LOGS_MAX
ENTRY_BYTES = ENTRY_SIZE


@cython.final
cdef class LoggedEffect:
    def __init__(self, bytes text not None):
        self.text = text
        _read(text, &self.places)
        log_begin(&self.cursor, &self.places, LOG_PRIVATE)

    def places_of(self, bytes tag_key not None):
        cdef Py_ssize_t length = PyBytes_GET_SIZE(tag_key)
        cdef int kind = LOG_PRIVATE if length == HASH_BYTES else LOG_PUBLIC
        cdef uint8_t wanted[4 * HASH_BYTES]
        cdef effect_log log
        cdef list found = []
        cdef size_t index = 0
        if length != HASH_BYTES and length != 2 * HASH_BYTES:
            raise ValueError(f"a tag key of {length} bytes")
        text_put_hex(wanted, <const uint8_t *>PyBytes_AS_STRING(tag_key), length)
        while log_find(&self.cursor, &self.places, kind, index, &log):
            if (kind == LOG_PRIVATE or _is(log.contract, wanted)) and log.all and _is(
                log.fields, wanted + 2 * (length - HASH_BYTES)
            ):
                found.append(index)
            index += 1
        return found

    def fields(self, bint is_public, size_t index):
        cdef effect_log log
        cdef bytes found
        self._find(LOG_PUBLIC if is_public else LOG_PRIVATE, index, &log)
        found = PyBytes_FromStringAndSize(NULL, log_fields_length(&log))
        log_put_fields(<uint8_t *>PyBytes_AS_STRING(found), &log)
        return found

    def public_log(self, size_t index, bytes block_hash not None, uint64_t block, uint64_t tx_index):
        cdef effect_log log
        cdef bytes found
        if PyBytes_GET_SIZE(block_hash) != HASH_BYTES:
            raise ValueError(f"a block hash of {PyBytes_GET_SIZE(block_hash)} bytes")
        self._find(LOG_PUBLIC, index, &log)
        found = PyBytes_FromStringAndSize(NULL, log_public_length(&log, block, tx_index, index))
        log_put_public(
            <uint8_t *>PyBytes_AS_STRING(found), &self.places, &log, <const uint8_t *>PyBytes_AS_STRING(block_hash),
            block, tx_index, index,
        )
        return found

    cdef int _find(self, int kind, size_t index, effect_log *log) except -1:
        if not log_find(&self.cursor, &self.places, kind, index, log):
            raise DatabaseError(f"an effect lacks the log {index}; run `fastnode db check`")
        return 0


cdef int _read(bytes text, effect_text *places) except -1:
    if not effect_read(<const uint8_t *>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text), places):
        raise DatabaseError(f"an effect of {PyBytes_GET_SIZE(text)} bytes is none; run `fastnode db check`")
    return 0


cdef bint _is(const uint8_t *quoted, const uint8_t *digits) noexcept:
    return memcmp(quoted + len(b'"0x'), digits, 2 * HASH_BYTES) == 0


def page_json(get, bint is_public, bytes entries not None):
    return page_text(get, is_public, <const uint8_t *>PyBytes_AS_STRING(entries), PyBytes_GET_SIZE(entries))


cdef bytes page_text(object get, bint is_public, const uint8_t *entries, Py_ssize_t size):
    cdef int kind = LOG_PUBLIC if is_public else LOG_PRIVATE
    cdef Py_ssize_t count = size // ENTRY_SIZE
    cdef effect_text effects[LOGS_MAX]
    cdef effect_log logs[LOGS_MAX]
    cdef log_cursor cursor
    cdef list texts = []  # the places above are in them
    cdef Py_ssize_t length = 1 + count
    cdef Py_ssize_t index
    cdef const uint8_t *entry = entries
    cdef uint8_t *out
    cdef bytes text
    cdef bytes page
    if size % ENTRY_SIZE or not 1 <= count <= LOGS_MAX:
        raise ValueError(f"a page of {size} bytes")
    for index in range(count):
        if index and memcmp(entry, entry - ENTRY_SIZE, ENTRY_LOG) == 0:
            effects[index] = effects[index - 1]
        else:
            text = _effect_at(get, entry)
            texts.append(text)
            _read(text, &effects[index])
            log_begin(&cursor, &effects[index], kind)
        if not log_find(&cursor, &effects[index], kind, read_number(entry + ENTRY_LOG, 2), &logs[index]):
            raise _missing(entry, f"the log {read_number(entry + ENTRY_LOG, 2)}")
        length += log_scoped_length(
            &effects[index], &logs[index], read_number(entry, NUMBER_BYTES), read_number(entry + ENTRY_TIMESTAMP, 8)
        )
        entry += ENTRY_SIZE
    page = PyBytes_FromStringAndSize(NULL, length)
    out = <uint8_t *>PyBytes_AS_STRING(page)
    entry = entries
    for index in range(count):
        out[0] = b"," if index else b"["
        out = log_put_scoped(
            out + 1, &effects[index], &logs[index], read_number(entry, NUMBER_BYTES),
            read_number(entry + ENTRY_TIMESTAMP, 8),
        )
        entry += ENTRY_SIZE
    out[0] = b"]"
    return page


cdef bytes _effect_at(object get, const uint8_t *entry):
    cdef bytes key = PyBytes_FromStringAndSize(NULL, EFFECT_KEY_BYTES)
    cdef uint8_t *target = <uint8_t *>PyBytes_AS_STRING(key)
    target[0] = EFFECT_LETTER
    memcpy(target + 1, entry, NUMBER_BYTES)
    write_number(target + 1 + NUMBER_BYTES, read_number(entry + ENTRY_TX, 2), NUMBER_BYTES)
    effect = get(key)
    if effect is None:
        raise _missing(entry, "its effect")
    return <bytes?>effect


cdef object _missing(const uint8_t *entry, str what):
    block, tx = read_number(entry, NUMBER_BYTES), read_number(entry + ENTRY_TX, 2)
    return DatabaseError(f"transaction {tx} of block {block} lacks {what}; run `fastnode db check`")
