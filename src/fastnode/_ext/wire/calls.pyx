# The calls of a request, their outcomes, and the one envelope.  The stub (calls.pyi) says what everything does.

from orjson import loads

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from fastnode._ext.wire.clock cimport clock_ns
from fastnode._ext.wire.packed cimport APART_BYTES_MIN, Member, Packed
from fastnode._ext.wire.request_text cimport Call

cdef enum:
    KEPT_CAPACITY_MAX = 1048576 # of a buffer; written out, because a debug build cannot compute in an enum
    NAME_LENGTH_MAX = 1024      # of a longer name the rest is forgotten
    BEFORE_ID_BYTES = 22
    BEFORE_RESULT_BYTES = 10
    BEFORE_ERROR_BYTES = 9
    ABSENT_RESULT_BYTES = 14

cdef const char *BEFORE_ID = b'{"jsonrpc":"2.0","id":'
cdef const char *BEFORE_RESULT = b',"result":'
cdef const char *BEFORE_ERROR = b',"error":'
cdef const char *ABSENT_RESULT = b',"result":null'


@cython.final
cdef class Calls:
    def __init__(self, list entries not None, *, bint is_batch):
        cdef Py_ssize_t index
        cdef object text
        if not is_batch and len(entries) != 1:
            raise ValueError(f"{len(entries)} calls that are no batch")
        self.clear()
        self.reserve(len(entries))
        self.entries = entries
        self.count = len(entries)
        self.is_batch = is_batch
        for index in range(self.count):
            text = (<tuple?>entries[index])[2]
            if text is not None:
                self.each[index].text.id = PyBytes_AS_STRING(<bytes?>text)
                self.each[index].text.id_length = PyBytes_GET_SIZE(<bytes>text)

    def __dealloc__(self):
        cdef Py_ssize_t index
        for index in range(self.count):
            Py_XDECREF(self.each[index].key)
            Py_XDECREF(self.each[index].read)
        free(self.each)

    cdef int reserve(self, Py_ssize_t count) except -1:
        """Have room for as many."""
        cdef Asked *larger
        if count > self.capacity:
            larger = <Asked *>realloc(self.each, count * sizeof(Asked))
            if larger == NULL:
                raise MemoryError
            memset(larger + self.capacity, 0, (count - self.capacity) * sizeof(Asked))
            self.each = larger
            self.capacity = count
        return 0

    cdef int clear(self) except -1:
        """Let go of what has been read."""
        cdef Py_ssize_t index, count = self.count
        self.count = self.ahead = 0
        self.is_unread = False
        for index in range(count):
            Py_XDECREF(self.each[index].key)
            Py_XDECREF(self.each[index].read)
            self.each[index].key = self.each[index].read = NULL
        return 0

    cdef int own(self, const char *at, const char *end, object source, object view, int64_t version) except -1:
        """Outlive the data that a scanner has found the calls in, from `at` to `end`."""
        cdef Py_ssize_t index, shift
        cdef Call *call
        self.text = at[:end - at]
        self.source = source
        self.view = view
        self.version = version
        shift = PyBytes_AS_STRING(self.text) - at
        for index in range(self.count):
            call = &self.each[index].text
            call.name += shift
            call.id += shift
            if call.params != NULL:
                call.params += shift
        return 0

    def __len__(self):
        return self.count

    def __getitem__(self, Py_ssize_t index):
        cdef Asked *asked
        cdef object params
        if not 0 <= index < self.count:
            raise IndexError(f"call {index} of {self.count}")
        if self.entries is not None:
            return self.entries[index]
        asked = &self.each[index]
        if asked.read != NULL and type(<object>asked.read) is list:
            params = <object>asked.read
        elif asked.text.params == NULL:
            params = []
        else:
            params = loads(asked.text.params[:asked.text.params_length])
        return self._name(&asked.text), params, asked.text.id[:asked.text.id_length]

    @property
    def unread_bytes(self):
        cdef Py_ssize_t index, total = 0
        if self.is_unread:
            for index in range(self.count):
                if self.each[index].read == NULL:
                    total += self.each[index].text.params_length
        return total

    def read(self, parse):
        cdef Py_ssize_t index
        cdef Call *call
        cdef list params
        for index in range(self.count if self.is_unread else 0):
            if self.each[index].read == NULL:
                call = &self.each[index].text
                params = <list?>parse(call.params[:call.params_length])
                Py_INCREF(params)
                self.each[index].read = <PyObject *>params
        self.is_unread = False

    def name(self, Py_ssize_t index):
        if self.entries is not None or not 0 <= index < self.count:
            return self[index][0]
        return self._name(&self.each[index].text)

    cdef str _name(self, Call *call):
        return PyUnicode_DecodeASCII(call.name, min(call.name_length, <Py_ssize_t>NAME_LENGTH_MAX), NULL)

    def fill(self, Outcomes outcomes not None, view, int64_t until_ns):
        if self.source is not None and view is self.view and outcomes.count == self.count:
            self.source.go_on(self, outcomes, until_ns)


