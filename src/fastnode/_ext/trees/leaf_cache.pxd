from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from fastnode._ext.trees.tree_nodes cimport HASH_BYTES, LEAVES_PER_TILE

cdef enum:
    RECORD_BYTES_MAX = 116      # of a leaf with a value, as world_state/layout.py draws it
    BEFORE_RECORD = 33          # of a KeptLeaf


# A leaf of the newest tree.
cdef struct KeptLeaf:
    uint8_t length              # of the record
    uint8_t[HASH_BYTES] key
    uint8_t[RECORD_BYTES_MAX] record    # only so many bytes of it are there


# A tile and those of its leaves that were asked for.
cdef struct KeptTile:
    uint64_t number             # index of the tile, from 1 on; 0: nothing is here
    void *tile                  # a bytes object, owned; NULL: not here
    KeptLeaf *leaves[LEAVES_PER_TILE]   # owned; NULL: not here


# Everything happens under the GIL.
cdef class LeafCache:
    cdef:
        readonly uint64_t generation
        KeptTile *_places       # owned
        uint64_t _count         # of places, a power of two or 0
        uint32_t *_hints        # owned: by the upper bits of a key, the index of a leaf, from 1 on; any may be wrong
        int _hint_shift
        uint64_t _bytes         # of tiles and leaves

    # The bytes object of a tile; None if it is not here.
    cdef bytes tile_at(self, uint64_t index)
    cdef int put_tile(self, uint64_t index, bytes tile, uint64_t generation) except -1
    # The leaf with the greatest key <= ``key``; NULL if it is not here.  Valid until the GIL is given up.  A shorter
    # record has no memory for more: to be copied by its length.
    cdef const KeptLeaf *low_leaf(self, const uint8_t *key) noexcept
    cdef int put_leaf(self, const uint8_t *asked, const KeptLeaf *leaf, uint64_t generation) except -1
    cpdef bint has_room_for(self, int64_t size) noexcept
    cdef KeptTile *_place(self, uint64_t index) noexcept
    cdef KeptTile *_taken_place(self, uint64_t index) noexcept
    cdef void _free(self, KeptTile *place) noexcept
    cdef void _hint(self, const uint8_t *asked, const uint8_t *next_key, uint32_t number) noexcept
    cdef uint64_t _bucket(self, const uint8_t *key) noexcept
