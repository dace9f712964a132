# Counts and times of calls.  The stub (call_meter.pyi) says what everything does.

from collections import Counter

cimport cython
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free

from fastnode._ext.wire.clock cimport clock_ns


@cython.final
cdef class Traffic:
    def __cinit__(self):
        self.rejected = Counter()


@cython.final
cdef class CallMeter:
    def __cinit__(self, names, bounds_ns):
        cdef Py_ssize_t index
        cdef int64_t bound, before = -1
        self._indices = {name: index for index, name in enumerate(names)}
        if len(self._indices) != len(names):
            raise ValueError("a name is given twice")
        self._rows = len(names) + 1
        self._bounds = len(bounds_ns)
        self._errors = [{} for _ in range(self._rows)]
        self._upper = <int64_t *>calloc(self._bounds + 1, sizeof(int64_t))
        self._counts = <uint64_t *>calloc(self._rows * (self._bounds + 1), sizeof(uint64_t))
        self._sums = <uint64_t *>calloc(self._rows, sizeof(uint64_t))
        if self._upper == NULL or self._counts == NULL or self._sums == NULL:
            raise MemoryError
        for index in range(self._bounds):
            bound = bounds_ns[index]
            if bound <= before:
                raise ValueError("the bounds must rise")
            self._upper[index] = before = bound

    def add_alias(self, str alias, str name):
        if alias in self._indices:
            raise ValueError("a name is given twice")
        self._indices[alias] = self._indices[name]

    def __dealloc__(self):
        free(self._upper)
        free(self._counts)
        free(self._sums)

    cdef Py_ssize_t _row(self, object name):
        """The last row is for every other name; a name may be anything a request holds."""
        index = self._indices.get(name) if type(name) is str else None
        return self._rows - 1 if index is None else index

    def finish(self, name, int64_t started_ns, error_code):
        cdef Py_ssize_t row = self._row(name)
        self.add(row, clock_ns() - started_ns)
        if error_code is not None:
            self._add_error(row, error_code)

    cdef void add(self, Py_ssize_t row, int64_t elapsed) noexcept:
        cdef Py_ssize_t bucket = 0
        if elapsed < 0:
            elapsed = 0
        while bucket < self._bounds and elapsed > self._upper[bucket]:
            bucket += 1
        self._counts[row * (self._bounds + 1) + bucket] += 1
        self._sums[row] += <uint64_t>elapsed

    def reject(self, name, error_code):
        self._add_error(self._row(name), error_code)

    cdef _add_error(self, Py_ssize_t row, object error_code):
        cdef dict counts = self._errors[row]
        counts[error_code] = counts.get(error_code, 0) + 1

    def histogram(self, name):
        cdef Py_ssize_t row = self._rows - 1 if name is None else self._indices[name]
        cdef Py_ssize_t start = row * (self._bounds + 1)
        return [self._counts[start + index] for index in range(self._bounds + 1)], self._sums[row]

    def errors(self, name):
        cdef Py_ssize_t row = self._rows - 1 if name is None else self._indices[name]
        return dict(self._errors[row])
