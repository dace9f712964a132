"""Nodes of an indexed tree after an older block.  The stub (older_nodes.pyi) says what everything does."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

from fastnode._ext.numbers cimport read_number, write_number
from fastnode._ext.hash.poseidon2 cimport hash_nodes_c
from fastnode._ext.trees.indexed_tree cimport STAMP_BYTES, STORED_BYTES, IndexedNodes, StoredNode, kept_level
from fastnode._ext.trees.tree_nodes cimport (
    HASH_BYTES, LEVELS_PER_TILE, PAIR_BYTES, node_in_tile, position_of, tile_nodes,
)

__all__ = ["OlderNodes"]

cdef enum:
    KEY_BYTES = 7           # level u8 || index u48
    BELOW_MAX = 4           # nodes of a kept level below one of the level before the next kept one
    DROP_MAX = 2            # levels between the two


@cython.final
cdef class OlderNodes:
    def __init__(
        self, IndexedNodes nodes not None, bytes node_prefix not None, bytes history_prefix not None,
        bytes tile_prefix not None,
    ):
        self.nodes = nodes
        self.node_prefix, self.history_prefix, self.tile_prefix = node_prefix, history_prefix, tile_prefix

    def read(
        self, bytes wanted not None, uint32_t block, uint64_t size, bint thin, get, iterators, make_iterator
    ):
        cdef uint64_t count = PyBytes_GET_SIZE(wanted) // KEY_BYTES
        if PyBytes_GET_SIZE(wanted) % KEY_BYTES:
            raise ValueError(f"keys of nodes in {PyBytes_GET_SIZE(wanted)} bytes")
        if self.nodes is None or size > <uint64_t>1 << self.nodes.height:
            raise ValueError(f"no tree of {size} leaves")
        cdef Question asked
        asked.block, asked.size, asked.thin = block, size, thin
        cdef SnapshotReads reads = SnapshotReads.__new__(SnapshotReads)
        reads.owner, reads.get = self, get
        cdef StoredNode *found = <StoredNode *>malloc(sizeof(StoredNode) * BELOW_MAX * (count + 1))
        cdef uint8_t *drops = <uint8_t *>malloc(count + 1)
        cdef uint8_t *pairs = <uint8_t *>malloc(PAIR_BYTES * DROP_MAX * (count + 1))
        iterator = iterators.pop() if iterators else make_iterator()
        reads.first = iterator.first
        try:
            if found is NULL or drops is NULL or pairs is NULL:
                raise MemoryError
            look_up(reads, &asked, wanted, count, found, drops)
            hash_up(self.nodes, count, found, drops, pairs)
            return joined(found, count)
        finally:
            iterators.append(iterator)
            free(found)
            free(drops)
            free(pairs)


cdef int look_up(
    SnapshotReads reads, const Question *asked, bytes wanted, uint64_t count, StoredNode *found, uint8_t *drops
) except -1:
    """Read each node, or those of the kept level below it: ``drops`` levels."""
    cdef const uint8_t *keys = <const uint8_t *>PyBytes_AS_STRING(wanted)
    cdef int level, height = reads.owner.nodes.height
    cdef uint64_t i, j, index
    for i in range(count):
        level = keys[KEY_BYTES * i]
        index = read_number(keys + KEY_BYTES * i + 1, KEY_BYTES - 1)
        if level >= height or index >> (height - level):
            raise ValueError(f"the tree has no node {index} below the top of level {level}")
        drops[i] = <uint8_t>(level - kept_level(level) if asked.thin else 0)
        if drops[i] == 0:
            reads.read(asked, level, index, found + BELOW_MAX * i)
        elif reads.is_settled(asked, level, index, found + BELOW_MAX * i):
            drops[i] = 0
        else:
            for j in range(<uint64_t>1 << drops[i]):
                reads.read(asked, level - drops[i], (index << drops[i]) + j, found + BELOW_MAX * i + j)
    return 0


cdef int hash_up(IndexedNodes nodes, uint64_t count, StoredNode *found, const uint8_t *drops, uint8_t *pairs) except -1:
    """Hash what was read level by level, all nodes together; a parent is as old as its newer child."""
    cdef int drop, failed = 0
    cdef uint64_t i, j, hashes
    cdef StoredNode *below
    for drop in range(DROP_MAX, 0, -1):
        hashes = 0
        for i in range(count):
            if drops[i] >= drop:
                for j in range(<uint64_t>1 << (drop - 1)):
                    below = found + BELOW_MAX * i + 2 * j
                    memcpy(pairs + PAIR_BYTES * hashes, below[0].hash, HASH_BYTES)
                    memcpy(pairs + PAIR_BYTES * hashes + HASH_BYTES, below[1].hash, HASH_BYTES)
                    hashes += 1
        if hashes == 0:
            continue
        with nogil:
            failed = hash_nodes_c(nodes.before_pair, pairs, hashes, pairs)
        if failed:
            raise ValueError("a stored node is not below the field modulus")
        hashes = 0
        for i in range(count):
            if drops[i] >= drop:
                for j in range(<uint64_t>1 << (drop - 1)):
                    below = found + BELOW_MAX * i + 2 * j
                    if memcmp(below[0].changed, below[1].changed, STAMP_BYTES) < 0:
                        below += 1
                    memcpy(found[BELOW_MAX * i + j].changed, below.changed, STAMP_BYTES)
                    memcpy(found[BELOW_MAX * i + j].hash, pairs + HASH_BYTES * hashes, HASH_BYTES)
                    hashes += 1
    return 0


cdef bytes joined(const StoredNode *found, uint64_t count):
    cdef bytes result = PyBytes_FromStringAndSize(NULL, STORED_BYTES * count)
    cdef uint8_t *target = <uint8_t *>PyBytes_AS_STRING(result)
    cdef uint64_t i
    for i in range(count):
        memcpy(target + STORED_BYTES * i, found + BELOW_MAX * i, STORED_BYTES)
    return result


@cython.final
cdef class SnapshotReads:
    def __cinit__(self):
        self.has_tile = False
        self.tile = b""

    def __init__(self):
        raise TypeError("made by OlderNodes.read")

    cdef int read(self, const Question *asked, int level, uint64_t index, StoredNode *node) except -1:
        if not self.is_settled(asked, level, index, node):
            self.replaced(asked, level, index, node)
        return 0

    cdef bint is_settled(self, const Question *asked, int level, uint64_t index, StoredNode *node) except -1:
        """True with a node that has not changed since; False also where only the memory says that it has."""
        cdef IndexedNodes nodes = self.owner.nodes
        cdef const StoredNode *known
        if index << level >= asked.size:
            self.zero(level, node)
            return True
        if level >= nodes.first_level:
            known = nodes._newest(level, index)
            if known is not NULL and read_number(known.changed, STAMP_BYTES) > asked.block:
                return False
        return self.newest(asked, level, index, node)

    cdef int replaced(self, const Question *asked, int level, uint64_t index, StoredNode *node) except -1:
        """The node before the first change after the block."""
        cdef bytes prefix = self.owner.history_prefix
        cdef Py_ssize_t length = PyBytes_GET_SIZE(prefix) + KEY_BYTES
        cdef bytes key = node_entry(prefix, level, index, STAMP_BYTES)
        write_number(<uint8_t *>PyBytes_AS_STRING(key) + length, <uint64_t>asked.block + 1, STAMP_BYTES)
        entry = self.first(key)
        if entry is not None and is_of(entry[0], key, length):
            read_stored(entry[1], node)
            if read_number(node.changed, STAMP_BYTES) <= asked.block:
                return 0
        # The memory may be ahead of the snapshot.
        elif level >= LEVELS_PER_TILE and self.newest(asked, level, index, node):
            return 0
        raise LookupError(f"node ({level}, {index}) has no history at block {asked.block}")

    cdef bint newest(self, const Question *asked, int level, uint64_t index, StoredNode *node) except -1:
        """True if the newest node that the snapshot has is not newer than the block."""
        cdef const uint8_t *stored
        cdef uint64_t bitmap
        if level < LEVELS_PER_TILE:
            stored = tile_nodes(self.tile_of(level, index), STORED_BYTES, &bitmap)
            stored = node_in_tile(stored, STORED_BYTES, bitmap, position_of(level, index))
            if stored is not NULL:
                memcpy(node, stored, STORED_BYTES)
        else:
            value = self.get(node_entry(self.owner.node_prefix, level, index, 0))
            stored = NULL
            if value is not None:
                read_stored(value, node)
                stored = node.hash
        if stored is NULL:
            self.zero(level, node)
            return True
        return read_number(node.changed, STAMP_BYTES) <= asked.block

    cdef int zero(self, int level, StoredNode *node) except -1:
        memcpy(node.hash, self.owner.nodes.zero + HASH_BYTES * level, HASH_BYTES)
        memset(node.changed, 0, STAMP_BYTES)
        return 0

    cdef bytes tile_of(self, int level, uint64_t index):
        cdef uint64_t tile = index >> (LEVELS_PER_TILE - level)
        cdef bytes prefix = self.owner.tile_prefix
        cdef bytes key
        if not self.has_tile or tile != self.tile_index:
            key = node_entry(prefix, 0, tile, -1)
            self.tile = self.get(key) or b""
            self.tile_index, self.has_tile = tile, True
        return self.tile


cdef bytes node_entry(bytes prefix, int level, uint64_t index, int tail):
    """A key with room for ``tail`` bytes behind it; -1: of a tile, which has no level."""
    cdef Py_ssize_t head = PyBytes_GET_SIZE(prefix)
    cdef int has_level = tail >= 0
    cdef bytes key = PyBytes_FromStringAndSize(NULL, head + has_level + KEY_BYTES - 1 + max(tail, 0))
    cdef uint8_t *target = <uint8_t *>PyBytes_AS_STRING(key)
    memcpy(target, PyBytes_AS_STRING(prefix), head)
    if has_level:
        target[head] = <uint8_t>level
    write_number(target + head + has_level, index, KEY_BYTES - 1)
    return key


cdef bint is_of(bytes found, bytes key, Py_ssize_t length):
    """True for an entry of the same node: the first ``length`` bytes are the same, and a block follows."""
    return (
        PyBytes_GET_SIZE(found) == PyBytes_GET_SIZE(key)
        and memcmp(PyBytes_AS_STRING(found), PyBytes_AS_STRING(key), length) == 0
    )


cdef int read_stored(bytes stored, StoredNode *node) except -1:
    if stored is None or PyBytes_GET_SIZE(stored) != STORED_BYTES:
        raise ValueError("a stored node of another length")
    memcpy(node, PyBytes_AS_STRING(stored), STORED_BYTES)
    return 0
