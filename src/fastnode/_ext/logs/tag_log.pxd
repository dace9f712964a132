from libc.stdint cimport uint8_t, uint64_t


cdef extern from "tag_filter.h" nogil:
    enum:
        TAG_BYTES
        TAG_BLOCK_BYTES
        TAG_TEXT_LENGTH
    uint64_t tag_start(const uint8_t *owner)
    int tag_filter_add(uint64_t *words, uint64_t blocks, uint64_t start, const uint8_t *tag)
    int tag_filter_has(uint64_t *words, uint64_t blocks, uint64_t start, const uint8_t *tag)
    int tag_read_field(const uint8_t *text, uint8_t *field)


# Bits are only ever set, and every call holds the GIL: a reader in another thread sees a key either
# before or after it was added, never half of it.
cdef class TagFilter:
    cdef:
        uint64_t *words             # owned; zeroed, so pages that no key touched take no memory
        readonly uint64_t blocks    # of TAG_BLOCK_BYTES each
        # tags that were asked for
        readonly uint64_t unknown_count
        readonly uint64_t found_count
        readonly uint64_t missed_count
