from libc.stdint cimport int64_t

from fastnode._ext.wire.call_meter cimport CallMeter
from fastnode._ext.wire.cached_responses cimport CachedResponses, Method
from fastnode._ext.wire.packed cimport Packed


# One request read in place; pointers into the burst, which outlives it.
cdef struct Call:
    const char *name
    Py_ssize_t name_length
    const char *id
    Py_ssize_t id_length
    const char *params          # NULL: none given
    Py_ssize_t params_length
    bint is_empty               # params: none, or an array of none
    int64_t elapsed             # of a batch, if it is measured


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
        # the head being read
        Py_ssize_t _length
        bytes _accepted
        # answers
        bytes _head
        bytes _packed_head
        bytes _end
        CallMeter _meter
        object _add_batch
        Call *_calls                # of a batch; owned
        int64_t started             # of a burst whose beginning is known: now; 0: it is not
        int64_t _until              # when the slice is over; 0: never
        char *_buffer               # owned
        Py_ssize_t _capacity
        Py_ssize_t _used
        list _chunks                # behind which the buffer goes on
        Py_ssize_t _flushed
        # what the caller reads
        public bint is_open
        readonly Py_ssize_t size
        readonly Py_ssize_t position
        readonly Py_ssize_t count
        readonly Py_ssize_t end
        readonly str method
        readonly bytes params
        readonly bytes id_text
        readonly bytes accepted
        readonly bytes body
        readonly bint is_late
        readonly list unfinished

    cdef object begin_c(self)
    cdef object answer_c(
        self, bytes data, Py_ssize_t start, Py_ssize_t bytes_max, object view, int64_t until_ns, list unfinished
    )
    cdef bytes _result_of(self, Call *call, Method method, object view)
    cdef const char *_read_head(self, const char *at, const char *end)
    cdef const char *_read_known_head(self, const char *at, const char *end)
    cdef const char *_read_header(self, const char *at, const char *end, int *seen)
    cdef bint _read_value(self, const char *at, const char *stop, int known) except -1
    cdef const char *_read_call(self, const char *at, const char *end, Py_ssize_t depth_left, Call *call) noexcept nogil
    cdef bint _answer_call(self, Call *call, bytes result) except -1
    cdef int _coding(self) except -1
    cdef bint _is_packable(self, Call *call, bytes result) noexcept
    cdef int _add_packed(self, Call *call, Packed packed, bint is_batch) except -1
    cdef bint _answer_batch(self, const char *at, const char *end, object view, int64_t *started) except -1
    cdef Py_ssize_t _read_batch(self, const char *at, const char *end) noexcept nogil
    cdef void _finish(self, Method method, int64_t *started) noexcept
    cdef int _begin_answer(self, bytes head, Py_ssize_t length) except -1
    cdef int _add_call(self, Call *call, bytes result) except -1
    cdef int _reserve(self, Py_ssize_t length) except -1
    cdef int _append(self, const char *data, Py_ssize_t length) except -1
    cdef int _flush(self) except -1
    cdef object _take(self)