@cython.final
cdef class Outcomes:
    def __init__(self, Py_ssize_t count):
        if count < 0:
            raise ValueError(f"{count} outcomes")
        self.begin(count)

    def __dealloc__(self):
        cdef Py_ssize_t index
        for index in range(self.count):
            Py_XDECREF(self.each[index].value)
            Py_XDECREF(self.each[index].raised)
        free(self.each)

    cdef int begin(self, Py_ssize_t count) except -1:
        """Be as many that are pending."""
        cdef Outcome *larger
        self.clear()
        if count > self.capacity:
            larger = <Outcome *>realloc(self.each, count * sizeof(Outcome))
            if larger == NULL:
                raise MemoryError
            self.each = larger
            self.capacity = count
        if count:
            memset(self.each, 0, count * sizeof(Outcome))
        self.count = count
        return 0

    cdef int clear(self) except -1:
        cdef Py_ssize_t index, count = self.count
        self.errors = None
        self.count = 0
        for index in range(count):
            Py_XDECREF(self.each[index].value)
            Py_XDECREF(self.each[index].raised)
        return 0

    cdef int set(self, Py_ssize_t index, bytes value) except -1:
        cdef Outcome *outcome = &self.each[index]
        cdef PyObject *before = outcome.value
        Py_INCREF(value)
        outcome.value = <PyObject *>value
        Py_XDECREF(before)
        before = outcome.raised
        outcome.raised = NULL
        Py_XDECREF(before)
        return 0

    cdef int _check(self, Py_ssize_t index) except -1:
        if not 0 <= index < self.count:
            raise IndexError(f"outcome {index} of {self.count}")
        return 0

    def set_result(self, Py_ssize_t index, bytes result):
        self._check(index)
        self.set(index, b"" if result is None else result)
        self.each[index].is_error = False

    def set_error(self, Py_ssize_t index, error not None, bytes text not None):
        self._check(index)
        self.set(index, text)
        self.each[index].is_error = True
        if self.errors is None:
            self.errors = []
        self.errors.append(error)

    cpdef Py_ssize_t next_pending(self, Py_ssize_t start=0) noexcept:
        cdef Py_ssize_t index
        for index in range(max(0, start), self.count):
            if self.each[index].value == NULL:
                return index
        return self.count

    def size(self, Py_ssize_t index):
        self._check(index)
        return 0 if self.each[index].value == NULL else PyBytes_GET_SIZE(<bytes>self.each[index].value)

    def begin_call(self, Py_ssize_t index):
        self._check(index)
        self.each[index].elapsed -= clock_ns()
        return None if self.each[index].raised == NULL else <object>self.each[index].raised

    def started_ns(self, Py_ssize_t index):
        self._check(index)
        if self.each[index].elapsed < 0:
            return -self.each[index].elapsed
        return clock_ns() - self.each[index].elapsed

    def is_charged(self, Py_ssize_t index):
        self._check(index)
        return self.each[index].is_charged

    def __len__(self):
        return self.count


# ---- rendering --------------------------------------------------------------------------------


