# Whole simple requests of one read.  The stub (simple_request.pyi) says what everything does.
#
# Everything here may say "not simple" at any time, and does so wherever being sure would take thought:
# the strict path reads the same bytes again.  What it must never do is read a request differently.

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy

from fastnode._ext.clock cimport clock_ns
from fastnode._ext.wire.call_meter cimport CallMeter
from fastnode._ext.wire.encode cimport TEXT_NUMBER_DIGITS_MAX, text_put_number
from fastnode._ext.wire.cached_responses cimport AnsweredCall, CachedResponses, Method
from fastnode._ext.wire.packed cimport APART_BYTES_MIN, Member
from fastnode._ext.wire.payer cimport Payer
from fastnode._ext.wire.request_text cimport (
    BEFORE_ID_BYTES, BEFORE_RESULT_BYTES, ORIGIN, Head, answer_length, read_call, read_head
)
from fastnode._ext.wire.usual_params cimport skip_blanks

cdef enum:
    KNOWN_HEAD_BYTES_MAX = 2048
    KEPT_CAPACITY_MAX = 1048576 # written out, because a debug build cannot compute in an enum
    BATCH_CALLS_MAX = 1000      # a larger one is not simple
    COPIED_BYTES_MAX = 65536    # a larger result is sent from where it is
    RESULTS_BYTES_MAX = 4194304 # of a batch with more, the strict path asks for the memory
    CODINGS_MAX = 256
    COMPRESSED_BYTES_MAX = 262144   # more is not compressed anew on the event loop: it would take longer than 0.4 ms
    PACKED_ID_BYTES_MAX = 64

# What an answer is sent in.
cdef enum:
    UNKNOWN_CODING = -1
    PLAIN = 0
    GZIP = 1
    OTHER_CODING = 2

