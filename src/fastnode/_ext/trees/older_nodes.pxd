from libc.stdint cimport uint8_t, uint32_t, uint64_t

from fastnode._ext.trees.indexed_tree cimport IndexedNodes, StoredNode


# One question to a snapshot of the database.
cdef struct Question:
    uint32_t block
    uint64_t size
    bint thin


cdef class OlderNodes:
    cdef:
        IndexedNodes nodes
        bytes node_prefix
        bytes history_prefix
        bytes tile_prefix


# The reads of one question; the tile that was read last is kept.
cdef class SnapshotReads:
    cdef:
        OlderNodes owner
        object get
        object first            # of an iterator
        bytes tile
        uint64_t tile_index
        bint has_tile

    cdef int read(self, const Question *asked, int level, uint64_t index, StoredNode *node) except -1
    cdef bint is_settled(self, const Question *asked, int level, uint64_t index, StoredNode *node) except -1
    cdef int replaced(self, const Question *asked, int level, uint64_t index, StoredNode *node) except -1
    cdef bint newest(self, const Question *asked, int level, uint64_t index, StoredNode *node) except -1
    cdef int zero(self, int level, StoredNode *node) except -1
    cdef bytes tile_of(self, int level, uint64_t index)
