# Whole simple requests of one read.  The stub (simple_request.pyi) says what everything does.
#
# Everything here may say "not simple" at any time, and does so wherever being sure would take thought:
# the strict path reads the same bytes again.  What it must never do is read a request differently.

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memchr, memcmp, memcpy

from fastnode._ext.clock cimport clock_ns
from fastnode._ext.wire.call_meter cimport CallMeter
from fastnode._ext.wire.encode cimport TEXT_NUMBER_DIGITS_MAX, text_put_number
from fastnode._ext.wire.cached_responses cimport CachedResponses, Method
from fastnode._ext.wire.packed cimport Packed
from fastnode._ext.wire.request_text cimport (
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, FORBIDDEN, HOST, MEMBER_ID, MEMBER_JSONRPC, MEMBER_METHOD, MEMBER_PARAMS,
    NUMBER_DIGITS_MAX, ORDINARY, is_in_name, known_header, member_of, skip_array, skip_plain_id, skip_text, strncasecmp,
)
from fastnode._ext.wire.usual_params cimport skip_blanks

cdef enum:
    REQUEST_LINE_BYTES = 17
    BEFORE_ID_BYTES = 22
    BEFORE_RESULT_BYTES = 10
    LENGTH_DIGITS_MAX = 9
    KNOWN_HEAD_BYTES_MAX = 2048
    KEPT_CAPACITY_MAX = 1048576 # written out, because a debug build cannot compute in an enum
    BATCH_CALLS_MAX = 1000      # a larger one is not simple
    COPIED_BYTES_MAX = 65536    # a larger result is sent from where it is
    RESULTS_BYTES_MAX = 4194304 # of a batch with more, the strict path asks for the memory
    CODINGS_MAX = 256
    PACKED_BYTES_MAX = 65536    # a larger result is not packed on the event loop
    PACKED_ID_BYTES_MAX = 64

# What an answer is sent in.
cdef enum:
    PLAIN = 0
    GZIP = 1
    OTHER_CODING = 2

