# Results of calls, kept or made.  The stub (cached_responses.pyi) says what everything does.

from orjson import dumps, loads

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_INCREF, PyObject
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

from fastnode._ext.wire.clock cimport clock_ns
from fastnode._ext.wire.payer cimport Payer
from fastnode._ext.wire.usual_params cimport read_params, skip_blanks
from fastnode.errors import LeftToStrictPath

cdef enum:
    KEY_BYTES_MAX = 8192        # results of longer params are not kept; a hundred tags are shorter
    UNUSUAL_BYTES_MAX = 1024    # params of an unusual form: more is left to who asks for their memory first
    UNUSUAL_BYTES_OF_ALL_MAX = 4096     # in one batch
    LONG_BYTES_MAX = 32768      # in one request; more is read in a thread
    RESULTS_BYTES_MAX = 4194304 # of a batch; for more, others ask for the memory
    KEPT_OVERHEAD = 200         # of a result beside its bytes
    SHARES = 8                  # no result takes more than this share of the memory
    NUMBERS_MAX = 4096
    AHEAD_MAX = 32              # calls of a batch that are looked at together
    TABLE_SIZE_MIN = 64

cdef uint64_t HASH_FACTOR = 0x9e3779b97f4a7c15


@cython.final
cdef class Method:
    """What is known of a method, and the results that are kept of it."""


