from libc.stdint cimport uint8_t, uint32_t, uint64_t

from fastnode._ext.trees.tree_nodes cimport HASH_BYTES, LEVELS_MAX, NODES_PER_TILE, NodeRow


cdef enum:
    STAMP_BYTES = 4
    STORED_BYTES = 36       # a hash and a stamp; written out, because a debug build cannot compute in an enum


cdef extern from "past_nodes.h":
    ctypedef struct StoredNode "stored_node":
        uint8_t[HASH_BYTES] hash
        uint8_t[STAMP_BYTES] changed

    ctypedef struct PastNodes "past_nodes":
        uint64_t oldest
        uint64_t next

    void past_nodes_init(PastNodes *past, uint64_t entries_max)
    void past_nodes_free(PastNodes *past)
    int past_nodes_push(PastNodes *past, uint64_t key, const StoredNode *node, uint32_t block)
    void past_nodes_pop(PastNodes *past, uint32_t block)
    const uint8_t *past_nodes_value_at(const PastNodes *past, uint64_t key, uint32_t block)


# Levels whose history is kept for good: 0, 2, 5, 8, 11 and so on, as world_state/layout.py says.
cdef inline int kept_level(int level) noexcept nogil:
    """The nearest such level, down from ``level``."""
    return level - (level + 1) % 3 if level > 1 else 0


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
    StoredNode[NODES_PER_TILE] nodes    # by position


# Lives from an update until its owner has published it, or forgotten it.
cdef class NodeUpdate:
    cdef:
        readonly uint32_t block
        readonly bytes root
        readonly list tiles             # (tile index, tile)
        NodeChange *changes             # owned
        uint64_t change_count
        uint64_t change_capacity

    cdef list replaced(self, bint thin)
    cdef NodeChange *add(self, int level, uint64_t index) except NULL


# Everything but hashing happens under the GIL, which a large update leaves now and then.  A reader in another thread
# may see a part of one: of nodes that changed after its block it takes nothing but what covers that block.
cdef class IndexedNodes:
    cdef:
        readonly int height
        readonly int first_level
        bytes separator
        const uint8_t *before_pair      # inside `separator`; NULL when that is empty
        bytes zeros
        const uint8_t *zero             # node of level l at zero + HASH_BYTES * l; inside `zeros`
        NodeRow[LEVELS_MAX] rows        # of StoredNode
        PastNodes past

    cdef int write_path(
        self, uint64_t index, uint32_t block, uint64_t size, bytes tile, uint8_t *target, list missing, bint use_memory
    ) except -1
    cdef int _set(self, int level, uint64_t index, const StoredNode *node) except -1
    cdef StoredNode *_newest(self, int level, uint64_t index) noexcept
    cdef int _change(
        self, NodeUpdate update, int level, uint64_t index, const uint8_t *value, OpenTile *tile, object fetch,
        bint replaces,
    ) except -1
    cdef int _find(self, int level, uint64_t index, OpenTile *tile, object fetch, StoredNode *node) except -1
    cdef int _work_in(
        self, NodeUpdate update, uint64_t size_before, uint64_t size, uint64_t count, uint64_t *indexes,
        uint8_t *values, uint8_t *pairs, OpenTile *tiles, object fetch, bint history,
    ) except -1
