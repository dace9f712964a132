from libc.stdint cimport uint8_t


# An item: where its content begins and ends.
ctypedef struct rlp_item:
    Py_ssize_t start
    Py_ssize_t end
    bint is_list


cdef int rlp_item_at(const uint8_t *data, Py_ssize_t at, Py_ssize_t end, rlp_item *item) except -1
