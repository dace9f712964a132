# Witnesses as JSON.  The stub (witness_text.pyi) says what everything does.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from fastnode._ext.wire.base64 cimport text_base64_length, text_write_base64
from fastnode._ext.wire.encode cimport text_put, text_put_hex, text_put_literal, text_put_number
from fastnode._ext.storage.layouts cimport (
    INDEX_BYTES, LEAF_CHANGED, LEAF_NEXT_INDEX, LEAF_NEXT_KEY, LEAF_VALUE, TAIL_BYTES, TAIL_INSERTED,
)
from fastnode._ext.trees.indexed_tree cimport IndexedNodes
from fastnode._ext.trees.tree_nodes cimport HASH_BYTES, LEVELS_PER_TILE
from fastnode._ext.numbers cimport read_number, write_number

cdef enum:
    # Text around the values of a witness, with room to spare.
    TEXT_BYTES_MAX = 512
    PATH_BYTES_MAX = 2048       # 64 nodes; written out, because a debug build cannot compute in an enum


def low_entry(iterators, make_iterator, bytes prefix not None, bytes key not None):
    cdef uint8_t[HASH_BYTES] found
    cdef bytes record
    _require_key(key)
    record = low_record(iterators, make_iterator, prefix, <const uint8_t *>PyBytes_AS_STRING(key), found)
    return None if record is None else (PyBytes_FromStringAndSize(<const char *>found, HASH_BYTES), record)


cdef bytes low_record(object iterators, object make_iterator, bytes prefix, const uint8_t *key, uint8_t *found):
    cdef Py_ssize_t prefix_length = PyBytes_GET_SIZE(prefix)
    cdef object iterator = iterators.pop() if iterators else make_iterator()
    cdef tuple entry = iterator.first(leaf_key(prefix, key))
    cdef bytes stored
    iterators.append(iterator)
    if entry is None:
        return None
    stored = entry[0]
    if PyBytes_GET_SIZE(stored) != prefix_length + HASH_BYTES or not _starts_with(stored, prefix):
        return None
    _invert(<const uint8_t *>PyBytes_AS_STRING(stored) + prefix_length, found)
    return entry[1]


def unchanged(
    IndexedNodes nodes not None, bytes key not None, bytes record not None, uint32_t block, uint64_t size,
    bytes tile_prefix not None, get,
):
    cdef Py_ssize_t value_bytes = value_bytes_of(record)
    cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(record)
    _require_key(key)
    return unchanged_witness(
        nodes, <const uint8_t *>PyBytes_AS_STRING(key), data, value_bytes, block, size,
        stored_at(tile_prefix, index_of(data, value_bytes) >> LEVELS_PER_TILE, get),
    )


cdef bytes stored_at(bytes prefix, uint64_t index, object get):
    cdef object stored = get(_indexed_key(prefix, index))
    return b"" if stored is None else stored


cdef bytes unchanged_witness(
    IndexedNodes nodes, const uint8_t *key, const uint8_t *data, Py_ssize_t value_bytes, uint32_t block, uint64_t size,
    bytes tile
):
    cdef uint8_t[4 + PATH_BYTES_MAX] counted
    cdef const uint8_t *tail = data + LEAF_VALUE + value_bytes
    cdef uint64_t index = index_of(data, value_bytes)
    if read_number(tail + TAIL_INSERTED, 4) > block or read_number(data + LEAF_CHANGED, 4) > block:
        return None
    if nodes.write_path(index, block, size, tile, counted + 4, None, True):
        return None
    return _indexed(key, data, value_bytes, index, counted, nodes.height)


cdef bytes _indexed(
    const uint8_t *key, const uint8_t *data, Py_ssize_t value_bytes, uint64_t index, uint8_t *counted, int height
):
    """The witness of a record; ``counted`` has room for a number in front of the path."""
    cdef Py_ssize_t path_bytes = 4 + height * HASH_BYTES
    cdef Py_ssize_t base64_bytes = text_base64_length(path_bytes)
    cdef uint8_t[TEXT_BYTES_MAX] values
    cdef uint8_t *at = text_put_literal(values, b'{"index":"')
    cdef bytes text
    cdef Py_ssize_t length
    at = text_put_number(at, index)
    if value_bytes == 0:
        at = text_put_literal(at, b'","leafPreimage":{"leaf":{"nullifier":"0x')
        at = text_put_hex(at, key, HASH_BYTES)
    else:
        at = text_put_literal(at, b'","leafPreimage":{"leaf":{"slot":"0x')
        at = text_put_hex(at, key, HASH_BYTES)
        at = text_put_literal(at, b'","value":"0x')
        at = text_put_hex(at, data + LEAF_VALUE, HASH_BYTES)
    at = text_put_literal(at, b'"},"nextKey":"0x')
    at = text_put_hex(at, data + LEAF_NEXT_KEY, HASH_BYTES)
    at = text_put_literal(at, b'","nextIndex":"')
    at = text_put_number(at, read_number(data + LEAF_NEXT_INDEX, INDEX_BYTES))
    at = text_put_literal(at, b'"},"siblingPath":"')
    counted[0] = counted[1] = counted[2] = 0
    counted[3] = <uint8_t>height
    length = at - values
    text = PyBytes_FromStringAndSize(NULL, length + base64_bytes + 2)
    at = text_put(<uint8_t *>PyBytes_AS_STRING(text), values, length)
    text_write_base64(counted, path_bytes, at)
    text_put_literal(at + base64_bytes, b'"}')
    return text