cdef const char *REQUEST_LINE = b"POST / HTTP/1.1\r\n"
cdef const char *KEEP_ALIVE = b"keep-alive"
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
        self._calls = <Call *>calloc(self._batch_calls_max + 1, sizeof(Call))
        if self._calls == NULL:
            raise MemoryError
        self._known_head = self._head = self._packed_head = self._end = b""
        self.is_open = True

    def __dealloc__(self):
        free(self._buffer)
        free(self._calls)

    def set_head(
        self, bytes before_length not None, bytes before_packed_length not None, bytes behind_length not None
    ):
        self._head = before_length
        self._packed_head = before_packed_length
        self._end = behind_length

    def set_meters(self, CallMeter calls, add_batch):
        self._meter = calls
        self._add_batch = add_batch
        self._results.set_rows(calls)

    # ---- a burst ---------------------------------------------------------------------------

    def begin(self):
        return self.begin_c()

    cdef object begin_c(self):
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
        return self.answer_c(data, start, bytes_max, view, until_ns, unfinished)

    cdef object answer_c(
        self, bytes data, Py_ssize_t start, Py_ssize_t bytes_max, object view, int64_t until_ns, list unfinished
    ):
        cdef const char *first = PyBytes_AS_STRING(data)
        cdef const char *end = first + PyBytes_GET_SIZE(data)
        cdef const char *at
        cdef const char *body
        cdef const char *end_of_body
        cdef const char *rest
        cdef Call call
        cdef int64_t started = 0
        cdef Method method
        cdef bytes result
        if start < 0 or start > PyBytes_GET_SIZE(data):
            raise ValueError(f"position {start} in {len(data)} bytes")
        at = first + start
        self.count = 0
        self.method = None
        self.body = None
        self.is_late = False
        self.unfinished = unfinished
        self._until = until_ns
        self._used = self._flushed = 0
        self._chunks = None
        if self._meter is not None:
            started = self.started or clock_ns()
        self.started = 0
        while at < end:
            body = self._read_known_head(at, end)
            if body == NULL:
                body = self._read_head(at, end)
            if body == NULL or end - body < self._length:
                break
            end_of_body = body + self._length
            body = skip_blanks(body, end_of_body)
            if body < end_of_body and body[0] == c"[":
                if not self._answer_batch(body, end_of_body, view, &started):
                    self.accepted = self._accepted
                    self.end = end_of_body - first
                    break
            else:
                rest = self._read_call(body, end_of_body, self._depth_max - 1, &call)
                if rest == NULL or skip_blanks(rest, end_of_body) != end_of_body:
                    break
                method = self._results.find(call.name, call.name_length)
                result = None if method is None else self._result_of(&call, method, view)
                if result is not None and self._meter is not None:
                    self._finish(method, &started)
                if result is None or not self._answer_call(&call, result):
                    self.method = PyUnicode_DecodeASCII(call.name, call.name_length, NULL)
                    self.id_text = call.id[:call.id_length]
                    self.params = None if call.params == NULL else call.params[:call.params_length]
                    self.accepted = self._accepted
                    self.end = end_of_body - first
                    break
            self.count += 1
            at = end_of_body
            self.unfinished = None
            if self._flushed + self._used > bytes_max:
                break
            if until_ns and at < end and clock_ns() > until_ns:
                self.is_late = True
                break
        self.position = at - first
        return self._take()

    cdef inline bytes _result_of(self, Call *call, Method method, object view):
        if call.is_empty:
            return self._results.bare_of(method, view)
        return self._results.result_of(method, call.params, call.params_length, view)

    cdef void _finish(self, Method method, int64_t *started) noexcept:
        """Count a call; the next one begins now."""
        cdef int64_t now = clock_ns()
        self._meter.add(method.row, now - started[0])
        started[0] = now

    # ---- answers ---------------------------------------------------------------------------

    cdef int _append(self, const char *data, Py_ssize_t length) except -1:
        self._reserve(length)
        memcpy(self._buffer + self._used, data, length)
        self._used += length
        return 0

    cdef int _reserve(self, Py_ssize_t length) except -1:
        cdef Py_ssize_t wanted = self._used + length
        cdef char *larger
        if wanted > self._capacity:
            wanted *= 2
            larger = <char *>realloc(self._buffer, wanted)
            if larger == NULL:
                raise MemoryError
            self._buffer = larger
            self._capacity = wanted
        return 0

    cdef bint _answer_call(self, Call *call, bytes result) except -1:
        """False: the body is there, but it has to be sent in a coding that is not to be had here."""
        cdef Py_ssize_t length = _answer_length(call, result)
        cdef int coding = PLAIN if self._accepted is None or length <= self._coded_bytes_min else self._coding()
        if coding == PLAIN:
            self._begin_answer(self._head, length)
            self._add_call(call, result)
        elif coding == GZIP and self._is_packable(call, result):
            self._add_packed(call, self._results.pack(result), False)
        else:
            self.body = _body(call, result)
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
        return coding

    cdef bint _is_packable(self, Call *call, bytes result) noexcept:
        """Of the result that was had last."""
        return (
            self._results.is_cached
            and call.id_length <= PACKED_ID_BYTES_MAX
            and 0 < PyBytes_GET_SIZE(result) <= PACKED_BYTES_MAX
        )

    cdef int _add_packed(self, Call *call, Packed packed, bint is_batch) except -1:
        """An answer to one call, alone or as a batch of one."""
        cdef uint8_t[1 + PACKED_ID_BYTES_MAX + BEFORE_ID_BYTES + BEFORE_RESULT_BYTES] before
        cdef Py_ssize_t before_length = is_batch
        cdef Py_ssize_t length
        before[0] = c"["
        memcpy(before + before_length, BEFORE_ID, BEFORE_ID_BYTES)
        before_length += BEFORE_ID_BYTES
        memcpy(before + before_length, call.id, call.id_length)
        before_length += call.id_length
        memcpy(before + before_length, BEFORE_RESULT, BEFORE_RESULT_BYTES)
        before_length += BEFORE_RESULT_BYTES
        length = packed.joined_length(before_length, 1 + is_batch)
        self._begin_answer(self._packed_head, length)
        self._reserve(length)
        packed.write(
            <uint8_t *>self._buffer + self._used, before, before_length, <const uint8_t *>b"}]", 1 + is_batch
        )
        self._used += length
        return 0

    cdef bint _answer_batch(self, const char *at, const char *end, object view, int64_t *started) except -1:
        """Whether it is one whose results can all be had here."""
        cdef Py_ssize_t count = self._read_batch(at, end)
        cdef Py_ssize_t index
        cdef Py_ssize_t length = count + 1  # brackets and commas
        cdef Py_ssize_t results_length = 0
        cdef Py_ssize_t finished = 0
        cdef Call *call
        cdef list methods = []
        cdef list results = []
        cdef Method method
        cdef bytes result
        if self.unfinished is not None:
            results = self.unfinished
            self.unfinished = None
            finished = len(results)
        for index in range(count):
            call = &self._calls[index]
            method = self._results.find(call.name, call.name_length)
            if index < finished:
                result, call.elapsed = results[index]
                results[index] = result
            elif index > finished and self._until and clock_ns() > self._until:
                self.unfinished = [(results[index], self._calls[index].elapsed) for index in range(len(results))]
                self.is_late = True
                return False
            else:
                result = None if method is None else self._result_of(call, method, view)
                if result is None:
                    return False
                results.append(result)
                if self._meter is not None:
                    call.elapsed = -started[0]
                    started[0] = clock_ns()
                    call.elapsed += started[0]
            methods.append(method)
            results_length += PyBytes_GET_SIZE(result)
            length += _answer_length(call, result)
            if results_length > self._results_bytes_max:
                return False
        if count == 0:
            return False
        if self._add_batch is not None:
            self._add_batch(count)
        if self._meter is not None:
            for index in range(count):
                call = &self._calls[index]
                self._meter.add((<Method>methods[index]).row, call.elapsed)
        if self._accepted is not None and length > self._coded_bytes_min and self._coding() != PLAIN:
            result = <bytes>results[count - 1]
            if count == 1 and self._coding() == GZIP and self._is_packable(&self._calls[0], result):
                self._add_packed(&self._calls[0], self._results.pack(result), True)
                return True
            self.body = b"[%b]" % b",".join([_body(&self._calls[index], results[index]) for index in range(count)])
            return False
        self._begin_answer(self._head, length)
        for index in range(count):
            call = &self._calls[index]
            self._append(b"," if index else b"[", 1)
            self._add_call(call, <bytes>results[index])
        self._append(b"]", 1)
        return True

    cdef int _begin_answer(self, bytes head, Py_ssize_t length) except -1:
        cdef uint8_t[TEXT_NUMBER_DIGITS_MAX] digits
        self._append(PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head))
        self._append(<const char *>digits, text_put_number(digits, length) - digits)
        self._append(PyBytes_AS_STRING(self._end), PyBytes_GET_SIZE(self._end))
        return 0

    cdef int _add_call(self, Call *call, bytes result) except -1:
        self._append(BEFORE_ID, BEFORE_ID_BYTES)
        self._append(call.id, call.id_length)
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

    cdef int _flush(self) except -1:
        """What has been collected becomes a chunk, so that a large result can follow as it is."""
        if self._chunks is None:
            self._chunks = []
        self._chunks.append(PyBytes_FromStringAndSize(self._buffer, self._used))
        self._flushed += self._used
        self._used = 0
        return 0

    cdef object _take(self):
        cdef object answers
        self.size = self._flushed + self._used
        if self.size == 0:
            return None
        if self._chunks is None:
            answers = PyBytes_FromStringAndSize(self._buffer, self._used)
        else:
            if self._used:
                self._flush()
            answers = self._chunks
            self._chunks = None
        if self._capacity > KEPT_CAPACITY_MAX:
            free(self._buffer)
            self._buffer = NULL
            self._capacity = 0
        return answers

    # ---- the head --------------------------------------------------------------------------

    cdef const char *_read_known_head(self, const char *at, const char *end):
        cdef Py_ssize_t length = PyBytes_GET_SIZE(self._known_head)
        if length == 0 or end - at < length or memcmp(at, PyBytes_AS_STRING(self._known_head), length) != 0:
            return NULL
        self._length = self._known_length
        self._accepted = self._known_accepted
        return at + length

    cdef const char *_read_head(self, const char *at, const char *end):
        """The start of the body; NULL if the head is not simple or not whole."""
        cdef const char *start = at
        cdef int seen = 0
        cdef Py_ssize_t headers = 0
        if end - at < REQUEST_LINE_BYTES or memcmp(at, REQUEST_LINE, REQUEST_LINE_BYTES) != 0:
            return NULL
        at += REQUEST_LINE_BYTES
        self._length = 0
        self._accepted = None
        while True:
            if end - at < 2:
                return NULL
            if at[0] == c"\r":
                break
            headers += 1
            at = self._read_header(at, end, &seen)
            # Each header counts for up to one byte more than it has.
            if at == NULL or headers > self._headers_max or at - start + headers > self._head_bytes_max:
                return NULL
        if at[1] != c"\n" or not seen & HOST or not seen & CONTENT_LENGTH or self._length > self._body_bytes_max:
            return NULL
        at += 2
        if at - start <= KNOWN_HEAD_BYTES_MAX:
            self._known_head = start[:at - start]
            self._known_length = self._length
            self._known_accepted = self._accepted
        return at

    cdef const char *_read_header(self, const char *at, const char *end, int *seen):
        """The start of the next line."""
        cdef const char *name = at
        cdef const char *value
        cdef const char *stop
        cdef int known
        while at < end and is_in_name(at[0]):
            at += 1
        if at == name or at == end or at[0] != c":":
            return NULL
        known = known_header(name, at - name)
        if known == FORBIDDEN or seen[0] & known:
            return NULL
        seen[0] |= known
        at += 1
        while at < end and at[0] == c" ":
            at += 1
        value = at
        while at < end and 0x20 <= <unsigned char>at[0] < 0x7f:
            at += 1
        stop = at
        if end - at < 2 or at[0] != c"\r" or at[1] != c"\n":
            return NULL
        if known != ORDINARY and not self._read_value(value, stop, known):
            return NULL
        return stop + 2

    cdef bint _read_value(self, const char *at, const char *stop, int known) except -1:
        """Whether the value of a header that means something is understood."""
        cdef Py_ssize_t length = stop - at
        if length == 0 or (stop - 1)[0] == c" ":
            return False
        if known == CONNECTION:
            return length == 10 and strncasecmp(at, KEEP_ALIVE, 10) == 0
        if known == ACCEPT_ENCODING:
            self._accepted = at[:length]
        if known == CONTENT_LENGTH:
            if length > LENGTH_DIGITS_MAX:
                return False
            while at < stop:
                if not c"0" <= at[0] <= c"9":
                    return False
                self._length = self._length * 10 + (at[0] - c"0")
                at += 1
        return True

    # ---- the body --------------------------------------------------------------------------

    cdef Py_ssize_t _read_batch(self, const char *at, const char *end) noexcept nogil:
        """How many calls the array has that is the whole text; 0 if it is not simple or has too many."""
        cdef Py_ssize_t count = 0
        while count < self._batch_calls_max:
            at = self._read_call(at + 1, end, self._depth_max - 2, &self._calls[count])
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

    cdef const char *_read_call(self, const char *at, const char *end, Py_ssize_t depth_left, Call *call) noexcept nogil:
        """Behind a call with an id, each member at most once and none but the four; NULL if it is none."""
        cdef int seen = 0
        cdef int member
        cdef const char *start
        call.params = NULL
        call.params_length = 0
        call.is_empty = True
        at = skip_blanks(at, end)
        if at == end or at[0] != c"{":
            return NULL
        while True:
            at = skip_blanks(at + 1, end)
            if at == end or at[0] != c'"':
                return NULL
            start = at + 1
            at = skip_text(start, end)
            if at == NULL:
                return NULL
            member = member_of(start, at - 1 - start)
            if member == 0 or seen & member:
                return NULL
            seen |= member
            at = skip_blanks(at, end)
            if at == end or at[0] != c":":
                return NULL
            start = skip_blanks(at + 1, end)
            if start == end:
                return NULL
            if member == MEMBER_PARAMS:
                at = skip_array(start, end, &depth_left)
                if at == NULL:
                    return NULL
                call.params = start
                call.params_length = at - start
                call.is_empty = skip_blanks(start + 1, at) == at - 1
            elif start[0] == c'"':
                at = skip_text(start + 1, end)
                if at == NULL:
                    return NULL
                if member == MEMBER_METHOD:
                    call.name = start + 1
                    call.name_length = at - start - 2
                    if call.name_length == 0:
                        return NULL
                elif member == MEMBER_ID:
                    call.id = start
                    call.id_length = at - start
            elif member == MEMBER_ID:
                at = skip_plain_id(start, end)
                if at == NULL:
                    return NULL
                call.id = start
                call.id_length = at - start
            else:
                return NULL
            at = skip_blanks(at, end)
            if at == end:
                return NULL
            if at[0] == c"}":
                break
            if at[0] != c",":
                return NULL
        if seen & MEMBER_METHOD == 0 or seen & MEMBER_ID == 0:
            return NULL
        return at + 1


cdef inline Py_ssize_t _answer_length(Call *call, bytes result) noexcept:
    cdef Py_ssize_t length = BEFORE_ID_BYTES + call.id_length + 1
    if PyBytes_GET_SIZE(result) > 0:
        length += BEFORE_RESULT_BYTES + PyBytes_GET_SIZE(result)
    return length


cdef bytes _body(Call *call, bytes result):
    if not result:
        return b'{"jsonrpc":"2.0","id":%b}' % call.id[:call.id_length]
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (call.id[:call.id_length], result)
