from libc.stdint cimport uint8_t, uint32_t, uint64_t

from fastnode._ext.numbers cimport read_number
from fastnode._ext.storage.layouts cimport INDEX_BYTES, LEAF_VALUE, TAIL_INDEX
from fastnode._ext.trees.indexed_tree cimport IndexedNodes


# As the functions for Python, with the key as its 32 bytes.
cdef bytes low_record(object iterators, object make_iterator, bytes prefix, const uint8_t *key, uint8_t *found)
# The witness of a leaf whose record is ``value_bytes`` longer than that of one without a value.  None as there.
cdef bytes unchanged_witness(
    IndexedNodes nodes, const uint8_t *key, const uint8_t *data, Py_ssize_t value_bytes, uint32_t block, uint64_t size,
    bytes tile
)
cdef inline uint64_t index_of(const uint8_t *data, Py_ssize_t value_bytes) noexcept:
    return read_number(data + LEAF_VALUE + value_bytes + TAIL_INDEX, INDEX_BYTES)
# The stored bytes of a tile or an edge; empty if there is none.
cdef bytes stored_at(bytes prefix, uint64_t index, object get)
# MembershipWitness, and that of a message with its index, of a path.
cdef bytes membership_text(uint64_t index, bytes path)
cdef bytes message_text(uint64_t index, bytes path)
# The key of a leaf: they are stored from the greatest to the smallest.
cdef bytes leaf_key(bytes prefix, const uint8_t *key)
# HASH_BYTES or 0; ValueError for what is no leaf record.
cdef Py_ssize_t value_bytes_of(bytes record) except -1
