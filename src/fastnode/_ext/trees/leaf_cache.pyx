# Tiles and leaves of an indexed tree, kept in memory.  The stub (leaf_cache.pyi) says what everything does.

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy

from fastnode._ext.numbers cimport read_number
from fastnode._ext.trees.tree_nodes cimport LEVELS_PER_TILE

__all__ = ["PLACE_BYTES", "LeafCache"]

cdef enum:
    PLACE_BYTES_MAX = 8192      # a place that is full, its tile, its leaves, its hints, and what malloc adds
    HINTS_PER_PLACE = 64
    HINTS_AT_ONCE = 1024        # that one leaf sets
    KEY_BITS = 254              # of 256: the first two are never set
    TILE_BYTES_MAX = 2240
    # A leaf record, as world_state/layout.py draws it.
    RECORD_BYTES_MIN = 84       # without a value
    NEXT_KEY_AT = 10
    TAIL_BYTES = 42
    INDEX_BYTES = 6             # the beginning of the tail

PLACE_BYTES = PLACE_BYTES_MAX

cdef uint64_t TILES_MAX = <uint64_t>1 << 48
cdef bytes NO_KEY = b"\0" * HASH_BYTES


@cython.final
cdef class LeafCache:
    def __cinit__(self, uint64_t bytes_max):
        cdef uint64_t count = 1
        cdef int bits = 0
        if bytes_max < PLACE_BYTES_MAX:
            return
        while count <= bytes_max // PLACE_BYTES_MAX // 2:
            count *= 2
        while <uint64_t>1 << bits < count * HINTS_PER_PLACE:
            bits += 1
        self._hint_shift = 64 - bits
        self._places = <KeptTile *>calloc(count, sizeof(KeptTile))
        self._hints = <uint32_t *>calloc(count * HINTS_PER_PLACE, sizeof(uint32_t))
        if self._places is NULL or self._hints is NULL:
            raise MemoryError
        self._count = count

    def __dealloc__(self):
        cdef uint64_t number
        for number in range(self._count):
            self._free(&self._places[number])
        free(self._places)
        free(self._hints)

    # ---- what the tree is now --------------------------------------------------------------------

    def drop(self, tiles):
        cdef KeptTile *place
        cdef uint64_t index
        self.generation += 1
        for index in tiles:
            place = self._place(index)
            if place is not NULL:
                self._free(place)

    def clear(self):
        cdef uint64_t number
        self.generation += 1
        for number in range(self._count):
            self._free(&self._places[number])

    cpdef bint has_room_for(self, int64_t size) noexcept:
        return 0 <= size <= <int64_t>(self._count * LEAVES_PER_TILE)

    def memory_bytes(self):
        return self._bytes + self._count * (sizeof(KeptTile) + HINTS_PER_PLACE * sizeof(uint32_t))

    # ---- tiles -----------------------------------------------------------------------------------

    def tile(self, uint64_t index):
        return self.tile_at(index)

    cdef bytes tile_at(self, uint64_t index):
        cdef KeptTile *place = self._place(index)
        if place is NULL or place.tile is NULL:
            return None
        return <bytes>place.tile

    def keep_tile(self, uint64_t index, bytes tile not None, uint64_t generation):
        self.put_tile(index, tile, generation)

    cdef int put_tile(self, uint64_t index, bytes tile, uint64_t generation) except -1:
        cdef KeptTile *place
        if generation != self.generation or self._count == 0 or index > TILES_MAX:
            return 0
        if PyBytes_GET_SIZE(tile) > TILE_BYTES_MAX:
            return 0
        place = self._taken_place(index)
        if place.tile is NULL:
            self._bytes += PyBytes_GET_SIZE(tile)
            Py_INCREF(tile)
            place.tile = <void *>tile
        return 0

    # ---- leaves ----------------------------------------------------------------------------------

    def low(self, bytes key not None):
        cdef const KeptLeaf *leaf
        _require_key(key)
        leaf = self.low_leaf(<const uint8_t *>PyBytes_AS_STRING(key))
        if leaf is NULL:
            return None
        return (
            PyBytes_FromStringAndSize(<const char *>leaf.key, HASH_BYTES),
            PyBytes_FromStringAndSize(<const char *>leaf.record, leaf.length),
        )

    cdef const KeptLeaf *low_leaf(self, const uint8_t *key) noexcept:
        cdef uint32_t number
        cdef KeptTile *place
        cdef const KeptLeaf *leaf
        cdef const uint8_t *next_key
        if self._count == 0:
            return NULL
        number = self._hints[self._bucket(key)]
        if number == 0:
            return NULL
        place = self._place((number - 1) >> LEVELS_PER_TILE)
        if place is NULL:
            return NULL
        leaf = place.leaves[(number - 1) % LEAVES_PER_TILE]
        if leaf is NULL or memcmp(leaf.key, key, HASH_BYTES) > 0:
            return NULL
        next_key = leaf.record + NEXT_KEY_AT
        if memcmp(key, next_key, HASH_BYTES) >= 0 and memcmp(next_key, PyBytes_AS_STRING(NO_KEY), HASH_BYTES) != 0:
            return NULL
        return leaf

    def keep_leaf(self, bytes asked not None, bytes key not None, bytes record not None, uint64_t generation):
        cdef KeptLeaf leaf
        cdef Py_ssize_t length = PyBytes_GET_SIZE(record)
        _require_key(asked)
        _require_key(key)
        if length != RECORD_BYTES_MIN and length != RECORD_BYTES_MAX:
            raise ValueError(f"a leaf record of {length} bytes")
        leaf.length = <uint8_t>length
        memcpy(leaf.key, PyBytes_AS_STRING(key), HASH_BYTES)
        memcpy(leaf.record, PyBytes_AS_STRING(record), length)
        self.put_leaf(<const uint8_t *>PyBytes_AS_STRING(asked), &leaf, generation)

    cdef int put_leaf(self, const uint8_t *asked, const KeptLeaf *leaf, uint64_t generation) except -1:
        cdef uint64_t index
        cdef size_t size = BEFORE_RECORD + leaf.length
        cdef KeptTile *place
        cdef KeptLeaf *kept
        if generation != self.generation or self._count == 0:
            return 0
        index = read_number(leaf.record + leaf.length - TAIL_BYTES, INDEX_BYTES)
        if index >= <uint32_t>-1:
            return 0
        place = self._taken_place(index >> LEVELS_PER_TILE)
        if place.leaves[index % LEAVES_PER_TILE] is NULL:
            kept = <KeptLeaf *>malloc(size)
            if kept is NULL:
                raise MemoryError
            memcpy(kept, leaf, size)
            place.leaves[index % LEAVES_PER_TILE] = kept
            self._bytes += size
        self._hint(asked, leaf.record + NEXT_KEY_AT, <uint32_t>index + 1)
        return 0

    cdef void _hint(self, const uint8_t *asked, const uint8_t *next_key, uint32_t number) noexcept:
        """From the key that was asked for to the next leaf, as far as that is not too much at once."""
        cdef uint64_t bucket = self._bucket(asked)
        cdef uint64_t end = min(self._bucket(next_key), bucket + HINTS_AT_ONCE)
        self._hints[bucket] = number
        for bucket in range(bucket + 1, end):
            self._hints[bucket] = number

    @cython.overflowcheck(False)
    cdef uint64_t _bucket(self, const uint8_t *key) noexcept:
        return read_number(key, 8) << (256 - KEY_BITS) >> self._hint_shift

    # ---- places ----------------------------------------------------------------------------------

    cdef KeptTile *_place(self, uint64_t index) noexcept:
        """Where a tile is kept; NULL if another one is there, or none."""
        cdef KeptTile *place
        if self._count == 0 or index > TILES_MAX:
            return NULL
        place = &self._places[index & (self._count - 1)]
        return place if place.number == index + 1 else NULL

    cdef KeptTile *_taken_place(self, uint64_t index) noexcept:
        """The place of a tile, which is its own from now on."""
        cdef KeptTile *place = &self._places[index & (self._count - 1)]
        if place.number != index + 1:
            self._free(place)
            place.number = index + 1
        return place

    cdef void _free(self, KeptTile *place) noexcept:
        cdef int position
        if place.number == 0:
            return
        if place.tile is not NULL:
            self._bytes -= PyBytes_GET_SIZE(<bytes>place.tile)
            Py_DECREF(<bytes>place.tile)
        for position in range(LEAVES_PER_TILE):
            if place.leaves[position] is not NULL:
                self._bytes -= BEFORE_RECORD + place.leaves[position].length
                free(place.leaves[position])
                place.leaves[position] = NULL
        place.tile = NULL
        place.number = 0


cdef int _require_key(bytes key) except -1:
    if PyBytes_GET_SIZE(key) != HASH_BYTES:
        raise ValueError(f"a key of {PyBytes_GET_SIZE(key)} bytes")
    return 0
