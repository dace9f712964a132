# Whole simple requests of one read.  The stub (simple_request.pyi) says what everything does.
#
# Everything here may say "not simple" at any time, and does so wherever being sure would take thought:
# the strict path reads the same bytes again.  What it must never do is read a request differently.

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp

from fastnode._ext.wire.clock cimport clock_ns
from fastnode._ext.wire.call_meter cimport CallMeter
from fastnode._ext.wire.calls cimport Buffer, Calls, Outcome, Outcomes, render_into, rendered_length
from fastnode._ext.wire.encode cimport TEXT_NUMBER_DIGITS_MAX, text_put_number
from fastnode._ext.wire.cached_responses cimport CachedResponses, Method
from fastnode._ext.wire.payer cimport Payer
from fastnode._ext.wire.request_text cimport ORIGIN, Head, read_call, read_head
from fastnode._ext.wire.usual_params cimport skip_blanks

cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX

cdef enum:
    KNOWN_HEAD_BYTES_MAX = 2048
    BATCH_CALLS_MAX = 1000      # a larger one is not simple
    COPIED_BYTES_MAX = 65536    # a larger result is sent from where it is
    CODINGS_MAX = 256
    COMPRESSED_BYTES_MAX = 262144   # more is not compressed anew on the event loop: it would take longer than 0.4 ms
    PACKED_ID_BYTES_MAX = 64

# What an answer is sent in.
cdef enum:
    UNKNOWN_CODING = -1
    PLAIN = 0
    GZIP = 1
    OTHER_CODING = 2


@cython.final
cdef class Published:
    def __init__(self, value):
        self.value = value

    def publish(self, value):
        # The old value may run code when it goes: not before the new one is there with its version.
        cdef object old = self.value
        self.value = value
        self.version += 1

    def __call__(self):
        return self.value