def membership(uint64_t index, bytes path not None):
    return membership_text(index, path)


def message(uint64_t index, bytes path not None):
    return message_text(index, path)


cdef bytes message_text(uint64_t index, bytes path):
    cdef uint8_t[4 + PATH_BYTES_MAX] counted
    cdef uint8_t[TEXT_BYTES_MAX] around
    cdef Py_ssize_t path_bytes = PyBytes_GET_SIZE(path)
    cdef Py_ssize_t length
    cdef Py_ssize_t base64_bytes
    cdef uint8_t *at
    cdef bytes text
    _require_path(path)
    write_number(counted, path_bytes // HASH_BYTES, 4)
    memcpy(counted + 4, PyBytes_AS_STRING(path), path_bytes)
    at = text_put_literal(text_put_number(text_put_literal(around, b'["'), index), b'","')
    length = at - around
    base64_bytes = text_base64_length(4 + path_bytes)
    text = PyBytes_FromStringAndSize(NULL, length + base64_bytes + 2)
    at = text_put(<uint8_t *>PyBytes_AS_STRING(text), around, length)
    text_write_base64(counted, 4 + path_bytes, at)
    text_put_literal(at + base64_bytes, b'"]')
    return text


cdef bytes membership_text(uint64_t index, bytes path):
    cdef uint8_t[HASH_BYTES + PATH_BYTES_MAX] indexed_path
    cdef Py_ssize_t path_bytes = PyBytes_GET_SIZE(path)
    cdef Py_ssize_t length
    cdef bytes text
    cdef uint8_t *out
    cdef int place
    _require_path(path)
    memset(indexed_path, 0, HASH_BYTES)
    write_number(indexed_path + HASH_BYTES - 8, index, 8)
    memcpy(indexed_path + HASH_BYTES, PyBytes_AS_STRING(path), path_bytes)
    length = text_base64_length(HASH_BYTES + path_bytes)
    text = PyBytes_FromStringAndSize(NULL, length + 2)
    out = <uint8_t *>PyBytes_AS_STRING(text)
    out[0] = out[length + 1] = c'"'
    text_write_base64(indexed_path, HASH_BYTES + path_bytes, out + 1)
    return text


cdef Py_ssize_t value_bytes_of(bytes record) except -1:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(record) - LEAF_VALUE - TAIL_BYTES
    if size != 0 and size != HASH_BYTES:
        raise ValueError(f"a leaf record of {PyBytes_GET_SIZE(record)} bytes")
    return size


cdef int _require_key(bytes key) except -1:
    if PyBytes_GET_SIZE(key) != HASH_BYTES:
        raise ValueError(f"a key of {PyBytes_GET_SIZE(key)} bytes")
    return 0


cdef inline void _invert(const uint8_t *source, uint8_t *target) noexcept:
    cdef Py_ssize_t place
    for place in range(HASH_BYTES):
        target[place] = ~source[place]


cdef bytes leaf_key(bytes prefix, const uint8_t *key):
    cdef Py_ssize_t prefix_length = PyBytes_GET_SIZE(prefix)
    cdef bytes joined = PyBytes_FromStringAndSize(NULL, prefix_length + HASH_BYTES)
    cdef uint8_t *target = <uint8_t *>PyBytes_AS_STRING(joined)
    memcpy(target, PyBytes_AS_STRING(prefix), prefix_length)
    _invert(key, target + prefix_length)
    return joined


cdef bint _starts_with(bytes text, bytes prefix) noexcept:
    return memcmp(PyBytes_AS_STRING(text), PyBytes_AS_STRING(prefix), PyBytes_GET_SIZE(prefix)) == 0


cdef bytes _indexed_key(bytes prefix, uint64_t index):
    cdef Py_ssize_t prefix_length = PyBytes_GET_SIZE(prefix)
    cdef bytes key = PyBytes_FromStringAndSize(NULL, prefix_length + INDEX_BYTES)
    cdef uint8_t *target = <uint8_t *>PyBytes_AS_STRING(key)
    cdef int place
    memcpy(target, PyBytes_AS_STRING(prefix), prefix_length)
    write_number(target + prefix_length, index, INDEX_BYTES)
    return key


cdef int _require_path(bytes path) except -1:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(path)
    if size % HASH_BYTES or size > PATH_BYTES_MAX:
        raise ValueError(f"a sibling path of {size} bytes")
    return 0
