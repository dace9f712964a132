from libc.stdint cimport int64_t

from fastnode._ext.wire.call_meter cimport CallMeter
from fastnode._ext.wire.cached_responses cimport AnsweredCall, CachedResponses, Method
from fastnode._ext.wire.packed cimport Member
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
        Py_ssize_t _results_bytes_max
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
        AnsweredCall *_calls        # of the request that was read last; owned
        Member _member
        int64_t started             # of a burst whose beginning is known: now; 0: it is not
        int64_t _until              # when the slice is over; 0: never
        char *_buffer               # owned; what is collected, but for chunks
        Py_ssize_t _capacity
        Py_ssize_t _used
        list _chunks                # behind which the buffer goes on
        Py_ssize_t _flushed
        # what the caller reads
        public bint is_open
        public bint leaves_origin
        readonly Py_ssize_t size
        readonly Py_ssize_t position
        readonly Py_ssize_t count
        readonly Py_ssize_t end
        readonly str method
        readonly bytes params
        readonly bytes id_text
        readonly bytes accepted
        readonly list body
        readonly bint is_late
        readonly list unfinished
        readonly bytes batch
        readonly list outcomes

    cpdef object begin(self)
    cdef int scan(
        self, const char *data, Py_ssize_t size, Py_ssize_t start, Py_ssize_t bytes_max, object view, int64_t until_ns,
        list unfinished
    ) except -1
    cdef object take(self)
    cdef int drop(self) noexcept
    cdef const char *_read_head(self, const char *at, const char *end) except? NULL
    cdef const char *_read_paid_head(self, const char *at, const char *end) except? NULL
    cdef list _with_times(self, list results)
    cdef bint _leave_batch(
        self, const char *at, const char *end, list results, object outcome, int64_t *started
    ) except -1
    cdef Py_ssize_t _read_batch(self, const char *at, const char *end) noexcept
    cdef bint _answer_single(self, const char *at, const char *end, object view, int64_t *started) except -1
    cdef bint _answer_batch(self, const char *at, const char *end, object view, int64_t *started) except -1
    cdef bytes _result_of(self, AnsweredCall *call, Method method, object view)
    cdef int64_t _lap(self, int64_t *started) noexcept
    cdef bint _answer(self, Py_ssize_t count, bint is_batch) except -1
    cdef int _coding(self) except -1
    cdef bint _can_pack(self, Py_ssize_t count, Py_ssize_t length)
    cdef int _add_member(self, Py_ssize_t count, bint is_batch) except -1
    cdef list _pieces(self, Py_ssize_t count, bint is_batch)
    cdef int _begin_answer(self, bytes head, Py_ssize_t length) except -1
    cdef int _add_call(self, AnsweredCall *call) except -1
    cdef int _append(self, const char *data, Py_ssize_t length) except -1
    cdef int _flush(self) except -1
