"""Nodes of an append-only Merkle tree."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

from fastnode._ext.numbers cimport write_number
from fastnode._ext.hash.poseidon2 cimport hash_nodes_c
from fastnode._ext.trees.tree_nodes cimport (
    BITMAP_BYTES, HASH_BYTES, LEAVES_PER_TILE, LEVELS_MAX, LEVELS_PER_TILE, NODES_PER_TILE, PAIR_BYTES, checked_separator,
    checked_zeros, count_bits, count_nodes, drop_rows, node_in_tile, node_key, position_of, set_count, split_key, tile_nodes,
)


__all__ = ["NODE_BYTES", "AppendNodes", "Growth"]

NODE_BYTES = HASH_BYTES


cdef extern from *:
    """
    static inline int fastnode_trailing_zeros(unsigned long long bits) { return __builtin_ctzll(bits); }
    static inline int fastnode_bit_length(unsigned long long bits) { return bits ? 64 - __builtin_clzll(bits) : 0; }
    """
    int fastnode_trailing_zeros(uint64_t bits) nogil
    int fastnode_bit_length(uint64_t bits) nogil


# ---- growth ---------------------------------------------------------------------------------------

@cython.final
cdef class Growth:
    def __cinit__(self):
        self.rows = NULL
        self.tiles = []
        self.nodes = []

    def __init__(self):
        raise TypeError("a Growth is made by AppendNodes.append")

    def __dealloc__(self):
        free(self.rows)


# Scratch memory and result of one append; no Python objects, so that it runs without the GIL.
cdef struct Appending:
    const uint8_t *separator    # NULL: none
    const uint8_t *zero
    const uint8_t *frontier
    int height
    uint64_t size
    uint8_t *rows
    uint64_t *starts
    uint64_t *counts
    uint8_t *pairs              # inputs of one level, and then its hashes
    uint64_t *targets           # which parent each hash is
    uint8_t[HASH_BYTES] partial
    bint has_partial
    uint8_t *edge
    int edge_nodes
    int edge_first
    int edge_last               # levels edge_first <= level < edge_last go into the edge


cdef inline bint is_zero_pair(const uint8_t *pair, const uint8_t *zero) noexcept nogil:
    return memcmp(pair, zero, HASH_BYTES) == 0 and memcmp(pair + HASH_BYTES, zero, HASH_BYTES) == 0


cdef int grow_level(Appending *a, int level) noexcept nogil:
    """Hash the parents of one level's new nodes, and the partial node beside them, as one run.  -1: no field."""
    cdef uint64_t first = a.size >> level
    cdef uint8_t *row = a.rows + HASH_BYTES * a.starts[level]
    cdef uint64_t count = a.counts[level]
    cdef const uint8_t *zero = a.zero + HASH_BYTES * level
    cdef uint8_t *parents = row + HASH_BYTES * count
    cdef uint64_t taken = 0, parent = 0, hashes = 0
    cdef uint64_t parent_count = ((first & 1) + count) // 2
    cdef uint8_t *pair = a.pairs
    cdef bint partial_above = False
    cdef const uint8_t *left = a.frontier + HASH_BYTES * level
    cdef const uint8_t *right = zero
    a.starts[level + 1] = a.starts[level] + count
    a.counts[level + 1] = parent_count

    for parent in range(parent_count):
        if parent == 0 and first & 1:
            memcpy(pair, left, HASH_BYTES)
            memcpy(pair + HASH_BYTES, row, HASH_BYTES)
            taken = 1
        else:
            memcpy(pair, row + HASH_BYTES * taken, PAIR_BYTES)
            taken += 2
        if is_zero_pair(pair, zero):
            memcpy(parents + HASH_BYTES * parent, zero + HASH_BYTES, HASH_BYTES)
        else:
            a.targets[hashes] = parent
            hashes += 1
            pair += PAIR_BYTES

    # A last node without a right neighbour, or a partial node from below, has a partial parent.
    if ((first & 1) + count) & 1:
        if count:
            left = row + HASH_BYTES * (count - 1)
        if a.has_partial:
            right = a.partial
        partial_above = True
    elif a.has_partial:
        left = a.partial
        partial_above = True
    if partial_above:
        memcpy(pair, left, HASH_BYTES)
        memcpy(pair + HASH_BYTES, right, HASH_BYTES)
    cdef bint partial_is_zero = partial_above and is_zero_pair(pair, zero)

    cdef uint64_t run = hashes + (partial_above and not partial_is_zero)
    if run and hash_nodes_c(a.separator, a.pairs, run, a.pairs):
        return -1
    for parent in range(hashes):
        memcpy(parents + HASH_BYTES * a.targets[parent], a.pairs + HASH_BYTES * parent, HASH_BYTES)
    if partial_is_zero:
        memcpy(a.partial, zero + HASH_BYTES, HASH_BYTES)
    elif partial_above:
        memcpy(a.partial, a.pairs + HASH_BYTES * hashes, HASH_BYTES)
    a.has_partial = partial_above
    return 0


