from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from fastnode._ext.trees.append_tree cimport AppendNodes
from fastnode._ext.trees.indexed_tree cimport IndexedNodes
from fastnode._ext.trees.leaf_cache cimport KeptLeaf, LeafCache

cdef enum:
    SLOT_BYTES = 32


# A storage slot that was asked for.
cdef struct KnownSlot:
    uint8_t[SLOT_BYTES] contract
    uint8_t[SLOT_BYTES] slot
    uint8_t[SLOT_BYTES] leaf_slot
    bint is_used


# Filled under the GIL, which the hash does not give up.
cdef class LeafSlots:
    cdef:
        KnownSlot *_places      # owned
        uint64_t _mask
        uint8_t[SLOT_BYTES] _separator

    cdef const uint8_t *find_c(self, bytes contract, bytes slot) except NULL
    cdef KnownSlot *_place_of(self, const uint8_t *contract, const uint8_t *slot) noexcept
    cdef void _write_hashed(self, uint8_t *hashed, const uint8_t *contract, const uint8_t *slot) noexcept


# Lives as long as its tree, whose nodes it shares.
cdef class TreeAnswers:
    cdef:
        IndexedNodes nodes
        LeafCache leaves
        int tree
        bytes leaf_prefix, tile_prefix


# Lives as long as its tree, whose nodes it shares.
cdef class AppendAnswers:
    cdef:
        AppendNodes nodes
        int tree
        bytes place_prefix, tile_prefix, edge_prefix


# Belongs to one view, and reads its snapshot.
cdef class StateAnswers:
    cdef:
        TreeAnswers nullifiers, public_data
        AppendAnswers note_hashes, messages, archive
        dict _edges             # by tree and size
        LeafSlots slots
        object get              # of the snapshot
        object iterators, make_iterator
        dict records            # of the view: by block number
        object _block           # asked about last, and the sizes of the trees after it
        tuple _sizes
        uint64_t _nullifiers_at, _public_data_at    # generation of the leaves that are kept, when the view was made
        readonly uint32_t oldest
        public int64_t memory_limit

    cdef bint _has_record(self, object block) except -1
    cdef int64_t size_of(self, TreeAnswers tree, object block) except -2
    cdef uint64_t _generation(self, TreeAnswers tree) noexcept
    cdef bint _find_low(self, TreeAnswers tree, const uint8_t *key, KeptLeaf *leaf) except -1
    cdef bint _find_own(self, TreeAnswers tree, const uint8_t *key, int64_t size, KeptLeaf *leaf) except -1
    cdef bytes _witness(self, TreeAnswers tree, const KeptLeaf *leaf, object block, int64_t size)
    cdef bytes low_witness_c(self, TreeAnswers tree, bytes key, object block)
    cdef bytes own_witness_c(self, TreeAnswers tree, bytes key, object block)
    cdef bytes place_witness_c(self, int kind, bytes leaf, object block)
    cdef bytes _edge(self, AppendAnswers tree, int64_t size)
    cdef bytes storage_c(self, bytes contract, bytes slot, object block)


# What a method reads.
cdef class StateQuestion:
    cdef:
        int kind
        object otherwise, find
