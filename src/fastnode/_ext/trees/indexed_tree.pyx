"""Versioned nodes of an indexed Merkle tree."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from fastnode._ext.trees cimport append_tree
from fastnode._ext.trees.append_tree cimport count_bits, split_key
from fastnode._ext.numbers cimport read_number, write_number
from fastnode._ext.hash.poseidon2 cimport hash_pair_c, hash_pairs_c

from fastnode._ext.trees.append_tree import pack_tile
from fastnode._ext.trees.append_tree import unpack_tile as unpack_nodes


__all__ = [
    "HISTORY_ENTRY_BYTES",
    "NODE_BYTES",
    "TILE_LEAVES",
    "TILE_LEVELS",
    "IndexedNodes",
    "NodeUpdate",
    "depth",
    "pack_tile",
    "unpack_tile",
]

cdef enum:
    LEVELS_PER_TILE = 5
    LEAVES_PER_TILE = 32
    BITMAP_BYTES = 8
    PAIR_BYTES = 64             # two hashes; written out, because a debug build cannot compute in an enum
    LEVEL_SHIFT = 48            # a key as a number: level << 48 | index
    FIRST_CAPACITY = 1024
    PAST_BYTES = 136            # an entry of the ring, 72, and at most four slots of its index

cdef uint64_t FREE_SLOT = <uint64_t>-1
cdef uint64_t INDEX_MASK = (<uint64_t>1 << LEVEL_SHIFT) - 1

TILE_LEVELS = LEVELS_PER_TILE
TILE_LEAVES = LEAVES_PER_TILE
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


def unpack_tile(bytes tile not None):
    return unpack_nodes(tile, STORED_BYTES)


cdef inline uint64_t number_key(int level, uint64_t index) noexcept nogil:
    return <uint64_t>level << LEVEL_SHIFT | index


cdef bytes key_bytes(uint64_t key):
    return append_tree.node_key(<int>(key >> LEVEL_SHIFT), key & INDEX_MASK)


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

cdef inline int position_of(int level, uint64_t index) noexcept nogil:
    return 64 - (64 >> level) + <int>(index & ((LEAVES_PER_TILE >> level) - 1))


cdef const uint8_t *tile_nodes(bytes tile, uint64_t *bitmap) except NULL:
    """The first stored node of a tile; its bitmap goes to ``bitmap``."""
    cdef Py_ssize_t length = PyBytes_GET_SIZE(tile)
    cdef const uint8_t *source = <const uint8_t *>PyBytes_AS_STRING(tile)
    bitmap[0] = 0
    if length == 0:
        return source
    if length >= BITMAP_BYTES:
        bitmap[0] = read_number(source, BITMAP_BYTES)
    # Two bits are no position of a node.
    if length != BITMAP_BYTES + STORED_BYTES * count_bits(bitmap[0]) or bitmap[0] >> 62:
        raise ValueError(f"a tile of {length} bytes does not match its bitmap")
    return source + BITMAP_BYTES


cdef int open_tile(OpenTile *tile, uint64_t index, bytes packed) except -1:
    cdef const uint8_t *source = tile_nodes(packed, &tile.bitmap)
    cdef int position
    tile.index = index
    for position in range(62):
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
    for position in range(62):
        if tile.bitmap >> position & 1:
            memcpy(target, &tile.nodes[position], STORED_BYTES)
            target += STORED_BYTES
    return packed


# ---- update ---------------------------------------------------------------------------------------

@cython.final
cdef class NodeUpdate:
    def __cinit__(self):
        self.tiles = []
        self.nodes = []
        self.history = []

    def __init__(self):
        raise TypeError("a NodeUpdate is made by IndexedNodes.update")

    def __dealloc__(self):
        free(self.changes)

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


# ---- superseded nodes -----------------------------------------------------------------------------

@cython.final
cdef class PastNodes:
    def __cinit__(self, uint64_t history_bytes):
        cdef uint64_t entries = history_bytes // PAST_BYTES
        self.limit = 0
        if entries:
            self.limit = 1
            while 2 * self.limit <= entries:
                self.limit *= 2
        self.oldest = self.next = 1

    def __dealloc__(self):
        free(self.ring)
        free(self.keys)
        free(self.heads)

    @cython.overflowcheck(False)  # the product is meant to overflow
    cdef uint64_t slot_of(self, uint64_t key) noexcept:
        """Where ``key`` is in the index, or would go; there is always a free slot."""
        cdef uint64_t slot = (key * <uint64_t>0x9E3779B97F4A7C15) >> 20
        while True:
            slot &= self.slots - 1
            if self.keys[slot] == key or self.keys[slot] == FREE_SLOT:
                return slot
            slot += 1

    cdef int make_room(self) except -1:
        """Before a push: a larger ring, or the oldest entry dropped; and an index at most half full."""
        cdef uint64_t capacity, sequence
        cdef PastNode *ring
        if self.next - self.oldest == self.capacity:
            if self.capacity == self.limit:
                self.oldest += 1
            else:
                capacity = min(self.limit, max(<uint64_t>FIRST_CAPACITY, 2 * self.capacity))
                ring = <PastNode *>malloc(sizeof(PastNode) * capacity)
                if ring is NULL:
                    raise MemoryError
                for sequence in range(self.oldest, self.next):
                    ring[sequence & (capacity - 1)] = self.ring[sequence & (self.capacity - 1)]
                free(self.ring)
                self.ring, self.capacity = ring, capacity
        if 2 * (self.used + 1) > self.slots:
            self.rebuild_index()
        return 0

    cdef int rebuild_index(self) except -1:
        """Drop keys whose entries have all fallen out; double the index if most are still there."""
        cdef uint64_t *old_keys = self.keys
        cdef uint64_t *old_heads = self.heads
        cdef uint64_t old_slots = self.slots
        cdef uint64_t live = 0, old, slot
        for old in range(old_slots):
            live += old_keys[old] != FREE_SLOT and old_heads[old] >= self.oldest
        cdef uint64_t slots = FIRST_CAPACITY
        while slots < 3 * (live + 1):
            slots *= 2
        cdef uint64_t *keys = <uint64_t *>malloc(sizeof(uint64_t) * slots)
        cdef uint64_t *heads = <uint64_t *>malloc(sizeof(uint64_t) * slots)
        if keys is NULL or heads is NULL:
            free(keys)
            free(heads)
            raise MemoryError
        memset(keys, 0xFF, sizeof(uint64_t) * slots)
        self.keys, self.heads, self.slots, self.used = keys, heads, slots, live
        for old in range(old_slots):
            if old_keys[old] != FREE_SLOT and old_heads[old] >= self.oldest:
                slot = self.slot_of(old_keys[old])
                keys[slot], heads[slot] = old_keys[old], old_heads[old]
        free(old_keys)
        free(old_heads)
        return 0

    cdef int push(self, uint64_t key, const StoredNode *node, uint32_t block) except -1:
        if self.limit == 0:
            return 0
        self.make_room()
        cdef uint64_t slot = self.slot_of(key)
        cdef uint64_t mask = self.capacity - 1
        cdef PastNode *entry = &self.ring[self.next & mask]
        cdef PastNode *previous
        cdef PastNode *jumped
        entry.key = key
        entry.previous = entry.jump = entry.depth = 0
        entry.changed = read_number(node.changed, STAMP_BYTES)
        entry.superseded = block
        memcpy(entry.hash, node.hash, HASH_BYTES)
        if self.keys[slot] == FREE_SLOT:
            self.keys[slot] = key
            self.used += 1
        elif self.heads[slot] >= self.oldest:
            entry.previous = entry.jump = self.heads[slot]
            previous = &self.ring[entry.previous & mask]
            entry.depth = previous.depth + 1
            if previous.jump >= self.oldest:
                jumped = &self.ring[previous.jump & mask]
                if jumped.jump >= self.oldest and (
                    previous.depth - jumped.depth == jumped.depth - self.ring[jumped.jump & mask].depth
                ):
                    entry.jump = jumped.jump
        self.heads[slot] = self.next
        self.next += 1
        return 0

    cdef int pop(self, uint32_t block) except -1:
        cdef PastNode *entry
        while self.next > self.oldest:
            entry = &self.ring[(self.next - 1) & (self.capacity - 1)]
            if entry.superseded != block:
                break
            self.heads[self.slot_of(entry.key)] = entry.previous
            self.next -= 1
        return 0

    cdef const uint8_t *value_at(self, uint64_t key, uint32_t block) noexcept:
        """The value a node had after ``block``, or NULL when it is not here."""
        if self.slots == 0:
            return NULL
        cdef uint64_t mask = self.capacity - 1
        cdef uint64_t slot = self.slot_of(key)
        if self.keys[slot] == FREE_SLOT:
            return NULL
        cdef uint64_t sequence = self.heads[slot]
        cdef PastNode *entry
        while sequence >= self.oldest:
            entry = &self.ring[sequence & mask]
            # A tile may be of an older view, and say of an undone block that it changed the node: only an
            # entry that covers the block will do.
            if entry.superseded <= block:
                return NULL
            if entry.changed <= block:
                return entry.hash
            # Nothing is left out by a jump to an entry that is too new itself.
            if entry.jump >= self.oldest and self.ring[entry.jump & mask].changed > block:
                sequence = entry.jump
            else:
                sequence = entry.previous
        return NULL


# ---- nodes in memory ------------------------------------------------------------------------------

@cython.final
cdef class IndexedNodes:
    def __cinit__(
        self, int height, bytes zeros not None, *, uint64_t history_bytes, int first_level=LEVELS_PER_TILE
    ):
        memset(self.rows, 0, sizeof(self.rows))
        if not 0 < height <= LEVEL_SHIFT:
            raise ValueError(f"a tree of height {height}")
        if PyBytes_GET_SIZE(zeros) != HASH_BYTES * (height + 1):
            raise ValueError(f"zeros must hold {height + 1} nodes")
        if first_level < LEVELS_PER_TILE:
            raise ValueError(f"first_level must be at least {LEVELS_PER_TILE}")
        self.height = height
        self.first_level = first_level
        self.zeros = zeros
        self.zero = <const uint8_t *>PyBytes_AS_STRING(zeros)
        self.past = PastNodes(history_bytes)

    def __dealloc__(self):
        cdef int level
        for level in range(LEVELS_MAX):
            free(self.rows[level].nodes)

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
            self._work_in(update, size_before, size, count, row, values, pairs, opened, fetch)
            close_tiles(update, opened, tile_count)
        finally:
            free(row)
            free(values)
            free(pairs)
            free(opened)
        list_changes(update)
        return update

    cdef int _work_in(
        self, NodeUpdate update, uint64_t size_before, uint64_t size, uint64_t count, uint64_t *indexes,
        uint8_t *values, uint8_t *pairs, OpenTile *tiles, object fetch,
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
                while level < LEVELS_PER_TILE and tile.index != indexes[i] >> (LEVELS_PER_TILE - level):
                    tile += 1
                self._change(update, level, indexes[i], values + HASH_BYTES * i, tile, fetch,
                             level < levels_before and indexes[i] << level < size_before)
                if i + 1 < count and indexes[i + 1] == indexes[i] | 1 and not indexes[i] & 1:
                    self._change(update, level, indexes[i + 1], values + HASH_BYTES * (i + 1), tile, fetch,
                                 level < levels_before and indexes[i + 1] << level < size_before)
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
                failed = hash_pairs_c(pairs, count, values)
            if failed:
                raise ValueError("a leaf hash is not below the field modulus")
        with nogil:
            for level in range(levels, self.height):
                hash_pair_c(values, self.zero + HASH_BYTES * level, values)
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
        if level < LEVELS_PER_TILE:
            position = position_of(level, index)
            if tile.bitmap >> position & 1:
                node[0] = tile.nodes[position]
                return 0
        elif level >= self.first_level:
            if index < self.rows[level].count:
                node[0] = self.rows[level].nodes[index]
                return 0
        else:
            stored = fetch(append_tree.node_key(level, index))
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
            change = &update.changes[i]
            if change.replaces:
                self.past.push(change.key, &change.before, update.block)
            level = <int>(change.key >> LEVEL_SHIFT)
            if level >= self.first_level:
                memcpy(node.hash, change.after, HASH_BYTES)
                self._set(level, change.key & INDEX_MASK, &node)

    cdef int _set(self, int level, uint64_t index, const StoredNode *node) except -1:
        cdef StoredRow *row = &self.rows[level]
        cdef uint64_t capacity
        cdef void *nodes
        if index >= row.capacity:
            capacity = max(index + 1, row.capacity + row.capacity // 2)
            nodes = realloc(row.nodes, sizeof(StoredNode) * capacity)
            if nodes is NULL:
                raise MemoryError
            row.nodes, row.capacity = <StoredNode *>nodes, capacity
        while row.count <= index:
            memcpy(row.nodes[row.count].hash, self.zero + HASH_BYTES * level, HASH_BYTES)
            memset(row.nodes[row.count].changed, 0, STAMP_BYTES)
            row.count += 1
        row.nodes[index] = node[0]
        return 0

    def push_history(self, bytes key not None, bytes stored not None, uint32_t block):
        cdef uint64_t index
        cdef int level = split_key(key, &index)
        cdef StoredNode node
        read_stored(stored, &node)
        self.past.push(number_key(level, index), &node, block)

    def pop_history(self, uint32_t block):
        self.past.pop(block)

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
        cdef int dropped
        for dropped in range(self.first_level, min(level, LEVELS_MAX)):
            free(self.rows[dropped].nodes)
            memset(&self.rows[dropped], 0, sizeof(StoredRow))
        self.first_level = max(self.first_level, level)

    def memory_bytes(self):
        cdef uint64_t count = 0
        cdef int level
        for level in range(LEVELS_MAX):
            count += self.rows[level].count
        return STORED_BYTES * count + PAST_BYTES * (self.past.next - self.past.oldest)

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
        """A path to ``target``, which has room for HASH_BYTES of each level."""
        if index >= size or size > <uint64_t>1 << self.height:
            raise ValueError(f"leaf {index} is not in a tree of {size} leaves")
        cdef uint64_t bitmap, bit, sibling
        cdef const uint8_t *nodes = tile_nodes(tile, &bitmap)
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
                bit = <uint64_t>1 << position_of(level, sibling)
                if bitmap & bit:
                    stored = <const StoredNode *>(nodes + STORED_BYTES * count_bits(bitmap & (bit - 1)))
            elif not use_memory or level < self.first_level:
                node = NULL
            elif sibling < self.rows[level].count:
                stored = &self.rows[level].nodes[sibling]
            if stored is not NULL:
                if read_number(stored.changed, STAMP_BYTES) <= block:
                    node = <const uint8_t *>stored.hash
                elif use_memory:
                    node = self.past.value_at(number_key(level, sibling), block)
                else:
                    node = NULL
            if node is NULL:
                missing.append(level)
                memset(target, 0, HASH_BYTES)
            else:
                memcpy(target, node, HASH_BYTES)
            target += HASH_BYTES
        return 0


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


cdef int list_changes(NodeUpdate update) except -1:
    """The changes once more as the keys and values that go into the database."""
    cdef uint8_t[STAMP_BYTES] stamp
    cdef NodeChange *change
    cdef uint64_t i
    write_number(stamp, update.block, STAMP_BYTES)
    for i in range(update.change_count):
        change = &update.changes[i]
        key = key_bytes(change.key)
        if change.key >> LEVEL_SHIFT >= LEVELS_PER_TILE:
            update.nodes.append((key, stored_bytes(change.after, stamp)))
        if change.replaces:
            update.history.append((key, stored_bytes(change.before.hash, change.before.changed)))
    return 0
