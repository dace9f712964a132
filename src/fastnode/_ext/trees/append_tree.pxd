from libc.stdint cimport uint8_t, uint64_t

from fastnode._ext.trees.tree_nodes cimport LEVELS_MAX, NodeRow


# Lives from an append until its owner has published it, or forgotten it.
cdef class Growth:
    cdef:
        readonly uint64_t size_before
        readonly uint64_t size
        readonly bytes root
        readonly bytes edge
        readonly list tiles             # (tile index, tile)
        readonly list nodes             # (level || index, node)
        int height
        uint8_t *rows                   # new complete nodes of all levels, one level after the other; owned
        uint64_t[LEVELS_MAX] starts     # where a level's row starts, in nodes
        uint64_t[LEVELS_MAX] counts     # nodes in it


# Everything but hashing happens under the GIL, so a reader in another thread sees a growth whole or not at all.
cdef class AppendNodes:
    cdef:
        readonly int height
        readonly int first_level
        bytes separator
        const uint8_t *before_pair      # inside `separator`; NULL when that is empty
        bytes zeros
        const uint8_t *zero             # node of level l at zero + HASH_BYTES * l; inside `zeros`
        NodeRow[LEVELS_MAX] levels

    cdef int _grow(self, Growth growth, bytes frontier, bytes leaves, uint64_t count) except -1
    cdef const uint8_t *_new_node(self, Growth growth, int level, uint64_t index) noexcept
    cdef int _collect_tiles(self, Growth growth, bytes old_tile) except -1
    cdef int _collect_nodes(self, Growth growth) except -1
    cdef int _set_count(self, int level, uint64_t count) except -1
