from libc.stdint cimport int64_t, uint64_t


cdef class Traffic:
    cdef:
        public int64_t received_bytes
        public int64_t sent_bytes
        readonly object rejected    # a Counter


# Every call holds the GIL: a reader in another thread sees whole counts, though not all of one moment.
cdef class CallMeter:
    cdef:
        dict _indices               # name -> row
        list _errors                # one dict per row: code -> count
        Py_ssize_t _rows
        Py_ssize_t _bounds
        int64_t *_upper             # nanoseconds, rising; owned
        uint64_t *_counts           # _rows * (_bounds + 1), the last of a row is above all bounds; owned
        uint64_t *_sums             # nanoseconds per row; owned

    cdef Py_ssize_t _row(self, object name)
    cdef void add(self, Py_ssize_t row, int64_t elapsed) noexcept
    cdef _add_error(self, Py_ssize_t row, object error_code)