@cython.final
cdef class CachedResponses:
    def __cinit__(self, *, Py_ssize_t bytes_max, Py_ssize_t result_bytes_max, find_block):
        self._bytes_max = bytes_max
        self._result_bytes_max = result_bytes_max
        self._find_block = find_block
        self._methods = {}
        self._numbers = {}
        self._packed = {}
        self._packed_before = {}
        self._tip = 0

    def __dealloc__(self):
        free(self._table)

    # ---- methods ---------------------------------------------------------------------------

    def add_method(self, str name not None, *, bint keeps, bytes shape, handler, Py_ssize_t items_max, read):
        cdef Method method = Method()
        method.name = name
        method.text = name.encode("ascii")
        method.keeps = keeps
        method.shape = shape
        method.handler = handler
        method.items_max = items_max
        method.prepare = getattr(handler, "prepare", None)
        method.read = read
        method.young = {}
        method.old = {}
        self._methods[name] = method
        self._fill_table()

    cdef int set_rows(self, CallMeter calls) except -1:
        """Where the calls of each method are counted."""
        cdef Method method
        for method in self._methods.values():
            method.row = 0 if calls is None else calls._row(method.name)
        return 0

    cdef int _fill_table(self) except -1:
        cdef size_t size = TABLE_SIZE_MIN
        cdef size_t place
        cdef Method method
        while size < 4 * <size_t>len(self._methods):
            size *= 2
        free(self._table)
        self._table = <void **>calloc(size, sizeof(void *))
        if self._table == NULL:
            raise MemoryError
        self._mask = size - 1
        for method in self._methods.values():
            place = _hash(PyBytes_AS_STRING(method.text), PyBytes_GET_SIZE(method.text)) & self._mask
            while self._table[place] != NULL:
                place = (place + 1) & self._mask
            self._table[place] = <void *>method
        return 0

    cdef Method find(self, const char *name, Py_ssize_t length):
        cdef size_t place
        cdef void *found
        if self._table == NULL:
            return None
        place = _hash(name, length) & self._mask
        while True:
            found = self._table[place]
            if found == NULL:
                return None
            if (
                PyBytes_GET_SIZE((<Method>found).text) == length
                and memcmp(PyBytes_AS_STRING((<Method>found).text), name, length) == 0
            ):
                return <Method>found
            place = (place + 1) & self._mask

    # ---- results ---------------------------------------------------------------------------

    def forget(self, tip):
        cdef Method method
        self._tip = tip
        self.version += 1
        self._numbers = {}
        self._packed = {}
        self._packed_before = {}
        self._kept_bytes = 0
        for method in self._methods.values():
            method.bare = None
            if method.keeps:
                method.young = {}
                method.old = {}

    def keep(self, str name not None, bytes params, bytes result not None):
        cdef Method method = self._methods.get(name)
        if method is None or not method.keeps:
            return
        if params is None or _is_empty(params):
            method.bare = result
        else:
            self._keep(method, params, result)

    cdef bint _keep(self, Method method, bytes params, bytes result) except -1:
        """Whether it is kept."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(params) + PyBytes_GET_SIZE(result) + KEPT_OVERHEAD
        if PyBytes_GET_SIZE(params) > KEY_BYTES_MAX or size > self._bytes_max // SHARES:
            return False
        self._count_kept(size)
        method.young[params] = result
        return True

    cdef int _count_kept(self, Py_ssize_t size) except -1:
        """Two generations: what was asked for since the last change of them outlives the next one."""
        cdef Method method
        self._kept_bytes += size
        if self._kept_bytes > self._bytes_max // 2:
            self._kept_bytes = size
            self._packed_before = self._packed
            self._packed = {}
            for method in self._methods.values():
                if method.keeps:
                    method.old = method.young
                    method.young = {}
        return 0

    cdef void _count_look_up(self, Method method, bint is_hit) noexcept:
        if is_hit:
            self.hit_count += 1
        elif method.keeps:
            self.miss_count += 1

    @property
    def kept_bytes(self):
        return self._kept_bytes

    cpdef Packed pack(self, bytes result, bint is_kept):
        cdef Packed packed
        if not is_kept:
            return Packed(result)
        packed = self.find_packed(result)
        if packed is None:
            packed = Packed(result)
            self._keep_packed(result, packed, 0)
        return packed

    cdef int _keep_packed(self, bytes result, Packed packed, Py_ssize_t more) except -1:
        cdef Py_ssize_t size = PyBytes_GET_SIZE(packed.blocks) + more + sizeof(packed.shifted) + KEPT_OVERHEAD
        if size <= self._bytes_max // SHARES:
            self._count_kept(size)
            self._packed[result] = packed
        return 0

    cpdef Packed find_packed(self, bytes result):
        cdef Packed packed = self._packed.get(result)
        if packed is None:
            packed = self._packed_before.get(result)
            if packed is not None:
                self._keep_packed(result, packed, 0)
        return packed

    def keep_packed(self, bytes result not None, Packed packed not None):
        self._keep_packed(result, packed, PyBytes_GET_SIZE(result))

    # ---- calls -----------------------------------------------------------------------------

    cdef bint read(self, Calls calls, object view) except -1:
        """Whether all calls have been read: so it is known that they are JSON before the first is charged or answered.
        Long parameters may be left to those who ask for their memory first."""
        cdef Py_ssize_t index, unusual_left = UNUSUAL_BYTES_OF_ALL_MAX, long_left = LONG_BYTES_MAX
        cdef Asked *asked
        cdef Method method
        cdef object found
        for index in range(calls.count):
            asked = &calls.each[index]
            method = self.find(asked.text.name, asked.text.name_length)
            asked.method = <PyObject *>method if method is not None else NULL
            found = self._read(method, asked, view, &unusual_left)
            if found is None:
                if not _is_long(asked, unusual_left):
                    return False
                long_left -= asked.text.params_length
                if long_left < 0:
                    return False
                calls.is_unread = True
                continue
            Py_INCREF(found)
            asked.read = <PyObject *>found
        return True

    cdef object _read(self, Method method, Asked *asked, object view, Py_ssize_t *unusual_left):
        """What the outcome of a call can be made of; None: it is not simple."""
        cdef object found
        cdef bytes params = None
        cdef bytes usual
        cdef list values
        if method is None:
            return self._parsed(asked, unusual_left)
        if asked.text.is_empty:
            return self._bare(method, view)
        if method.keeps and asked.text.params_length <= KEY_BYTES_MAX:
            params = PyBytes_FromStringAndSize(asked.text.params, asked.text.params_length)
            Py_INCREF(params)
            asked.key = <PyObject *>params
            found = self._kept(method, params)
            self._count_look_up(method, found is not None)
            if found is not None:
                return found
        if view is not None and method.handler is not None:
            found = read_params(
                method.shape, asked.text.params, asked.text.params + asked.text.params_length, view, self._tip,
                method.items_max,
            )
            if found is not None:
                return found
        values = self._parsed(asked, unusual_left)
        if values is not None and params is not None:
            # A result that is kept by these parameters as most clients write them is kept by this text too.
            usual = dumps(values)
            found = None if usual == params else self._kept(method, usual)
            if found is not None:
                self.hit_count += 1
                self._keep(method, params, <bytes>found)
                return found
        return values

    cdef object _bare(self, Method method, object view):
        """The same of a call without params."""
        self._count_look_up(method, method.bare is not None)
        if method.bare is not None:
            return method.bare
        if view is not None and method.handler is not None and PyBytes_GET_SIZE(method.shape) == 0:
            return (view,)
        return []

    cdef object _kept(self, Method method, bytes params):
        """A result by the text of its params, or None."""
        cdef object found = method.young.get(params)
        if found is None:
            found = method.old.get(params)
            if found is not None:
                self._keep(method, params, <bytes>found)
        return found

    cdef list _parsed(self, Asked *asked, Py_ssize_t *unusual_left):
        """Params of any form; None: they are no JSON, or long."""
        if asked.text.is_empty:
            return []
        if _is_long(asked, unusual_left[0]):
            return None
        unusual_left[0] -= asked.text.params_length
        try:
            return loads(asked.text.params[:asked.text.params_length])
        except ValueError:
            return None

    cdef bint fill(
        self, Calls calls, Outcomes outcomes, object view, Payer payer, int64_t until, int64_t *started
    ) except -1:
        """Make outcomes from the first that is pending on, each of which is charged first; whether all are there, and may
        be sent without asking for their memory."""
        cdef Py_ssize_t index, first = outcomes.next_pending()
        cdef Outcome *outcome
        cdef Asked *asked
        cdef bint is_made
        cdef int64_t now
        cdef Py_ssize_t bytes_left = self._result_bytes_max
        if calls.is_unread:
            return False
        if calls.count > 1:
            bytes_left = min(bytes_left, <Py_ssize_t>RESULTS_BYTES_MAX)
        for index in range(first, calls.count):
            outcome = &outcomes.each[index]
            asked = &calls.each[index]
            if outcome.is_left or (index > first and until and started[0] > until):
                return False
            if outcome.value != NULL:
                continue
            outcome.is_left = True
            if asked.method == NULL:
                return False
            if payer is not None:
                if not payer.pay((<Method>asked.method).name):
                    return False
                outcome.is_charged = True
            # Fast path. If: the result is kept.  Then: it is the outcome.
            if asked.read != NULL and type(<object>asked.read) is bytes:
                outcome.value, asked.read = asked.read, NULL
                outcome.is_kept = is_made = True
            else:
                is_made = self._make(calls, index, outcomes, view)
            now = clock_ns()
            outcome.elapsed = now - started[0]
            started[0] = now
            if not is_made:
                return False
            outcome.is_left = False
            bytes_left -= PyBytes_GET_SIZE(<bytes>outcome.value)
            if bytes_left < 0:
                return False
        return True

    def go_on(self, Calls calls not None, Outcomes outcomes not None, int64_t until_ns):
        cdef int64_t started = clock_ns()
        if calls.version == self.version:
            self.fill(calls, outcomes, calls.view, None, until_ns, &started)

    cdef bint _make(self, Calls calls, Py_ssize_t index, Outcomes outcomes, object view) except -1:
        """Whether the outcome has been made."""
        cdef Asked *asked = &calls.each[index]
        cdef Outcome *outcome = &outcomes.each[index]
        cdef Method method = <Method>asked.method
        cdef object read = <object>asked.read
        cdef tuple arguments
        cdef bytes found
        if type(read) is list and asked.text.is_empty and method.bare is not None:  # since it was read
            outcomes.set(index, method.bare)
            outcome.is_kept = True
            return True
        if type(read) is tuple:
            if calls.count > 1 and method.prepare is not None and index >= calls.ahead:
                self._look_ahead(calls, index)
            arguments = self._with_number(method, <tuple>read)
            if arguments is None:  # no block has been found: others say so
                return False
            found = self._run(method.handler, arguments, outcome)
        elif view is None or method.read is None:
            return False
        else:
            found = self._run(method.read, (view, read), outcome)
        if found is None:
            return False
        outcomes.set(index, found)
        if PyBytes_GET_SIZE(found) > self._result_bytes_max:
            return True
        if asked.text.is_empty:
            if type(read) is list:
                method.bare = found
                outcome.is_kept = True
        elif asked.key != NULL and self._is_asked_again(hash(<object>asked.key)):
            outcome.is_kept = self._keep(method, <bytes>asked.key, found)
        return True

    cdef int _look_ahead(self, Calls calls, Py_ssize_t index) except -1:
        """What this call of a batch and those that follow it need is worked out side by side."""
        cdef list several = []
        cdef PyObject *method = calls.each[index].method
        cdef object read
        while index < calls.count and len(several) < AHEAD_MAX:
            read = <object>calls.each[index].read
            if calls.each[index].method == method and type(read) is tuple:
                several.append(read)
                calls.ahead = index + 1
            index += 1
        if len(several) > 1:
            (<Method>method).prepare(several)
        return 0

    cdef bytes _run(self, object handler, tuple arguments, Outcome *outcome):
        """The handler's result; None, and what it raised is noted, unless it left the call to others."""
        cdef object found
        try:
            found = handler(*arguments)
            return b"" if found is None else <bytes?>found
        except LeftToStrictPath:
            pass
        except Exception as error:
            Py_INCREF(error)
            outcome.raised = <PyObject *>error
        return None

    cdef bint _is_asked_again(self, Py_hash_t params_hash) noexcept:
        """Whether params were asked for not long ago, as far as is remembered.

        Most results are asked for once, such as the witnesses of a wallet's own notes: to keep them would only cost.
        """
        cdef Py_hash_t *place = &self._asked[params_hash & (ASKED_COUNT - 1)]
        if place[0] == params_hash:
            return True
        place[0] = params_hash
        return False

    cdef tuple _with_number(self, Method method, tuple arguments):
        """The number of the block in place of its hash; None if there is no such block."""
        cdef object number
        if len(arguments) < 2 or PyBytes_AS_STRING(method.shape)[0] != c"b" or type(arguments[1]) is not bytes:
            return arguments
        number = self._numbers.get(arguments[1])
        if number is None:
            try:
                number = self._find_block(arguments[0], arguments[1])
            except Exception:
                return None
            if number is None:
                return None
            if len(self._numbers) >= NUMBERS_MAX:
                self._numbers.clear()
            self._numbers[arguments[1]] = number
        return (arguments[0], number) + arguments[2:]


cdef inline bint _is_long(Asked *asked, Py_ssize_t unusual_left) noexcept:
    """Whether params of an unusual form are read by others."""
    return asked.text.params_length > min(<Py_ssize_t>UNUSUAL_BYTES_MAX, unusual_left)


cdef bint _is_empty(bytes params) except -1:
    """Whether an array has nothing in it."""
    cdef const char *text = PyBytes_AS_STRING(params)
    cdef const char *end = text + PyBytes_GET_SIZE(params)
    return skip_blanks(text + 1, end) == end - 1


@cython.overflowcheck(False)    # modulo 2^64
cdef inline size_t _hash(const char *name, Py_ssize_t length) noexcept nogil:
    """Names differ in their length or in their last eight characters, nearly always."""
    cdef uint64_t word = 0
    if length >= 8:
        memcpy(&word, name + length - 8, 8)
    return <size_t>(((word ^ <uint64_t>length) * HASH_FACTOR) >> 40)