@cython.final
cdef class SimpleRequests:
    def __cinit__(
        self,
        *,
        Py_ssize_t head_bytes_max,
        Py_ssize_t headers_max,
        Py_ssize_t body_bytes_max,
        Py_ssize_t depth_max,
        Py_ssize_t batch_calls_max,
        Py_ssize_t coded_bytes_min,
        bint omits_absent,
        CachedResponses results not None,
        source,
        renew,
        choose_coding,
    ):
        self._head_bytes_max = head_bytes_max
        self._headers_max = headers_max
        self._body_bytes_max = body_bytes_max
        self._depth_max = depth_max
        self._batch_calls_max = min(batch_calls_max, BATCH_CALLS_MAX)
        self._coded_bytes_min = coded_bytes_min
        self._published = source if type(source) is Published else None
        self._results = results
        self._source = source
        self._renew = renew
        self._choose_coding = choose_coding
        self._codings = {}
        self._seen = -1
        self._calls = Calls.__new__(Calls)
        self._outcomes = Outcomes.__new__(Outcomes)
        self.out = Buffer.__new__(Buffer, COPIED_BYTES_MAX, PY_SSIZE_T_MAX, omits_absent, (<object>results).pack)
        self._known_head = self._head_plain = self._head_packed = self._end = b""
        self.is_open = True
        self.leaves_origin = False

    def set_head(self, bytes before_length not None, bytes before_packed_length not None, bytes behind_length not None):
        self._head_plain = before_length
        self._head_packed = before_packed_length
        self._end = behind_length

    def set_meters(self, CallMeter calls, add_batch):
        self._meter = calls
        self._add_batch = add_batch
        self._results.set_rows(calls)

    # ---- a burst ---------------------------------------------------------------------------

    cpdef object begin(self):
        cdef Published published = self._published
        cdef object view
        if published is None:
            view = self._source()
        elif published.version == self._seen:
            return published.value
        else:
            self._seen = published.version
            view = published.value
        self._renew(view)
        return view

    def answer(self, bytes data not None, Py_ssize_t start, Py_ssize_t bytes_max, view=None, int64_t until_ns=0):
        if not 0 <= start <= PyBytes_GET_SIZE(data):
            raise ValueError(f"position {start} in {len(data)} bytes")
        self.scan(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), start, bytes_max, view, until_ns)
        return self.out.take()

    cdef int scan(
        self, const char *data, Py_ssize_t size, Py_ssize_t start, Py_ssize_t bytes_max, object view, int64_t until_ns
    ) except -1:
        """As :meth:`answer`; what is collected is to be taken or dropped."""
        cdef const char *end = data + size
        cdef const char *at = data + start
        cdef const char *body
        cdef const char *end_of_body
        cdef int64_t started
        cdef Buffer out = self.out
        self.count = 0
        self.calls = self.outcomes = None
        self._until = until_ns
        out.begin()
        started = self.started or clock_ns()
        self.started = 0
        while at < end:
            body = self._read_head(at, end) if self.payer is None else self._read_paid_head(at, end)
            if body == NULL or end - body < self._length:
                break
            end_of_body = body + self._length
            self.end = end_of_body - data
            if not self._answer_request(body, end_of_body, view, &started):
                break
            self.count += 1
            at = end_of_body
            if out.used + out.flushed > bytes_max:
                break
            if until_ns and at < end and clock_ns() > until_ns:
                break
        self.position = at - data
        self.size = out.used + out.flushed
        return 0

    # ---- requests --------------------------------------------------------------------------

    cdef bint _answer_request(self, const char *at, const char *end, object view, int64_t *started) except -1:
        """Whether a body is answered here; a simple one that is not is handed over with the outcomes that it has."""
        cdef Calls calls = self._calls
        cdef Outcomes outcomes = self._outcomes
        if not self._read_calls(calls, at, end) or not self._results.read(calls, view):
            calls.clear()
            return False
        outcomes.begin(calls.count)
        if self._results.fill(calls, outcomes, view, self.payer, self._until, started) and self._render():
            calls.clear()
            outcomes.clear()
            return True
        calls.own(at, end, self._results, view, self._results.version)
        self.calls, self._calls = calls, Calls.__new__(Calls)
        self.outcomes, self._outcomes = outcomes, Outcomes.__new__(Outcomes)
        self.accepted = self._accepted
        return False

    cdef bint _read_calls(self, Calls calls, const char *at, const char *end) except -1:
        """Whether a body is a simple call, or a batch of them."""
        cdef Py_ssize_t count = 0
        at = skip_blanks(at, end)
        calls.clear()
        calls.reserve(1)
        calls.is_batch = at < end and at[0] == c"["
        if not calls.is_batch:
            at = read_call(at, end, self._depth_max - 1, &calls.each[0].text)
            calls.count = 1
            return at != NULL and skip_blanks(at, end) == end
        while count < self._batch_calls_max:
            if count == calls.capacity:
                calls.reserve(2 * count)
            at = read_call(at + 1, end, self._depth_max - 2, &calls.each[count].text)
            if at == NULL:
                return False
            count += 1
            calls.count = count
            at = skip_blanks(at, end)
            if at == end:
                return False
            if at[0] == c"]":
                return skip_blanks(at + 1, end) == end
            if at[0] != c",":
                return False
        return False

    # ---- answers ---------------------------------------------------------------------------

    cdef bint _render(self) except -1:
        """Answer calls that have their outcomes, and count them.  False: the body has to be coded elsewhere."""
        cdef Calls calls = self._calls
        cdef Outcomes outcomes = self._outcomes
        cdef Buffer out = self.out
        cdef Py_ssize_t length = rendered_length(calls, outcomes, out.omits_absent)
        cdef Py_ssize_t index
        cdef int coding = PLAIN
        if self._accepted is not None and length > self._coded_bytes_min:
            coding = self._coding() if self._accepted_coding == UNKNOWN_CODING else self._accepted_coding
        if coding == PLAIN:
            self._begin_answer(self._head_plain, length)
            render_into(out, calls, outcomes)
        elif coding == GZIP and self._can_pack(length):
            out.begin_packing()
            render_into(out, calls, outcomes)
            out.end_packing()
            self._begin_answer(self._head_packed, out.member.size)
            out.put(<const char *>out.member.data, out.member.size)
        else:
            return False
        if self._meter is not None:
            if calls.is_batch:
                self._add_batch(calls.count)
            for index in range(calls.count):
                self._meter.add((<Method>calls.each[index].method).row, outcomes.each[index].elapsed)
        return True

    cdef int _coding(self) except -1:
        """What a client that names codings takes."""
        cdef object coding = self._codings.get(self._accepted)
        if coding is None:
            chosen = self._choose_coding(self._accepted)
            coding = PLAIN if chosen is None else GZIP if chosen == "gzip" else OTHER_CODING
            if len(self._codings) >= CODINGS_MAX:
                self._codings.clear()
            self._codings[self._accepted] = coding
        if self._accepted is self._known_accepted:
            self._known_coding = coding
        return coding

    cdef bint _can_pack(self, Py_ssize_t length) except -1:
        """Whether not too much of an answer would have to be compressed here."""
        cdef Py_ssize_t index
        cdef Outcome *outcome
        for index in range(self._calls.count):
            outcome = &self._outcomes.each[index]
            if self._calls.each[index].text.id_length > PACKED_ID_BYTES_MAX:
                return False
            if length > COMPRESSED_BYTES_MAX and outcome.is_kept and self._results.find_packed(<bytes>outcome.value):
                length -= PyBytes_GET_SIZE(<bytes>outcome.value)
        return length <= COMPRESSED_BYTES_MAX

    cdef int _begin_answer(self, bytes head, Py_ssize_t length) except -1:
        cdef uint8_t[TEXT_NUMBER_DIGITS_MAX] digits
        self.out.put(PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head))
        self.out.put(<const char *>digits, text_put_number(digits, length) - digits)
        self.out.put(PyBytes_AS_STRING(self._end), PyBytes_GET_SIZE(self._end))
        return 0

    # ---- heads -----------------------------------------------------------------------------

    cdef const char *_read_paid_head(self, const char *at, const char *end) except? NULL:
        """As :meth:`_read_head`; and who sent it."""
        cdef Payer payer = self.payer
        at = payer.find_body(at, end, self._head_bytes_max, self._headers_max, self._body_bytes_max)
        self._length = payer.length
        self._accepted = payer.accepted
        self._accepted_coding = UNKNOWN_CODING
        return at

    cdef const char *_read_head(self, const char *at, const char *end) except? NULL:
        """The start of the body; NULL if the head is not simple or not whole."""
        cdef Py_ssize_t known = PyBytes_GET_SIZE(self._known_head)
        cdef const char *body
        cdef Head head
        # Fast path. If: the head is the last one again.  Then: what it says is known.
        if known and end - at >= known and memcmp(at, PyBytes_AS_STRING(self._known_head), known) == 0:
            self._length = self._known_length
            self._accepted = self._known_accepted
            self._accepted_coding = self._known_coding
            return at + known
        body = read_head(at, end, self._head_bytes_max, self._headers_max, &head)
        if body == NULL or head.length > self._body_bytes_max or (self.leaves_origin and head.seen & ORIGIN):
            return NULL
        self._length = head.length
        self._accepted_coding = UNKNOWN_CODING
        self._accepted = None if head.accepted == NULL else head.accepted[:head.accepted_length]
        if body - at <= KNOWN_HEAD_BYTES_MAX:
            self._known_head = at[:body - at]
            self._known_length = self._length
            self._known_accepted = self._accepted
            self._known_coding = UNKNOWN_CODING
        return body