cdef const char *BEFORE_ID = b'{"jsonrpc":"2.0","id":'
cdef const char *BEFORE_RESULT = b',"result":'


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
        Py_ssize_t response_bytes_max,
        Py_ssize_t coded_bytes_min,
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
        self._results_bytes_max = min(response_bytes_max, RESULTS_BYTES_MAX)
        self._coded_bytes_min = coded_bytes_min
        self._published = source if type(source) is Published else None
        self._results = results
        self._source = source
        self._renew = renew
        self._choose_coding = choose_coding
        self._codings = {}
        self._seen = -1
        self._calls = <AnsweredCall *>calloc(self._batch_calls_max + 1, sizeof(AnsweredCall))
        if self._calls == NULL:
            raise MemoryError
        self._member = Member()
        self._known_head = self._head_plain = self._head_packed = self._end = b""
        self.is_open = True
        self.leaves_origin = False

    def __dealloc__(self):
        free(self._buffer)
        free(self._calls)

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

    def answer(
        self, bytes data not None, Py_ssize_t start, Py_ssize_t bytes_max, view=None, int64_t until_ns=0,
        list unfinished=None,
    ):
        if not 0 <= start <= PyBytes_GET_SIZE(data):
            raise ValueError(f"position {start} in {len(data)} bytes")
        self.scan(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), start, bytes_max, view, until_ns, unfinished)
        return self.take()

    cdef int scan(
        self, const char *data, Py_ssize_t size, Py_ssize_t start, Py_ssize_t bytes_max, object view, int64_t until_ns,
        list unfinished,
    ) except -1:
        """As :meth:`answer`; what is collected is to be taken or dropped."""
        cdef const char *end = data + size
        cdef const char *at = data + start
        cdef const char *body
        cdef const char *end_of_body
        cdef int64_t started
        cdef bint is_answered
        self.count = 0
        self.method = self.body = self.batch = self.outcomes = None
        self.is_late = False
        self.unfinished = unfinished
        self._until = until_ns
        self._used = self._flushed = 0
        self._chunks = None
        started = self.started or clock_ns()
        self.started = 0
        while at < end:
            body = self._read_head(at, end) if self.payer is None else self._read_paid_head(at, end)
            if body == NULL or end - body < self._length:
                break
            end_of_body = body + self._length
            body = skip_blanks(body, end_of_body)
            self.end = end_of_body - data
            if body < end_of_body and body[0] == c"[":
                is_answered = self._answer_batch(body, end_of_body, view, &started)
            else:
                is_answered = self._answer_single(body, end_of_body, view, &started)
            if not is_answered:
                if self.payer is not None and self.method is None and self.body is None and self.batch is None:
                    self.payer.refund()
                self.accepted = self._accepted
                break
            self.count += 1
            at = end_of_body
            self.unfinished = None
            if self._flushed + self._used > bytes_max:
                break
            if until_ns and at < end and clock_ns() > until_ns:
                self.is_late = True
                break
        self.position = at - data
        self.size = self._flushed + self._used
        return 0

    # ---- requests --------------------------------------------------------------------------

    cdef bint _answer_single(self, const char *at, const char *end, object view, int64_t *started) except -1:
        """Whether it is a call that is answered here; a simple one that is not is described for the caller."""
        cdef AnsweredCall *call = self._calls
        cdef const char *rest = read_call(at, end, self._depth_max - 1, &call.text)
        cdef Method method
        cdef bytes result = None
        if rest == NULL or skip_blanks(rest, end) != end:
            return False
        method = self._results.find(call.text.name, call.text.name_length)
        if self.payer is not None and (method is None or not self.payer.pay(method.name)):
            return False
        self._results.set_batch(NULL, 0)
        if method is not None:
            result = self._result_of(call, method, view)
        if result is not None:
            if self._meter is not None:
                self._meter.add(call.row, self._lap(started))
            if self._answer(1, False):
                return True
        elif method is not None and self._results.outcome is not None:
            self.outcomes = [(self._results.outcome, self._lap(started))]
        self.method = PyUnicode_DecodeASCII(call.text.name, call.text.name_length, NULL)
        self.id_text = call.text.id[:call.text.id_length]
        self.params = None if call.text.params == NULL else call.text.params[:call.text.params_length]
        return False

    cdef bint _answer_batch(self, const char *at, const char *end, object view, int64_t *started) except -1:
        """Whether it is a batch whose results can all be had here."""
        cdef Py_ssize_t count = self._read_batch(at, end), index, results_length = 0, finished = 0
        cdef AnsweredCall *call
        cdef list results = []
        cdef Method method
        cdef bytes result
        if count == 0:
            return False
        if self.unfinished is not None:
            results = self.unfinished
            self.unfinished = None
            finished = len(results)
        if self.payer is not None:  # before anything is done
            for index in range(count):
                call = &self._calls[index]
                method = self._results.find(call.text.name, call.text.name_length)
                if method is None or not self.payer.pay(method.name):
                    return False
        self._results.set_batch(self._calls, count)
        for index in range(count):
            call = &self._calls[index]
            method = self._results.find(call.text.name, call.text.name_length)
            if index < finished:
                result, call.elapsed = results[index]
                results[index] = result
                call.row = method.row
                call.is_kept = False
            elif index > finished and self._until and started[0] > self._until:
                self.unfinished = self._with_times(results)
                self.is_late = True
                return False
            else:
                result = None if method is None else self._result_of(call, method, view)
                if result is None:
                    return self._leave_batch(at, end, results, None if method is None else self._results.outcome, started)
                results.append(result)
                call.elapsed = self._lap(started)
            call.result = <PyObject *>result
            results_length += PyBytes_GET_SIZE(result)
            if results_length > self._results_bytes_max:
                return self._leave_batch(at, end, results[:index + 1], None, started)
        if self._add_batch is not None:
            self._add_batch(count)
        for index in range(0 if self._meter is None else count):
            self._meter.add(self._calls[index].row, self._calls[index].elapsed)
        return self._answer(count, True)

    cdef list _with_times(self, list results):
        return [(results[index], self._calls[index].elapsed) for index in range(len(results))]

    cdef bint _leave_batch(self, const char *at, const char *end, list results, object outcome, int64_t *started) except -1:
        """What its calls have come to so far is for the caller to go on with: no handler runs twice."""
        self.batch = at[:end - at]
        self.outcomes = self._with_times(results)
        if outcome is not None:
            self.outcomes.append((outcome, self._lap(started)))
        return False

    cdef Py_ssize_t _read_batch(self, const char *at, const char *end) noexcept:
        """How many calls a batch has; 0 if it is not simple."""
        cdef Py_ssize_t count = 0
        while count < self._batch_calls_max:
            at = read_call(at + 1, end, self._depth_max - 2, &self._calls[count].text)
            if at == NULL:
                return 0
            count += 1
            at = skip_blanks(at, end)
            if at == end:
                return 0
            if at[0] == c"]":
                return count if skip_blanks(at + 1, end) == end else 0
            if at[0] != c",":
                return 0
        return 0

    cdef inline bytes _result_of(self, AnsweredCall *call, Method method, object view):
        cdef bytes result
        if call.text.is_empty:
            result = self._results.bare_of(method, view)
        else:
            result = self._results.result_of(method, call.text.params, call.text.params_length, view)
        call.row = method.row
        call.result = <PyObject *>result
        call.is_kept = self._results.is_cached
        return result

    cdef int64_t _lap(self, int64_t *started) noexcept:
        """Nanoseconds that a call took; the next one begins now."""
        cdef int64_t now = clock_ns()
        cdef int64_t elapsed = now - started[0]
        started[0] = now
        return elapsed

    # ---- answers ---------------------------------------------------------------------------

    cdef bint _answer(self, Py_ssize_t count, bint is_batch) except -1:
        """Answer the calls that were read last.  False: the body is there, but it has to be coded elsewhere."""
        cdef Py_ssize_t length = count + 1 if is_batch else 0  # brackets and commas
        cdef Py_ssize_t index
        cdef int coding = PLAIN
        for index in range(count):
            length += answer_length(&self._calls[index].text, PyBytes_GET_SIZE(<bytes>self._calls[index].result))
        if self._accepted is not None and length > self._coded_bytes_min:
            coding = self._coding() if self._accepted_coding == UNKNOWN_CODING else self._accepted_coding
        if coding == PLAIN:
            self._begin_answer(self._head_plain, length)
            for index in range(count):
                if is_batch:
                    self._append(b"," if index else b"[", 1)
                self._add_call(&self._calls[index])
            if is_batch:
                self._append(b"]", 1)
        elif coding == GZIP and self._can_pack(count, length):
            self._add_member(count, is_batch)
        else:
            self.body = self._pieces(count, is_batch)
            return False
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

    cdef bint _can_pack(self, Py_ssize_t count, Py_ssize_t length):
        """Whether not too much of an answer would have to be compressed here."""
        cdef Py_ssize_t index
        cdef AnsweredCall *call
        for index in range(count):
            call = &self._calls[index]
            if call.text.id_length > PACKED_ID_BYTES_MAX:
                return False
            if length > COMPRESSED_BYTES_MAX and call.is_kept and self._results.find_packed(<bytes>call.result):
                length -= PyBytes_GET_SIZE(<bytes>call.result)
        return length <= COMPRESSED_BYTES_MAX

    cdef int _add_member(self, Py_ssize_t count, bint is_batch) except -1:
        """An answer in gzip, of results that are compressed once."""
        cdef Member member = self._member
        cdef Py_ssize_t index
        cdef AnsweredCall *call
        cdef bytes result
        member.begin()
        for index in range(count):
            call = &self._calls[index]
            result = <bytes>call.result
            if is_batch:
                member.add(b"," if index else b"[", 1)
            member.add(BEFORE_ID, BEFORE_ID_BYTES)
            member.add(call.text.id, call.text.id_length)
            if PyBytes_GET_SIZE(result) > 0:
                member.add(BEFORE_RESULT, BEFORE_RESULT_BYTES)
            if PyBytes_GET_SIZE(result) < APART_BYTES_MIN:
                member.add(PyBytes_AS_STRING(result), PyBytes_GET_SIZE(result))
            else:
                member.add_packed(self._results.pack(result, call.is_kept))
            member.add(b"}", 1)
        if is_batch:
            member.add(b"]", 1)
        member.finish()
        self._begin_answer(self._head_packed, member.size)
        self._append(<const char *>member.data, member.size)
        return 0

    cdef list _pieces(self, Py_ssize_t count, bint is_batch):
        """The body as the strict path has it: results apart from what is around them."""
        cdef list pieces = []
        cdef Py_ssize_t index
        cdef AnsweredCall *call
        cdef bytes text
        for index in range(count):
            call = &self._calls[index]
            text = call.text.id[:call.text.id_length]
            if is_batch:
                pieces.append(b"," if index else b"[")
            if PyBytes_GET_SIZE(<bytes>call.result) == 0:
                pieces.append(b'{"jsonrpc":"2.0","id":%b}' % text)
            else:
                pieces += (b'{"jsonrpc":"2.0","id":%b,"result":' % text, <bytes>call.result, b"}")
        if is_batch:
            pieces.append(b"]")
        return pieces

    cdef int _begin_answer(self, bytes head, Py_ssize_t length) except -1:
        cdef uint8_t[TEXT_NUMBER_DIGITS_MAX] digits
        self._append(PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head))
        self._append(<const char *>digits, text_put_number(digits, length) - digits)
        self._append(PyBytes_AS_STRING(self._end), PyBytes_GET_SIZE(self._end))
        return 0

    cdef int _add_call(self, AnsweredCall *call) except -1:
        cdef bytes result = <bytes>call.result
        self._append(BEFORE_ID, BEFORE_ID_BYTES)
        self._append(call.text.id, call.text.id_length)
        if PyBytes_GET_SIZE(result) > 0:
            self._append(BEFORE_RESULT, BEFORE_RESULT_BYTES)
            if PyBytes_GET_SIZE(result) > COPIED_BYTES_MAX:
                self._flush()
                self._chunks.append(result)
                self._flushed += PyBytes_GET_SIZE(result)
            else:
                self._append(PyBytes_AS_STRING(result), PyBytes_GET_SIZE(result))
        self._append(b"}", 1)
        return 0

    cdef int _append(self, const char *data, Py_ssize_t length) except -1:
        cdef Py_ssize_t wanted = self._used + length
        cdef char *larger
        if wanted > self._capacity:
            wanted *= 2
            larger = <char *>realloc(self._buffer, wanted)
            if larger == NULL:
                raise MemoryError
            self._buffer = larger
            self._capacity = wanted
        memcpy(self._buffer + self._used, data, length)
        self._used += length
        return 0

    cdef int _flush(self) except -1:
        """What has been collected becomes a chunk, so that a large result can follow as it is."""
        if self._chunks is None:
            self._chunks = []
        self._chunks.append(PyBytes_FromStringAndSize(self._buffer, self._used))
        self._flushed += self._used
        self._used = 0
        return 0

    cdef object take(self):
        cdef object answers = self._chunks
        if self.size == 0:
            return None
        if answers is None:
            answers = PyBytes_FromStringAndSize(self._buffer, self._used)
        elif self._used:
            self._flush()
        self.drop()
        return answers

    cdef int drop(self) noexcept:
        self._chunks = None
        if self._capacity > KEPT_CAPACITY_MAX:
            free(self._buffer)
            self._buffer = NULL
            self._capacity = 0
        return 0

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
