from libc.stdint cimport int64_t

from fastnode._ext.wire.call_meter cimport CallMeter
from fastnode._ext.wire.cached_responses cimport CachedResponses
from fastnode._ext.wire.calls cimport Buffer, Calls, Outcomes
from fastnode._ext.wire.payer cimport Payer


cdef class Published:
    cdef:
        readonly object value
        readonly int64_t version


cdef class SimpleRequests:
    cdef:
        # limits
        Py_ssize_t _head_bytes_max
        Py_ssize_t _headers_max
        Py_ssize_t _body_bytes_max
        Py_ssize_t _depth_max
        Py_ssize_t _batch_calls_max
        Py_ssize_t _coded_bytes_min
        # where views come from
        Published _published        # None: _source is asked each time
        object _source
        object _renew
        object _choose_coding
        int64_t _seen               # version that was renewed for
        CachedResponses _results
        dict _codings               # by Accept-Encoding
        # the last head that was read: most clients send the same one again
        bytes _known_head
        Py_ssize_t _known_length
        bytes _known_accepted
        int _known_coding
        # the head being read
        Py_ssize_t _length
        bytes _accepted
        int _accepted_coding        # UNKNOWN_CODING until somebody asks
        # who pays
        public Payer payer          # of the connection whose data is read; None: calls are free
        # answers
        bytes _head_plain
        bytes _head_packed
        bytes _end
        CallMeter _meter
        object _add_batch
        Calls _calls                # of the request that is read, and their outcomes; new ones when these are handed over
        Outcomes _outcomes
        Buffer out                  # what is answered
        int64_t started             # of a burst whose beginning is known: now; 0: it is not
        int64_t _until              # when the slice is over; 0: never
        # what the caller reads
        public bint is_open
        public bint leaves_origin
        readonly Py_ssize_t size
        readonly Py_ssize_t position
        readonly Py_ssize_t count
        readonly Py_ssize_t end
        readonly bytes accepted
        public Calls calls
        public Outcomes outcomes

    cpdef object begin(self)
    cdef int scan(
        self, const char *data, Py_ssize_t size, Py_ssize_t start, Py_ssize_t bytes_max, object view, int64_t until_ns
    ) except -1
    cdef const char *_read_head(self, const char *at, const char *end) except? NULL
    cdef const char *_read_paid_head(self, const char *at, const char *end) except? NULL
    cdef bint _answer_request(self, const char *at, const char *end, object view, int64_t *started) except -1
    cdef bint _read_calls(self, Calls calls, const char *at, const char *end) except -1
    cdef bint _render(self) except -1
    cdef int _coding(self) except -1
    cdef bint _can_pack(self, Py_ssize_t length) except -1
    cdef int _begin_answer(self, bytes head, Py_ssize_t length) except -1
