from libc.stdint cimport uint32_t


# Belongs to one view, and reads its snapshot.
cdef class Blocks:
    cdef:
        object get
        readonly uint32_t tip
        uint32_t checkpointed, proven, finalized    # last blocks
        tuple results           # of an execution, by revert code
        dict kept               # what was read last, by key

    cdef bytes read(self, bytes key)


# What a method reads.
cdef class BlockQuestion:
    cdef:
        int form
        object otherwise


# What a method about a transaction reads.
cdef class TxQuestion:
    cdef:
        int form
        object otherwise
