from libc.stdint cimport int64_t, uint32_t


# Belongs to one view, and reads its snapshot.
cdef class Blocks:
    cdef:
        object get
        readonly uint32_t tip
        uint32_t checkpointed, proven, finalized    # last blocks
        uint32_t oldest_body    # of blocks before it there are headers
        tuple results           # of an execution, by revert code
        dict kept               # what was read last, by key

    cdef bytes read(self, bytes key)
    cdef object number_of_c(self, bytes field)
    cdef object _number(self, bytes key)
    cdef int64_t _place_of(self, object number) except -2


# What a method reads.
cdef class BlockQuestion:
    cdef:
        tuple form, named_form
        object find


# What a method about a transaction reads.
cdef class TxQuestion:
    cdef:
        tuple form
        object otherwise
