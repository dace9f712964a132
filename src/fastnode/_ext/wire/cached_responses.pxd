from cpython.ref cimport PyObject
from libc.stdint cimport int64_t

from fastnode._ext.wire.call_meter cimport CallMeter
from fastnode._ext.wire.packed cimport Packed
from fastnode._ext.wire.request_text cimport Call


# A call of a request, and what was found for it.
cdef struct AnsweredCall:
    Call text
    Py_ssize_t row              # in the meter
    int64_t elapsed             # of a batch, if it is measured
    PyObject *result            # bytes, borrowed while the request is answered
    bint is_kept                # the result


cdef class Method:
    cdef:
        str name
        bytes text
        Py_ssize_t row              # in the meter
        bint keeps
        bytes shape                 # of the usual params; None: there is no handler
        object handler
        Py_ssize_t items_max
        object prepare              # of the handler: works out what several calls need; None: it has no use for that
        object read                 # the handler for params of any form; None: there is none
        # results, empty if nothing was found: without params, and by the text of the params
        bytes bare
        dict young
        dict old


cdef enum:
    ASKED_COUNT = 4096


cdef class CachedResponses:
    cdef:
        Py_ssize_t _bytes_max
        Py_ssize_t _result_bytes_max
        object _find_block
        dict _methods
        void **_table               # Methods by the hash of their names, borrowed; owned
        size_t _mask
        object _tip
        dict _numbers               # of blocks by hash
        dict _packed                # by result
        dict _packed_before
        Py_ssize_t _kept_bytes      # of the young results
        readonly bint is_cached     # the result that was had last
        readonly object outcome     # of a handler that has run without a result for here; None: none has
        readonly int64_t hit_count
        readonly int64_t miss_count

        # calls of the batch being answered, borrowed, and up to where they were looked at
        AnsweredCall *_batch
        Py_ssize_t _batch_count
        const char *_ahead

        Py_hash_t[ASKED_COUNT] _asked   # of params, each at the place of its last bits; long, so behind all others

    cdef void set_batch(self, AnsweredCall *calls, Py_ssize_t count) noexcept
    cdef int _look_ahead(self, Method method, const char *text, object view) except -1
    cdef int set_rows(self, CallMeter calls) except -1
    cdef int _fill_table(self) except -1
    cdef Method find(self, const char *name, Py_ssize_t length)
    cdef int _keep(self, Method method, bytes params, bytes result) except -1
    cdef void _count_look_up(self, Method method, bint is_hit) noexcept
    cdef int _count_kept(self, Py_ssize_t size) except -1
    cdef Packed pack(self, bytes result, bint is_kept)
    cpdef Packed find_packed(self, bytes result)
    cdef int _keep_packed(self, bytes result, Packed packed, Py_ssize_t more) except -1
    cdef bytes bare_of(self, Method method, object view)
    cdef bytes result_of(self, Method method, const char *text, Py_ssize_t length, object view)
    cdef bytes _made(self, Method method, tuple arguments)
    cdef bytes _read(self, Method method, object view, bytes params)
    cdef bytes _run(self, object handler, tuple arguments)
    cdef bint _is_asked_again(self, Py_hash_t params_hash) noexcept
    cdef tuple _with_number(self, tuple arguments)
