"""Keys, tiles and rows of nodes: what both kinds of Merkle trees share."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memset

from fastnode._ext.numbers cimport read_number, write_number


__all__ = ["TILE_LEAVES", "TILE_LEVELS", "entries_of", "pack_tile", "tile_position", "unpack_tile"]

cdef enum:
    KEY_BYTES = 7           # level u8 || index u48

TILE_LEVELS = LEVELS_PER_TILE
TILE_LEAVES = LEAVES_PER_TILE


# ---- keys -----------------------------------------------------------------------------------------

cdef bytes node_key(int level, uint64_t index):
    cdef uint8_t[8] number
    write_number(number, index, 8)
    number[1] = <uint8_t>level
    return PyBytes_FromStringAndSize(<char *>number + 1, KEY_BYTES)


cdef int split_key(bytes key, uint64_t *index) except -1:
    """The level of a key; its index goes to ``index``."""
    if PyBytes_GET_SIZE(key) != KEY_BYTES:
        raise ValueError(f"a node key of {PyBytes_GET_SIZE(key)} bytes")
    cdef const uint8_t *source = <const uint8_t *>PyBytes_AS_STRING(key)
    index[0] = read_number(source + 1, KEY_BYTES - 1)
    if source[0] >= LEVELS_MAX:
        raise ValueError(f"a node of level {source[0]}")
    return source[0]


def entries_of(list changes not None, bytes prefix not None, Py_ssize_t tail):
    cdef Py_ssize_t head = PyBytes_GET_SIZE(prefix), length
    cdef const char *wanted = PyBytes_AS_STRING(prefix)
    cdef bytes key
    if tail < 0:
        raise ValueError("a tail of less than no bytes")
    found = []
    for change in changes:
        key, value = change
        length = PyBytes_GET_SIZE(key) - head - tail if key is not None else -1
        if length >= 0 and memcmp(PyBytes_AS_STRING(key), wanted, head) == 0:
            found.append((PyBytes_FromStringAndSize(PyBytes_AS_STRING(key) + head, length), value or b""))
    return found


# ---- tiles ----------------------------------------------------------------------------------------

def tile_position(int level, uint64_t index):
    return position_of(level, index)


def unpack_tile(bytes tile not None, Py_ssize_t node_bytes):
    nodes = {}
    cdef Py_ssize_t length = PyBytes_GET_SIZE(tile)
    if length == 0:
        return nodes
    if length < BITMAP_BYTES:
        raise ValueError(f"a tile of {length} bytes has no bitmap")
    cdef const uint8_t *source = <const uint8_t *>PyBytes_AS_STRING(tile)
    cdef uint64_t bitmap = read_number(source, BITMAP_BYTES)
    # No node is longer than two hashes; without a limit the product could overflow.
    if not 0 < node_bytes <= PAIR_BYTES or length != BITMAP_BYTES + node_bytes * count_bits(bitmap):
        raise ValueError(f"a tile of {length} bytes does not match its bitmap")
    source += BITMAP_BYTES
    cdef int position
    for position in range(64):
        if bitmap >> position & 1:
            nodes[position] = PyBytes_FromStringAndSize(<const char *>source, node_bytes)
            source += node_bytes
    return nodes


def pack_tile(dict nodes not None):
    bitmap = sum([1 << position for position in nodes])
    return bitmap.to_bytes(BITMAP_BYTES, "big") + b"".join([nodes[position] for position in sorted(nodes)])


cdef const uint8_t *tile_nodes(bytes tile, Py_ssize_t node_bytes, uint64_t *bitmap) except NULL:
    """The first node of a tile; its bitmap goes to ``bitmap``."""
    cdef Py_ssize_t length = PyBytes_GET_SIZE(tile)
    cdef const uint8_t *source = <const uint8_t *>PyBytes_AS_STRING(tile)
    bitmap[0] = 0
    if length == 0:
        return source
    if length >= BITMAP_BYTES:
        bitmap[0] = read_number(source, BITMAP_BYTES)
    # Two bits are no position of a node.
    if length != BITMAP_BYTES + node_bytes * count_bits(bitmap[0]) or bitmap[0] >> NODES_PER_TILE:
        raise ValueError(f"a tile of {length} bytes does not match its bitmap")
    return source + BITMAP_BYTES


# ---- rows in memory -------------------------------------------------------------------------------

cdef const uint8_t *checked_zeros(int height, bytes zeros, int first_level) except NULL:
    """The zero node of level 0 in ``zeros``, which must have one for each level."""
    if PyBytes_GET_SIZE(zeros) != HASH_BYTES * (height + 1):
        raise ValueError(f"zeros must hold {height + 1} nodes")
    if first_level < LEVELS_PER_TILE:
        raise ValueError(f"first_level must be at least {LEVELS_PER_TILE}")
    return <const uint8_t *>PyBytes_AS_STRING(zeros)


cdef const uint8_t *checked_separator(bytes separator) except? NULL:
    """The field in ``separator``; NULL when that is empty."""
    if PyBytes_GET_SIZE(separator) not in (0, HASH_BYTES):
        raise ValueError(f"a separator of {PyBytes_GET_SIZE(separator)} bytes")
    return <const uint8_t *>PyBytes_AS_STRING(separator) if separator else NULL


cdef int set_count(NodeRow *row, uint64_t count, const uint8_t *zero, size_t node_bytes) except -1:
    """Shorten a row, or lengthen it with zero nodes: the hash ``zero``, and zero bytes behind it."""
    cdef uint64_t capacity
    cdef void *nodes
    cdef uint8_t *node
    if count > row.capacity:
        capacity = max(count, row.capacity + row.capacity // 2)
        nodes = realloc(row.nodes, node_bytes * capacity)
        if nodes is NULL:
            raise MemoryError
        row.nodes, row.capacity = <uint8_t *>nodes, capacity
    while row.count < count:
        node = row.nodes + node_bytes * row.count
        memcpy(node, zero, HASH_BYTES)
        memset(node + HASH_BYTES, 0, node_bytes - HASH_BYTES)
        row.count += 1
    row.count = count
    return 0


cdef int drop_rows(NodeRow *rows, int first, int end) noexcept:
    """Free the rows of the levels ``first`` <= level < ``end``."""
    cdef int level
    for level in range(first, end):
        free(rows[level].nodes)
        memset(&rows[level], 0, sizeof(NodeRow))
    return 0


cdef uint64_t count_nodes(const NodeRow *rows) noexcept:
    cdef uint64_t count = 0
    cdef int level
    for level in range(LEVELS_MAX):
        count += rows[level].count
    return count
