from libc.stdint cimport int64_t

from fastnode._ext.wire.call_meter cimport CallMeter
from fastnode._ext.wire.calls cimport Asked, Calls, Outcome, Outcomes
from fastnode._ext.wire.packed cimport Packed
from fastnode._ext.wire.payer cimport Payer


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
        readonly int64_t version    # of what is kept
        readonly int64_t hit_count
        readonly int64_t miss_count

        Py_hash_t[ASKED_COUNT] _asked   # of params, each at the place of its last bits; long, so behind all others

    cdef bint read(self, Calls calls, object view) except -1
    cdef bint fill(
        self, Calls calls, Outcomes outcomes, object view, Payer payer, int64_t until, int64_t *started
    ) except -1
    cdef int set_rows(self, CallMeter calls) except -1
    cdef int _fill_table(self) except -1
    cdef Method find(self, const char *name, Py_ssize_t length)
    cdef bint _keep(self, Method method, bytes params, bytes result) except -1
    cdef void _count_look_up(self, Method method, bint is_hit) noexcept
    cdef int _count_kept(self, Py_ssize_t size) except -1
    cpdef Packed pack(self, bytes result, bint is_kept)
    cpdef Packed find_packed(self, bytes result)
    cdef int _keep_packed(self, bytes result, Packed packed, Py_ssize_t more) except -1
    cdef object _bare(self, Method method, object view)
    cdef object _kept(self, Method method, bytes params)
    cdef object _read(self, Method method, Asked *asked, object view, Py_ssize_t *unusual_left)
    cdef list _parsed(self, Asked *asked, Py_ssize_t *unusual_left)
    cdef bint _make(self, Calls calls, Py_ssize_t index, Outcomes outcomes, object view) except -1
    cdef bytes _run(self, object handler, tuple arguments, Outcome *outcome)
    cdef int _look_ahead(self, Calls calls, Py_ssize_t index) except -1
    cdef bint _is_asked_again(self, Py_hash_t params_hash) noexcept
    cdef tuple _with_number(self, Method method, tuple arguments)
