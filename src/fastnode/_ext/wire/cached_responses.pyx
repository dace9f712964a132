# Results of calls, kept or made.  The stub (cached_responses.pyi) says what everything does.

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

from fastnode._ext.wire.usual_params cimport read_params, skip_blanks
from fastnode.errors import LeftToStrictPath

cdef enum:
    KEY_BYTES_MAX = 8192        # results of longer params are not kept; a hundred tags are shorter
    READ_BYTES_MAX = 1024       # longer params of an unusual form are left to who asks for their memory first
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

    cdef int _keep(self, Method method, bytes params, bytes result) except -1:
        cdef Py_ssize_t size = PyBytes_GET_SIZE(params) + PyBytes_GET_SIZE(result) + KEPT_OVERHEAD
        if PyBytes_GET_SIZE(params) > KEY_BYTES_MAX or size > self._bytes_max // SHARES:
            return 0
        self._count_kept(size)
        method.young[params] = result
        self.is_cached = True
        return 0

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

    cdef Packed pack(self, bytes result, bint is_kept):
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

    def result(self, str name not None, bytes params, view):
        cdef Method method = self._methods.get(name)
        self.set_batch(NULL, 0)
        if method is None:
            return None
        if params is None or _is_empty(params):
            return self.bare_of(method, view)
        return self.result_of(method, PyBytes_AS_STRING(params), PyBytes_GET_SIZE(params), view)

    cdef bytes bare_of(self, Method method, object view):
        """The result of a call without params."""
        cdef bytes made
        self.is_cached = True
        self.outcome = None
        self._count_look_up(method, method.bare is not None)
        if method.bare is not None or view is None:
            return method.bare
        if method.handler is not None and PyBytes_GET_SIZE(method.shape) == 0:
            return self._made(method, (view,))
        if method.read is None:
            return None
        made = self._read(method, view, None)
        if made is not None:
            method.bare = made
            self.is_cached = True
        return made

    cdef bytes result_of(self, Method method, const char *text, Py_ssize_t length, object view):
        """The result of a call with params."""
        cdef bytes params = None
        cdef object found
        cdef tuple arguments = None
        self.is_cached = True
        self.outcome = None
        if method.keeps and length <= KEY_BYTES_MAX:
            params = PyBytes_FromStringAndSize(text, length)
            found = method.young.get(params)
            if found is not None:
                self.hit_count += 1
                return <bytes>found
            found = method.old.get(params)
            self._count_look_up(method, found is not None)
            if found is not None:
                self._keep(method, params, <bytes>found)
                return <bytes>found
        if view is None:
            return None
        if method.handler is not None:
            arguments = read_params(method.shape, text, text + length, view, self._tip, method.items_max)
        if arguments is not None:
            if self._batch_count > 1 and method.prepare is not None and text > self._ahead:
                self._look_ahead(method, text, view)
            found = self._made(method, arguments)
        elif params is not None and length <= READ_BYTES_MAX and method.read is not None:
            found = self._read(method, view, params)
        else:
            return None
        if found is not None and params is not None and self._is_asked_again(hash(params)):
            self._keep(method, params, <bytes>found)
        return <bytes>found

    cdef void set_batch(self, AnsweredCall *calls, Py_ssize_t count) noexcept:
        """The calls that are answered next, which come one after the other in one text."""
        self._batch = calls
        self._batch_count = count
        self._ahead = NULL

    cdef int _look_ahead(self, Method method, const char *text, object view) except -1:
        """What this call of a batch and those that follow it need is worked out side by side."""
        cdef list calls = []
        cdef tuple arguments
        cdef Py_ssize_t index
        cdef Call *call
        for index in range(self._batch_count):
            call = &self._batch[index].text
            if call.params == NULL or call.params < text or call.name_length != PyBytes_GET_SIZE(method.text):
                continue
            if memcmp(call.name, PyBytes_AS_STRING(method.text), call.name_length) != 0:
                continue
            arguments = read_params(
                method.shape, call.params, call.params + call.params_length, view, self._tip, method.items_max
            )
            if arguments is not None:
                self._ahead = call.params
                calls.append(arguments)
                if len(calls) == AHEAD_MAX:
                    break
        if len(calls) > 1:
            method.prepare(calls)
        return 0

    cdef bytes _made(self, Method method, tuple arguments):
        """What the handler says."""
        self.is_cached = False
        try:
            if PyBytes_AS_STRING(method.shape)[0] == c"b" and type(arguments[1]) is bytes:
                arguments = self._with_number(arguments)
                if arguments is None:
                    return None
        except Exception:  # no block has been found: the strict path says so
            return None
        return self._run(method.handler, arguments)

    cdef bytes _read(self, Method method, object view, bytes params):
        """What the handler says to params of any form."""
        self.is_cached = False
        return self._run(method.read, (view, params))

    cdef bytes _run(self, object handler, tuple arguments):
        """The result; or none, and the outcome is for the caller."""
        cdef object found
        try:
            found = handler(*arguments)
            if found is None:
                return b""
            if PyBytes_GET_SIZE(<bytes?>found) <= self._result_bytes_max:
                return <bytes>found
            self.outcome = found
        except LeftToStrictPath:
            pass
        except Exception as error:
            self.outcome = error
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

    cdef tuple _with_number(self, tuple arguments):
        """The number of the block in place of its hash; None if there is no such block."""
        number = self._numbers.get(arguments[1])
        if number is None:
            number = self._find_block(arguments[0], arguments[1])
            if number is None:
                return None
            if len(self._numbers) >= NUMBERS_MAX:
                self._numbers.clear()
            self._numbers[arguments[1]] = number
        return (arguments[0], number) + arguments[2:]


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
