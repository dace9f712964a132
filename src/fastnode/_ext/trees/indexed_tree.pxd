from libc.stdint cimport uint8_t, uint32_t, uint64_t

from fastnode._ext.trees.append_tree cimport HASH_BYTES, LEVELS_MAX


cdef enum:
    STAMP_BYTES = 4
    STORED_BYTES = 36       # a hash and a stamp; written out, because a debug build cannot compute in an enum


# A node as it is stored: hash | block that set it, u32 BE.
cdef struct StoredNode:
    uint8_t[HASH_BYTES] hash
    uint8_t[STAMP_BYTES] changed


# The newest nodes of one level from index 0 on.
cdef struct StoredRow:
    StoredNode *nodes       # owned
    uint64_t count
    uint64_t capacity


# What some block replaced.  `previous` is what was replaced before it at the same place, `jump` a still older
# one: following jumps as in a skew-binary list finds the value at a block in about log2(changes) steps.
cdef struct PastNode:
    uint64_t key
    uint64_t previous       # sequence numbers; 0: none
    uint64_t jump
    uint32_t depth          # entries before this one at the same place
    uint32_t changed        # block that had set the value
    uint32_t superseded     # block that replaced it
    uint8_t[HASH_BYTES] hash


# One node that a block sets.
cdef struct NodeChange:
    uint64_t key
    bint replaces           # whether `before` goes into the history
    StoredNode before
    uint8_t[HASH_BYTES] after


# A tile while a block is worked in.
cdef struct OpenTile:
    uint64_t index
    uint64_t bitmap
    StoredNode[62] nodes    # by position


# Lives from an update until its owner has published it, or forgotten it.
cdef class NodeUpdate:
    cdef:
        readonly uint32_t block
        readonly bytes root
        readonly list tiles             # (tile index, tile)
        readonly list nodes             # (level || index, stored node)
        readonly list history           # (level || index, stored node)
        NodeChange *changes             # owned
        uint64_t change_count
        uint64_t change_capacity

    cdef NodeChange *add(self, int level, uint64_t index) except NULL


# The newest superseded nodes, oldest dropped first; sequence numbers count from 1.
cdef class PastNodes:
    cdef:
        PastNode *ring                  # entry of sequence number s at s & (capacity - 1); owned
        uint64_t capacity               # power of two
        uint64_t limit                  # power of two, or 0: nothing is kept
        uint64_t oldest                 # sequence numbers oldest <= s < next are there
        uint64_t next
        uint64_t *keys                  # open addressing: key of a node -> its newest entry; owned
        uint64_t *heads                 # owned
        uint64_t slots                  # power of two
        uint64_t used

    cdef uint64_t slot_of(self, uint64_t key) noexcept
    cdef int make_room(self) except -1
    cdef int rebuild_index(self) except -1
    cdef int push(self, uint64_t key, const StoredNode *node, uint32_t block) except -1
    cdef int pop(self, uint32_t block) except -1
    cdef const uint8_t *value_at(self, uint64_t key, uint32_t block) noexcept


# Everything but hashing happens under the GIL, so a reader in another thread sees an update whole or not at all.
cdef class IndexedNodes:
    cdef:
        readonly int height
        readonly int first_level
        bytes zeros
        const uint8_t *zero             # node of level l at zero + HASH_BYTES * l; inside `zeros`
        StoredRow[LEVELS_MAX] rows
        PastNodes past

    cdef int write_path(
        self, uint64_t index, uint32_t block, uint64_t size, bytes tile, uint8_t *target, list missing, bint use_memory
    ) except -1
    cdef int _set(self, int level, uint64_t index, const StoredNode *node) except -1
    cdef int _change(
        self, NodeUpdate update, int level, uint64_t index, const uint8_t *value, OpenTile *tile, object fetch,
        bint replaces,
    ) except -1
    cdef int _find(self, int level, uint64_t index, OpenTile *tile, object fetch, StoredNode *node) except -1
    cdef int _work_in(
        self, NodeUpdate update, uint64_t size_before, uint64_t size, uint64_t count, uint64_t *indexes,
        uint8_t *values, uint8_t *pairs, OpenTile *tiles, object fetch,
    ) except -1
