from cpython.ref cimport PyObject
from libc.stdint cimport int64_t

from fastnode._ext.wire.packed cimport Member
from fastnode._ext.wire.request_text cimport Call


# Outcome of one call.
cdef struct Outcome:
    PyObject *value             # owned; NULL: none yet.  A result, empty if nothing was found, or the text of an error
    PyObject *raised            # owned; NULL, or what the handler raised, while there is no value
    int64_t elapsed             # nanoseconds that it took; while it is made, less the time at which that began
    bint is_error               # the value
    bint is_left                # the kernel does not make it
    bint is_charged             # the call, when its outcome was made
    bint is_kept                # the result, until the view changes


# One call as it was asked.
cdef struct Asked:
    Call text                   # spans; of the id alone if there are entries
    PyObject *method            # borrowed; NULL: not known here
    PyObject *key               # owned; the text of the parameters, if results are kept by it; NULL otherwise
    PyObject *read              # owned: a result that is kept, or the arguments of a handler (tuple), or values of JSON
                                # (list); NULL: nothing has been read


cdef class Calls:
    cdef:
        Asked *each                 # owned
        Py_ssize_t capacity
        readonly Py_ssize_t count
        readonly bint is_batch
        list entries                # (name, params, text of the id); None: the spans say it
        # of a scanner
        readonly bytes text         # of the request, that spans point into; None: it is the scanner's
        object source               # makes outcomes of these calls; None: nobody does
        object view                 # that they are answered from
        int64_t version             # of what is kept
        bint is_unread              # there are long parameters of an unusual form, of which nobody knows anything
        Py_ssize_t ahead            # calls that were looked at together

    cdef str _name(self, Call *call)
    cdef int reserve(self, Py_ssize_t count) except -1
    cdef int clear(self) except -1
    cdef int own(self, const char *at, const char *end, object source, object view, int64_t version) except -1


cdef class Outcomes:
    cdef:
        Outcome *each               # owned
        Py_ssize_t capacity
        Py_ssize_t count
        readonly list errors        # of all calls that have one; None: no call has

    cdef int begin(self, Py_ssize_t count) except -1
    cdef int clear(self) except -1
    cdef int set(self, Py_ssize_t index, bytes value) except -1
    cdef int _check(self, Py_ssize_t index) except -1
    cpdef Py_ssize_t next_pending(self, Py_ssize_t start=*) noexcept


# Receiver of a body as it is rendered: its bytes, or what they are compressed to.
cdef class Buffer:
    cdef:
        char *data                  # owned; what is collected behind the chunks
        Py_ssize_t capacity
        Py_ssize_t used
        list chunks                 # None: there are none yet
        Py_ssize_t flushed          # bytes of the chunks
        Py_ssize_t copied_bytes_max # a larger value is a chunk of its own
        Py_ssize_t text_bytes_max   # a chunk of anything else is not longer, unless it is a whole id
        bint omits_absent           # an absent result has no member; else it is null
        # of a body in gzip
        Member member               # None: it is sent as it is
        object pack                 # pack(value, is_kept) -> Packed
        bint is_packing

    cdef int begin(self) except -1
    cdef int begin_packing(self) except -1
    cdef int end_packing(self) except -1
    cdef int put(self, const char *text, Py_ssize_t length) except -1
    cdef int put_value(self, bytes value, bint is_kept) except -1
    cdef int flush(self) except -1
    cdef int drop(self) noexcept
    cdef object take(self)


cdef Py_ssize_t rendered_length(Calls calls, Outcomes outcomes, bint omits_absent) noexcept
cdef int render_into(Buffer out, Calls calls, Outcomes outcomes) except -1
