# One request read in place; pointers into the burst, which outlives it.
cdef struct Call:
    const char *name
    Py_ssize_t name_length
    const char *id
    Py_ssize_t id_length
    const char *params          # NULL: none given
    Py_ssize_t params_length
    bint is_empty               # params: none, or an array of none


cdef class SimpleRequests:
    cdef:
        # limits
        Py_ssize_t _head_bytes_max
        Py_ssize_t _headers_max
        Py_ssize_t _body_bytes_max
        Py_ssize_t _depth_max
        Py_ssize_t _batch_calls_max
        Py_ssize_t _response_bytes_max
        Py_ssize_t _coded_bytes_min
        # the last head that was read: most clients send the same one again
        bytes _known_head
        Py_ssize_t _known_length
        bytes _known_accepted
        # the head being read
        Py_ssize_t _length
        bytes _accepted
        # answers
        bytes _head
        bytes _end
        dict _results
        object _finish
        object _add_batch
        Call *_calls                # of a batch; owned
        char *_buffer               # owned
        Py_ssize_t _capacity
        Py_ssize_t _used
        # what the caller reads
        readonly Py_ssize_t position
        readonly Py_ssize_t count
        readonly Py_ssize_t end
        readonly str method
        readonly bytes params
        readonly bytes id_text
        readonly bytes accepted

    cdef const char *_read_head(self, const char *at, const char *end)
    cdef const char *_read_known_head(self, const char *at, const char *end)
    cdef const char *_read_header(self, const char *at, const char *end, int *seen)
    cdef bint _read_value(self, const char *at, const char *stop, int known) except -1
    cdef const char *_read_call(self, const char *at, const char *end, Py_ssize_t depth_left, Call *call) noexcept nogil
    cdef bint _answer_batch(self, const char *at, const char *end) except -1
    cdef Py_ssize_t _read_batch(self, const char *at, const char *end) noexcept nogil
    cdef int _begin_answer(self, Py_ssize_t length) except -1
    cdef int _add_call(self, Call *call, bytes result) except -1
    cdef int _append(self, const char *data, Py_ssize_t length) except -1
    cdef int _answer(self, Call *call, bytes result) except -1
    cdef object _take(self)
