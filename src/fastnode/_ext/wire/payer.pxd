from libc.stdint cimport int64_t


cdef class Payer:
    cdef:
        object _identify
        object _rules               # who is who holds until the next ones
        int64_t _seen               # their version
        frozenset _left_out         # methods that are not answered here
        Py_ssize_t _body_bytes_max  # of a longer body more is charged than its calls
        dict _known                 # by head: client, length of the body, Accept-Encoding
        readonly object client      # that sent the request
        # of the head that was read last
        bytes _head                 # itself; None: there is none
        Py_ssize_t length           # of the body
        bytes accepted              # Accept-Encoding; None: not given

    cdef const char *find_body(
        self, const char *at, const char *end, Py_ssize_t head_bytes_max, Py_ssize_t headers_max, Py_ssize_t body_bytes_max
    ) except? NULL
    cdef tuple _identified(self, bytes head, Py_ssize_t head_bytes_max, Py_ssize_t headers_max, Py_ssize_t body_bytes_max)
    cdef bint pay(self, str method) except -1
