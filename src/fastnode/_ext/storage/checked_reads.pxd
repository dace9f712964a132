cimport cython


# Both hold what they read from, and nothing holds them: a snapshot is released by its owner's close().

@cython.final
cdef class CheckedSnapshot:
    cdef:
        object snapshot     # plyvel's
        object raw_get      # its get
        object error_of     # called with what plyvel raised
        bytes is_text       # 1 for the first bytes of keys of texts


@cython.final
cdef class CheckedIterator:
    cdef:
        object entries      # plyvel's iterator
        object advance      # its __next__
        object error_of


@cython.final
cdef class CheckedSeeks:
    cdef:
        object raw_seek
        object error_of
        object valid, key, value    # the raw iterator's
        readonly object close
