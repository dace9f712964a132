from libc.stdint cimport uint8_t, uint64_t


cdef enum:
    HASH_BYTES = 32
    LEVELS_MAX = 64
    LEVELS_PER_TILE = 5
    LEAVES_PER_TILE = 32
    NODES_PER_TILE = 62     # 32 + 16 + 8 + 4 + 2
    BITMAP_BYTES = 8
    PAIR_BYTES = 64         # two hashes; written out, because a debug build cannot compute in an enum


cdef extern from *:
    """
    static inline int fastnode_count_bits(unsigned long long bits) { return __builtin_popcountll(bits); }
    """
    int count_bits "fastnode_count_bits"(uint64_t bits) nogil


# The nodes of one level from index 0 on.
cdef struct NodeRow:
    uint8_t *nodes          # owned
    uint64_t count
    uint64_t capacity


cdef bytes node_key(int level, uint64_t index)
cdef int split_key(bytes key, uint64_t *index) except -1


cdef inline int position_of(int level, uint64_t index) noexcept nogil:
    return 64 - (64 >> level) + <int>(index & ((LEAVES_PER_TILE >> level) - 1))


cdef const uint8_t *tile_nodes(bytes tile, Py_ssize_t node_bytes, uint64_t *bitmap) except NULL


cdef inline const uint8_t *node_in_tile(
    const uint8_t *nodes, Py_ssize_t node_bytes, uint64_t bitmap, int position
) noexcept nogil:
    """NULL for a zero node."""
    cdef uint64_t bit = <uint64_t>1 << position
    if not bitmap & bit:
        return NULL
    return nodes + node_bytes * count_bits(bitmap & (bit - 1))


cdef const uint8_t *checked_zeros(int height, bytes zeros, int first_level) except NULL
cdef const uint8_t *checked_separator(bytes separator) except? NULL
cdef int set_count(NodeRow *row, uint64_t count, const uint8_t *zero, size_t node_bytes) except -1
cdef int drop_rows(NodeRow *rows, int first, int end) noexcept
cdef uint64_t count_nodes(const NodeRow *rows) noexcept