cdef int grow(Appending *a) noexcept nogil:
    cdef int level
    for level in range(a.height + 1):
        if a.has_partial and a.edge_first <= level < a.edge_last:
            memcpy(a.edge + HASH_BYTES * a.edge_nodes, a.partial, HASH_BYTES)
            a.edge_nodes += 1
        if level < a.height and grow_level(a, level):
            return -1
    return 0


# ---- nodes in memory ------------------------------------------------------------------------------

@cython.final
cdef class AppendNodes:
    def __cinit__(
        self, int height, bytes zeros not None, *, int first_level=LEVELS_PER_TILE, bytes separator not None=b""
    ):
        memset(self.levels, 0, sizeof(self.levels))
        if not 0 < height < LEVELS_MAX:
            raise ValueError(f"a tree of height {height}")
        self.zero = checked_zeros(height, zeros, first_level)
        self.zeros = zeros
        self.separator = separator
        self.before_pair = checked_separator(separator)
        self.height = height
        self.first_level = first_level

    def __dealloc__(self):
        drop_rows(self.levels, 0, LEVELS_MAX)

    def append(self, uint64_t size, bytes frontier not None, bytes tile not None, bytes leaves not None):
        cdef uint64_t count = PyBytes_GET_SIZE(leaves) // HASH_BYTES
        if PyBytes_GET_SIZE(leaves) % HASH_BYTES or PyBytes_GET_SIZE(frontier) != HASH_BYTES * self.height:
            raise ValueError("leaves and frontier must be whole nodes of 32 bytes")
        cdef uint64_t size_after = size + count
        if size_after > <uint64_t>1 << self.height:
            raise ValueError(f"a tree of height {self.height} has no room for {size_after} leaves")
        cdef Growth growth = Growth.__new__(Growth)
        growth.size_before = size
        growth.size = size_after
        growth.height = self.height
        self._grow(growth, frontier, leaves, count)
        self._collect_tiles(growth, tile)
        self._collect_nodes(growth)
        return growth

    cdef int _grow(self, Growth growth, bytes frontier, bytes leaves, uint64_t count) except -1:
        cdef Appending a
        cdef uint8_t[HASH_BYTES * LEVELS_MAX] edge
        a.separator, a.zero = self.before_pair, self.zero
        a.frontier = <const uint8_t *>PyBytes_AS_STRING(frontier)
        a.height = self.height
        a.size = growth.size_before
        a.starts, a.counts = growth.starts, growth.counts
        a.has_partial = False
        a.edge, a.edge_nodes = edge, 0
        a.edge_first, a.edge_last = edge_levels_of(growth.size)
        # A level has at most half of the nodes below it, rounded up because of its left neighbour.
        growth.rows = <uint8_t *>malloc(HASH_BYTES * (2 * count + LEVELS_MAX + 2))
        a.rows = growth.rows
        a.pairs = <uint8_t *>malloc(PAIR_BYTES * (count // 2 + 3))
        a.targets = <uint64_t *>malloc(sizeof(uint64_t) * (count // 2 + 3))
        cdef int failed = 0
        try:
            if a.rows is NULL or a.pairs is NULL or a.targets is NULL:
                raise MemoryError
            memcpy(a.rows, PyBytes_AS_STRING(leaves), HASH_BYTES * count)
            a.starts[0], a.counts[0] = 0, count
            with nogil:
                failed = grow(&a)
            if failed:
                raise ValueError("a leaf is not below the field modulus")
        finally:
            free(a.pairs)
            free(a.targets)
        cdef const uint8_t *root = self.zero + HASH_BYTES * self.height
        if a.has_partial:
            root = a.partial
        if growth.counts[self.height]:
            root = growth.rows + HASH_BYTES * growth.starts[self.height]
        growth.root = PyBytes_FromStringAndSize(<const char *>root, HASH_BYTES)
        growth.edge = PyBytes_FromStringAndSize(<const char *>edge, HASH_BYTES * a.edge_nodes)
        return 0

    cdef const uint8_t *_new_node(self, Growth growth, int level, uint64_t index) noexcept:
        """A node of the growth, or NULL if it is older or not complete, or a zero node."""
        cdef uint64_t first = growth.size_before >> level
        if index < first or index - first >= growth.counts[level]:
            return NULL
        cdef const uint8_t *node = growth.rows + HASH_BYTES * (growth.starts[level] + index - first)
        if memcmp(node, self.zero + HASH_BYTES * level, HASH_BYTES) == 0:
            return NULL
        return node

    cdef int _collect_tiles(self, Growth growth, bytes old_tile) except -1:
        cdef uint64_t tile, first_tile = growth.size_before >> LEVELS_PER_TILE
        cdef uint64_t tiles_end = (growth.size + LEAVES_PER_TILE - 1) >> LEVELS_PER_TILE
        cdef uint64_t old_bitmap, bitmap
        cdef const uint8_t *old_nodes = tile_nodes(old_tile, HASH_BYTES, &old_bitmap)
        cdef const uint8_t *node
        cdef uint8_t[BITMAP_BYTES + HASH_BYTES * NODES_PER_TILE] packed
        cdef uint8_t *end
        cdef Py_ssize_t length
        cdef int level, position
        cdef uint64_t index, width
        if growth.size == growth.size_before:
            return 0
        for tile in range(first_tile, tiles_end):
            bitmap = 0
            end = packed + BITMAP_BYTES
            for level in range(LEVELS_PER_TILE):
                width = LEAVES_PER_TILE >> level
                for index in range(tile * width, (tile + 1) * width):
                    position = position_of(level, index)
                    node = self._new_node(growth, level, index)
                    # A tile that an undo left behind may hold nodes that are not complete any more.
                    if tile == first_tile and index < growth.size_before >> level:
                        node = node_in_tile(old_nodes, HASH_BYTES, old_bitmap, position)
                    if node is not NULL:
                        memcpy(end, node, HASH_BYTES)
                        end += HASH_BYTES
                        bitmap |= <uint64_t>1 << position
            # A tile without nodes is not stored, except over one that has some.
            if bitmap == 0 and not (old_tile and tile == first_tile):
                continue
            write_number(packed, bitmap, BITMAP_BYTES)
            length = BITMAP_BYTES + HASH_BYTES * count_bits(bitmap)
            growth.tiles.append((tile, PyBytes_FromStringAndSize(<const char *>packed, length)))
        return 0

    cdef int _collect_nodes(self, Growth growth) except -1:
        cdef int level
        cdef uint64_t first, index
        cdef const uint8_t *node
        for level in range(LEVELS_PER_TILE, self.height + 1):
            first = growth.size_before >> level
            for index in range(first, first + growth.counts[level]):
                node = self._new_node(growth, level, index)
                if node is not NULL:
                    value = PyBytes_FromStringAndSize(<const char *>node, HASH_BYTES)
                    growth.nodes.append((node_key(level, index), value))
        return 0

    def publish(self, Growth growth not None):
        cdef int level
        cdef uint64_t first, count
        if growth.height != self.height or growth.rows is NULL:
            raise ValueError("this growth is not of this tree")
        for level in range(self.first_level, self.height + 1):
            first, count = growth.size_before >> level, growth.counts[level]
            self._set_count(level, first + count)
            if count:
                memcpy(
                    self.levels[level].nodes + HASH_BYTES * first,
                    growth.rows + HASH_BYTES * growth.starts[level],
                    HASH_BYTES * count,
                )

    cdef int _set_count(self, int level, uint64_t count) except -1:
        return set_count(&self.levels[level], count, self.zero + HASH_BYTES * level, HASH_BYTES)

    def resize(self, uint64_t size):
        cdef int level
        for level in range(self.first_level, self.height + 1):
            self._set_count(level, size >> level)

    def load(self, entries):
        cdef uint64_t index
        cdef int level
        for key, node in entries:
            level = split_key(key, &index)
            if level < self.first_level:
                continue
            if PyBytes_GET_SIZE(node) != HASH_BYTES or index >= self.levels[level].count:
                raise ValueError(f"no room for node {index} of level {level}")
            memcpy(self.levels[level].nodes + HASH_BYTES * index, PyBytes_AS_STRING(node), HASH_BYTES)

    def load_next_level(self, uint64_t size, entries):
        cdef int level = self.first_level - 1
        cdef uint64_t index
        if level < LEVELS_PER_TILE:
            raise ValueError("the levels below are in tiles")
        self.levels[level].count = 0
        self._set_count(level, size >> level)
        for key, node in entries:
            if split_key(key, &index) != level or PyBytes_GET_SIZE(node) != HASH_BYTES:
                raise ValueError(f"no node of level {level}")
            if index >= self.levels[level].count:
                raise ValueError(f"no room for node {index} of level {level}")
            memcpy(self.levels[level].nodes + HASH_BYTES * index, PyBytes_AS_STRING(node), HASH_BYTES)
        self.first_level = level

    def raise_first_level(self, int level):
        drop_rows(self.levels, self.first_level, min(level, LEVELS_MAX))
        self.first_level = max(self.first_level, level)

    def memory_bytes(self):
        return HASH_BYTES * count_nodes(self.levels)

    def node(self, int level, uint64_t index):
        if not self.first_level <= level < LEVELS_MAX or index >= self.levels[level].count:
            return None
        return PyBytes_FromStringAndSize(<const char *>self.levels[level].nodes + HASH_BYTES * index, HASH_BYTES)

    def path(
        self,
        uint64_t index,
        uint64_t size,
        bytes tile not None,
        bytes edge not None,
        list missing not None,
        *,
        bint use_memory=True,
    ):
        if index >= size or size > <uint64_t>1 << self.height:
            raise ValueError(f"leaf {index} is not in a tree of {size} leaves")
        cdef uint64_t bitmap
        cdef const uint8_t *nodes = tile_nodes(tile, HASH_BYTES, &bitmap)
        cdef int edge_first, edge_last
        edge_first, edge_last = edge_levels_of(size)
        if PyBytes_GET_SIZE(edge) != HASH_BYTES * (edge_last - edge_first):
            raise ValueError(f"an edge of {PyBytes_GET_SIZE(edge)} bytes for {size} leaves")
        cdef const uint8_t *partials = <const uint8_t *>PyBytes_AS_STRING(edge)
        cdef bytes path = PyBytes_FromStringAndSize(NULL, HASH_BYTES * self.height)
        cdef uint8_t *target = <uint8_t *>PyBytes_AS_STRING(path)
        cdef const uint8_t *node
        cdef uint64_t sibling
        cdef int level
        for level in range(self.height):
            sibling = (index >> level) ^ 1
            node = NULL
            if sibling << level >= size:
                node = self.zero + HASH_BYTES * level
            elif (sibling + 1) << level > size:
                node = partials + HASH_BYTES * (level - edge_first)
            elif level < LEVELS_PER_TILE:
                node = node_in_tile(nodes, HASH_BYTES, bitmap, position_of(level, sibling))
                if node is NULL:
                    node = self.zero + HASH_BYTES * level
            elif use_memory and level >= self.first_level and sibling < self.levels[level].count:
                node = self.levels[level].nodes + HASH_BYTES * sibling
            if node is NULL:
                missing.append(level)
                memset(target, 0, HASH_BYTES)
            else:
                memcpy(target, node, HASH_BYTES)
            target += HASH_BYTES
        return path


cdef inline (int, int) edge_levels_of(uint64_t size) noexcept nogil:
    """First and last + 1 of the levels whose partial node the edge of a tree of ``size`` leaves holds."""
    if size == 0:
        return 0, 0
    cdef int first = fastnode_trailing_zeros(size) + 1
    return first, max(first, fastnode_bit_length(size))
