"""Versioned nodes of an indexed Merkle tree."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from fastnode._ext.numbers cimport read_number, write_number
from fastnode._ext.hash.poseidon2 cimport hash_nodes_c
from fastnode._ext.trees.tree_nodes cimport (
    BITMAP_BYTES, HASH_BYTES, LEVELS_MAX, LEVELS_PER_TILE, NODES_PER_TILE, PAIR_BYTES, checked_separator,
    checked_zeros, count_bits, count_nodes, drop_rows, node_in_tile, node_key, position_of, set_count, split_key, tile_nodes,
)


__all__ = ["HISTORY_ENTRY_BYTES", "NODE_BYTES", "IndexedNodes", "NodeUpdate", "depth", "is_kept"]

cdef enum:
    LEVEL_SHIFT = 48            # a key as a number: level << 48 | index
    PAST_BYTES = 136            # an entry of the ring, 72, and at most four slots of its table
    ITEMS_PER_TURN = 2048       # of a large update, after which other threads may have the interpreter

cdef uint64_t INDEX_MASK = (<uint64_t>1 << LEVEL_SHIFT) - 1

NODE_BYTES = STORED_BYTES
HISTORY_ENTRY_BYTES = PAST_BYTES


cdef extern from *:
    """
    static inline int fastnode_depth(unsigned long long size)
    {
        return size > 1 ? 64 - __builtin_clzll(size - 1) : 0;
    }
    """
    int fastnode_depth(uint64_t size) nogil


def depth(uint64_t size):
    return fastnode_depth(size)


def is_kept(int level):
    return kept_level(level) == level


cdef inline uint64_t number_key(int level, uint64_t index) noexcept nogil:
    return <uint64_t>level << LEVEL_SHIFT | index


cdef bytes key_bytes(uint64_t key):
    return node_key(<int>(key >> LEVEL_SHIFT), key & INDEX_MASK)


cdef bytes stored_bytes(const uint8_t *hash, const uint8_t *changed):
    cdef bytes stored = PyBytes_FromStringAndSize(NULL, STORED_BYTES)
    memcpy(PyBytes_AS_STRING(stored), hash, HASH_BYTES)
    memcpy(PyBytes_AS_STRING(stored) + HASH_BYTES, changed, STAMP_BYTES)
    return stored


cdef int read_stored(bytes stored, StoredNode *node) except -1:
    if PyBytes_GET_SIZE(stored) != STORED_BYTES:
        raise ValueError(f"a stored node of {PyBytes_GET_SIZE(stored)} bytes")
    memcpy(node, PyBytes_AS_STRING(stored), STORED_BYTES)
    return 0


# ---- tiles ----------------------------------------------------------------------------------------

cdef int open_tile(OpenTile *tile, uint64_t index, bytes packed) except -1:
    cdef const uint8_t *source = tile_nodes(packed, STORED_BYTES, &tile.bitmap)
    cdef int position
    tile.index = index
    for position in range(NODES_PER_TILE):
        if tile.bitmap >> position & 1:
            memcpy(&tile.nodes[position], source, STORED_BYTES)
            source += STORED_BYTES
    return 0


cdef bytes close_tile(const OpenTile *tile):
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, BITMAP_BYTES + STORED_BYTES * count_bits(tile.bitmap))
    cdef uint8_t *target = <uint8_t *>PyBytes_AS_STRING(packed)
    cdef int position
    write_number(target, tile.bitmap, BITMAP_BYTES)
    target += BITMAP_BYTES
    for position in range(NODES_PER_TILE):
        if tile.bitmap >> position & 1:
            memcpy(target, &tile.nodes[position], STORED_BYTES)
            target += STORED_BYTES
    return packed


# ---- update ---------------------------------------------------------------------------------------

@cython.final
cdef class NodeUpdate:
    def __cinit__(self):
        self.tiles = []

    def __init__(self):
        raise TypeError("a NodeUpdate is made by IndexedNodes.update")

    def __dealloc__(self):
        free(self.changes)

    @property
    def nodes(self):
        cdef uint8_t[STAMP_BYTES] stamp
        cdef NodeChange *change
        cdef uint64_t i
        cdef list nodes = []
        write_number(stamp, self.block, STAMP_BYTES)
        for i in range(self.change_count):
            if i % ITEMS_PER_TURN == ITEMS_PER_TURN - 1:
                with nogil:
                    pass
            change = &self.changes[i]
            if change.key >> LEVEL_SHIFT >= LEVELS_PER_TILE:
                nodes.append((key_bytes(change.key), stored_bytes(change.after, stamp)))
        return nodes

    @property
    def history(self):
        return self.replaced(False)

    @property
    def thin_history(self):
        return self.replaced(True)

    cdef list replaced(self, bint thin):
        cdef NodeChange *change
        cdef int level
        cdef uint64_t i
        cdef list history = []
        for i in range(self.change_count):
            change = &self.changes[i]
            level = <int>(change.key >> LEVEL_SHIFT)
            if change.replaces and (not thin or kept_level(level) == level):
                stored = stored_bytes(change.before.hash, change.before.changed)
                history.append((key_bytes(change.key), stored))
        return history

    cdef NodeChange *add(self, int level, uint64_t index) except NULL:
        cdef void *changes
        if self.change_count == self.change_capacity:
            self.change_capacity = max(<uint64_t>64, 2 * self.change_capacity)
            changes = realloc(self.changes, sizeof(NodeChange) * self.change_capacity)
            if changes is NULL:
                raise MemoryError
            self.changes = <NodeChange *>changes
        cdef NodeChange *change = &self.changes[self.change_count]
        self.change_count += 1
        change.key = number_key(level, index)
        return change


# ---- nodes in memory ------------------------------------------------------------------------------

@cython.final
cdef class IndexedNodes:
    def __cinit__(
        self, int height, bytes zeros not None, *, uint64_t history_bytes, int first_level=LEVELS_PER_TILE,
        bytes separator not None=b"",
    ):
        memset(self.rows, 0, sizeof(self.rows))
        if not 0 < height <= LEVEL_SHIFT:
            raise ValueError(f"a tree of height {height}")
        self.zero = checked_zeros(height, zeros, first_level)
        self.zeros = zeros
        self.separator = separator
        self.before_pair = checked_separator(separator)
        self.height = height
        self.first_level = first_level
        past_nodes_init(&self.past, history_bytes // PAST_BYTES)

    def __dealloc__(self):
        drop_rows(self.rows, 0, LEVELS_MAX)
        past_nodes_free(&self.past)

    # ---- update ----------------------------------------------------------------------------------

    def update(
        self,
        uint32_t block,
        uint64_t size_before,
        uint64_t size,
        indexes,
        bytes hashes not None,
        tiles,
        fetch,
        *,
        bint history=True,
    ):
        cdef uint64_t count = len(indexes)
        if count == 0 or PyBytes_GET_SIZE(hashes) != <Py_ssize_t>(HASH_BYTES * count):
            raise ValueError("one hash of 32 bytes per index, and at least one")
        if not 2 <= size <= <uint64_t>1 << self.height or indexes[count - 1] >= size:
            raise ValueError(f"leaf {indexes[count - 1]} does not fit a tree of {size} leaves and height {self.height}")
        if fastnode_depth(size) > fastnode_depth(size_before) and indexes[0] != 0:
            raise ValueError("a tree that grows a level must also set leaf 0")
        cdef uint64_t *row = <uint64_t *>malloc(sizeof(uint64_t) * count)
        cdef uint8_t *values = <uint8_t *>malloc(HASH_BYTES * count)
        cdef uint8_t *pairs = <uint8_t *>malloc(PAIR_BYTES * count)
        cdef OpenTile *opened = <OpenTile *>malloc(sizeof(OpenTile) * count)
        cdef NodeUpdate update = NodeUpdate.__new__(NodeUpdate)
        update.block = block
        try:
            if row is NULL or values is NULL or pairs is NULL or opened is NULL:
                raise MemoryError
            memcpy(values, PyBytes_AS_STRING(hashes), HASH_BYTES * count)
            read_indexes(row, indexes, count)
            tile_count = open_tiles(opened, row, count, tiles)
            self._work_in(update, size_before, size, count, row, values, pairs, opened, fetch, history)
            close_tiles(update, opened, tile_count)
        finally:
            free(row)
            free(values)
            free(pairs)
            free(opened)
        return update

    cdef int _work_in(
        self, NodeUpdate update, uint64_t size_before, uint64_t size, uint64_t count, uint64_t *indexes,
        uint8_t *values, uint8_t *pairs, OpenTile *tiles, object fetch, bint history,
    ) except -1:
        cdef int level, failed = 0
        cdef int levels = fastnode_depth(size), levels_before = fastnode_depth(size_before)
        cdef OpenTile *tile
        cdef NodeChange *change
        cdef StoredNode sibling
        cdef uint8_t *pair
        cdef uint64_t i, parents
        for level in range(levels):
            tile = tiles
            pair = pairs
            parents = i = 0
            while i < count:
                if parents % ITEMS_PER_TURN == ITEMS_PER_TURN - 1:
                    with nogil:
                        pass
                while level < LEVELS_PER_TILE and tile.index != indexes[i] >> (LEVELS_PER_TILE - level):
                    tile += 1
                self._change(update, level, indexes[i], values + HASH_BYTES * i, tile, fetch,
                             history and level < levels_before and indexes[i] << level < size_before)
                if i + 1 < count and indexes[i + 1] == indexes[i] | 1 and not indexes[i] & 1:
                    self._change(update, level, indexes[i + 1], values + HASH_BYTES * (i + 1), tile, fetch,
                                 history and level < levels_before and indexes[i + 1] << level < size_before)
                    memcpy(pair, values + HASH_BYTES * i, PAIR_BYTES)
                    i += 1
                else:
                    self._find(level, indexes[i] ^ 1, tile, fetch, &sibling)
                    memcpy(pair + HASH_BYTES * (indexes[i] & 1), values + HASH_BYTES * i, HASH_BYTES)
                    memcpy(pair + HASH_BYTES * (~indexes[i] & 1), sibling.hash, HASH_BYTES)
                indexes[parents] = indexes[i] >> 1
                parents += 1
                pair += PAIR_BYTES
                i += 1
            count = parents
            with nogil:
                failed = hash_nodes_c(self.before_pair, pairs, count, values)
            if failed:
                raise ValueError("a leaf hash is not below the field modulus")
        with nogil:
            for level in range(levels, self.height):
                memcpy(pairs, values, HASH_BYTES)
                memcpy(pairs + HASH_BYTES, self.zero + HASH_BYTES * level, HASH_BYTES)
                hash_nodes_c(self.before_pair, pairs, 1, values)
        update.root = PyBytes_FromStringAndSize(<const char *>values, HASH_BYTES)
        return 0

    cdef int _change(
        self, NodeUpdate update, int level, uint64_t index, const uint8_t *value, OpenTile *tile, object fetch,
        bint replaces,
    ) except -1:
        """Note one new node, and put it into its tile."""
        cdef NodeChange *change = update.add(level, index)
        cdef int position
        change.replaces = replaces
        memcpy(change.after, value, HASH_BYTES)
        if replaces:
            self._find(level, index, tile, fetch, &change.before)
        if level < LEVELS_PER_TILE:
            position = position_of(level, index)
            tile.bitmap |= <uint64_t>1 << position
            memcpy(tile.nodes[position].hash, value, HASH_BYTES)
            write_number(tile.nodes[position].changed, update.block, STAMP_BYTES)
        return 0

    cdef int _find(self, int level, uint64_t index, OpenTile *tile, object fetch, StoredNode *node) except -1:
        """The newest stored node; ``tile`` is where it is if its level is in tiles."""
        cdef int position
        cdef const StoredNode *newest
        if level < LEVELS_PER_TILE:
            position = position_of(level, index)
            if tile.bitmap >> position & 1:
                node[0] = tile.nodes[position]
                return 0
        elif level >= self.first_level:
            newest = self._newest(level, index)
            if newest is not NULL:
                node[0] = newest[0]
                return 0
        else:
            stored = fetch(node_key(level, index))
            if stored:
                return read_stored(stored, node)
        memcpy(node.hash, self.zero + HASH_BYTES * level, HASH_BYTES)
        memset(node.changed, 0, STAMP_BYTES)
        return 0

    # ---- memory ----------------------------------------------------------------------------------

    def publish(self, NodeUpdate update not None):
        cdef uint64_t i
        cdef NodeChange *change
        cdef StoredNode node
        cdef int level
        write_number(node.changed, update.block, STAMP_BYTES)
        for i in range(update.change_count):
            if i % ITEMS_PER_TURN == ITEMS_PER_TURN - 1:
                with nogil:
                    pass
            change = &update.changes[i]
            if change.replaces and past_nodes_push(&self.past, change.key, &change.before, update.block):
                raise MemoryError
            level = <int>(change.key >> LEVEL_SHIFT)
            if level >= self.first_level:
                memcpy(node.hash, change.after, HASH_BYTES)
                self._set(level, change.key & INDEX_MASK, &node)

    cdef int _set(self, int level, uint64_t index, const StoredNode *node) except -1:
        cdef NodeRow *row = &self.rows[level]
        if index >= row.count:
            set_count(row, index + 1, self.zero + HASH_BYTES * level, STORED_BYTES)
        (<StoredNode *>row.nodes)[index] = node[0]
        return 0

    cdef inline StoredNode *_newest(self, int level, uint64_t index) noexcept:
        """A node in memory, or NULL for a zero node."""
        if index >= self.rows[level].count:
            return NULL
        return <StoredNode *>self.rows[level].nodes + index

    def push_history(self, bytes key not None, bytes stored not None, uint32_t block):
        cdef uint64_t index
        cdef int level = split_key(key, &index)
        cdef StoredNode node
        read_stored(stored, &node)
        if past_nodes_push(&self.past, number_key(level, index), &node, block):
            raise MemoryError

    def pop_history(self, uint32_t block):
        past_nodes_pop(&self.past, block)

    def history_length(self):
        return self.past.next - self.past.oldest

    def load(self, entries):
        cdef uint64_t index
        cdef int level
        cdef StoredNode node
        for key, stored in entries:
            level = split_key(key, &index)
            if level < self.first_level:
                continue
            if level > self.height or index >> (self.height - level):
                raise ValueError(f"the tree has no node {index} of level {level}")
            if stored:
                read_stored(stored, &node)
            else:
                memcpy(node.hash, self.zero + HASH_BYTES * level, HASH_BYTES)
                memset(node.changed, 0, STAMP_BYTES)
            self._set(level, index, &node)

    def load_next_level(self, entries):
        cdef int level = self.first_level - 1
        cdef uint64_t index
        cdef StoredNode node
        if level < LEVELS_PER_TILE:
            raise ValueError("the levels below are in tiles")
        self.rows[level].count = 0
        for key, stored in entries:
            if split_key(key, &index) != level or index >> (self.height - level):
                raise ValueError(f"no node of level {level}")
            read_stored(stored, &node)
            self._set(level, index, &node)
        self.first_level = level

    def raise_first_level(self, int level):
        drop_rows(self.rows, self.first_level, min(level, LEVELS_MAX))
        self.first_level = max(self.first_level, level)

    def memory_bytes(self):
        return STORED_BYTES * count_nodes(self.rows) + PAST_BYTES * (self.past.next - self.past.oldest)

    # ---- path ------------------------------------------------------------------------------------

    def path(
        self, uint64_t index, uint32_t block, uint64_t size, bytes tile not None, list missing not None, *,
        bint use_memory=True,
    ):
        cdef bytes path = PyBytes_FromStringAndSize(NULL, HASH_BYTES * self.height)
        self.write_path(index, block, size, tile, <uint8_t *>PyBytes_AS_STRING(path), missing, use_memory)
        return path

    cdef int write_path(
        self, uint64_t index, uint32_t block, uint64_t size, bytes tile, uint8_t *target, list missing, bint use_memory
    ) except -1:
        """A path to ``target``, which has room for HASH_BYTES of each level; how many are missing."""
        cdef int missing_count = 0
        if index >= size or size > <uint64_t>1 << self.height:
            raise ValueError(f"leaf {index} is not in a tree of {size} leaves")
        cdef uint64_t bitmap, sibling
        cdef const uint8_t *nodes = tile_nodes(tile, STORED_BYTES, &bitmap)
        cdef const uint8_t *node
        cdef const StoredNode *stored
        cdef int level
        for level in range(self.height):
            sibling = (index >> level) ^ 1
            node = self.zero + HASH_BYTES * level
            stored = NULL
            if sibling << level >= size:
                pass
            elif level < LEVELS_PER_TILE:
                stored = <const StoredNode *>node_in_tile(nodes, STORED_BYTES, bitmap, position_of(level, sibling))
            elif not use_memory or level < self.first_level:
                node = NULL
            else:
                stored = self._newest(level, sibling)
            if stored is not NULL:
                if read_number(stored.changed, STAMP_BYTES) <= block:
                    node = <const uint8_t *>stored.hash
                elif use_memory:
                    node = past_nodes_value_at(&self.past, number_key(level, sibling), block)
                else:
                    node = NULL
            if node is NULL:
                missing_count += 1
                if missing is not None:
                    missing.append(level)
                memset(target, 0, HASH_BYTES)
            else:
                memcpy(target, node, HASH_BYTES)
            target += HASH_BYTES
        return missing_count


# ---- between Python and the arrays ----------------------------------------------------------------

cdef int read_indexes(uint64_t *row, indexes, uint64_t count) except -1:
    cdef uint64_t i = 0
    for index in indexes:
        row[i] = index
        if i and row[i] <= row[i - 1]:
            raise ValueError("the indexes of an update must ascend")
        i += 1
    return 0


cdef uint64_t open_tiles(OpenTile *opened, const uint64_t *row, uint64_t count, tiles) except? 0:
    """Open the tile of every leaf in ``row``; returns how many."""
    cdef uint64_t i, tile_count = 0
    for i in range(count):
        if tile_count == 0 or opened[tile_count - 1].index != row[i] >> LEVELS_PER_TILE:
            open_tile(&opened[tile_count], row[i] >> LEVELS_PER_TILE, tiles[row[i] >> LEVELS_PER_TILE])
            tile_count += 1
    return tile_count


cdef int close_tiles(NodeUpdate update, const OpenTile *opened, uint64_t tile_count) except -1:
    cdef uint64_t i
    for i in range(tile_count):
        update.tiles.append((opened[i].index, close_tile(&opened[i])))
    return 0