@cython.final
cdef class Buffer:
    def __cinit__(self, Py_ssize_t copied_bytes_max, Py_ssize_t text_bytes_max, bint omits_absent, pack=None):
        self.copied_bytes_max = copied_bytes_max
        self.text_bytes_max = text_bytes_max
        self.omits_absent = omits_absent
        self.pack = pack
        self.member = None if pack is None else Member()

    def __dealloc__(self):
        free(self.data)

    cdef int begin(self) except -1:
        """Be empty."""
        self.used = self.flushed = 0
        self.chunks = None
        self.is_packing = False
        return 0

    cdef int begin_packing(self) except -1:
        """What is put from here on goes into the member."""
        self.member.begin()
        self.is_packing = True
        return 0

    cdef int end_packing(self) except -1:
        self.member.finish()
        self.is_packing = False
        return 0

    cdef int put(self, const char *text, Py_ssize_t length) except -1:
        cdef Py_ssize_t wanted = self.used + length
        cdef char *larger
        if length == 0:
            return 0  # data may be NULL still, which memcpy must not get
        if self.is_packing:
            return self.member.add(text, length)
        if wanted > self.text_bytes_max:
            self.flush()
            wanted = length
        if wanted > self.capacity:
            wanted *= 2
            larger = <char *>realloc(self.data, wanted)
            if larger == NULL:
                raise MemoryError
            self.data = larger
            self.capacity = wanted
        memcpy(self.data + self.used, text, length)
        self.used += length
        return 0

    cdef int put_value(self, bytes value, bint is_kept) except -1:
        cdef Py_ssize_t length = PyBytes_GET_SIZE(value)
        if self.is_packing and length >= APART_BYTES_MIN:
            return self.member.add_packed(<Packed?>self.pack(value, is_kept))
        if self.is_packing or length <= self.copied_bytes_max:
            return self.put(PyBytes_AS_STRING(value), length)
        self.flush()
        self.chunks.append(value)
        self.flushed += length
        return 0

    cdef int flush(self) except -1:
        """Make a chunk of what has been collected, so that a large value can follow as it is."""
        if self.chunks is None:
            self.chunks = []
        if self.used:
            self.chunks.append(PyBytes_FromStringAndSize(self.data, self.used))
            self.flushed += self.used
            self.used = 0
        return 0

    cdef object take(self):
        """The bytes, or the chunks if there are some; None if it is empty."""
        cdef object taken = self.chunks
        if self.used + self.flushed == 0:
            return None
        if taken is None:
            taken = PyBytes_FromStringAndSize(self.data, self.used)
        else:
            self.flush()
        self.drop()
        return taken

    cdef int drop(self) noexcept:
        self.chunks = None
        if self.capacity > KEPT_CAPACITY_MAX:
            free(self.data)
            self.data = NULL
            self.capacity = 0
        return 0


cdef Py_ssize_t rendered_length(Calls calls, Outcomes outcomes, bint omits_absent) noexcept:
    """Bytes of the body; no call is a notification."""
    cdef Py_ssize_t length = calls.count + 1 if calls.is_batch else 0  # brackets and commas
    cdef Py_ssize_t index, size
    for index in range(calls.count):
        size = PyBytes_GET_SIZE(<bytes>outcomes.each[index].value)
        length += BEFORE_ID_BYTES + calls.each[index].text.id_length + 1
        if size:
            length += size + (BEFORE_ERROR_BYTES if outcomes.each[index].is_error else BEFORE_RESULT_BYTES)
        elif not omits_absent:
            length += ABSENT_RESULT_BYTES
    return length


cdef inline int _put(Buffer out, const char *text, Py_ssize_t length) except -1:
    # Fast path. If: there is room, and data for it.  Then: nothing is called.
    if out.is_packing or length >= min(out.capacity, out.text_bytes_max) - out.used:
        return out.put(text, length)
    memcpy(out.data + out.used, text, length)
    out.used += length
    return 0


cdef int render_into(Buffer out, Calls calls, Outcomes outcomes) except -1:
    cdef Py_ssize_t index
    cdef bint is_first = True
    cdef PyObject *value
    cdef Call *call
    for index in range(calls.count):
        call = &calls.each[index].text
        if call.id == NULL:
            continue
        if calls.is_batch:
            _put(out, b"[" if is_first else b",", 1)
            is_first = False
        _put(out, BEFORE_ID, BEFORE_ID_BYTES)
        _put(out, call.id, call.id_length)
        value = outcomes.each[index].value
        if PyBytes_GET_SIZE(<bytes>value) > 0:
            if outcomes.each[index].is_error:
                _put(out, BEFORE_ERROR, BEFORE_ERROR_BYTES)
            else:
                _put(out, BEFORE_RESULT, BEFORE_RESULT_BYTES)
            out.put_value(<bytes>value, outcomes.each[index].is_kept)
        elif not out.omits_absent:
            _put(out, ABSENT_RESULT, ABSENT_RESULT_BYTES)
        _put(out, b"}", 1)
    if calls.is_batch and not is_first:
        _put(out, b"]", 1)
    return 0


def render(Calls calls not None, Outcomes outcomes not None, *, bint omits_absent=False):
    # Around the values there are pieces that are too short to be compressed apart.
    cdef Buffer out = Buffer.__new__(Buffer, 0, APART_BYTES_MIN - 1, omits_absent)
    cdef object taken
    if outcomes.count != calls.count or outcomes.next_pending() != calls.count:
        raise ValueError("calls without an outcome")
    render_into(out, calls, outcomes)
    taken = out.take()
    return [taken] if type(taken) is bytes else taken
