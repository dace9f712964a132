# What connections have used of the event loop.  The stub (loop_time.pyi) says what everything does.

cimport cython

from fastnode._ext.wire.clock cimport thread_cpu_ns


cdef enum:
    UNKNOWN_TURN_NS = 150000    # of a party that has had none: more than modest ones need
    NOTED_PART = 4              # of a round, above which its end has to be looked for
    DOUBTED_NS = 100000         # of a turn, above which it may have waited for the interpreter or a processor


@cython.final
cdef class Share:
    def __cinit__(self):
        self.turn_ns = UNKNOWN_TURN_NS

    def charge(self, int64_t elapsed_ns):
        self.charge_c(elapsed_ns)

    def add(self, int64_t elapsed_ns):
        self.add_c(elapsed_ns)

    cdef void charge_c(self, int64_t elapsed_ns) noexcept:
        self.add_c(elapsed_ns)
        self._learn(elapsed_ns)
        if self.group is not None:
            self.group._learn(elapsed_ns)

    cdef void _learn(self, int64_t elapsed_ns) noexcept:
        self.turn_ns += (min(elapsed_ns, 2 * self.turn_ns + 1) - self.turn_ns) // 4

    cdef void add_c(self, int64_t elapsed_ns) noexcept:
        self.used_ns += elapsed_ns
        if self.group is not None:
            self.group.used_ns += elapsed_ns


@cython.final
cdef class LoopTime:
    def __init__(self, int64_t slice_ns, int64_t round_ns, on_use=None):
        if not 0 < slice_ns <= round_ns:
            raise ValueError(f"a slice of {slice_ns} ns in a round of {round_ns} ns")
        self.slice_ns = slice_ns
        self.round_ns = round_ns
        self._on_use = on_use
        self._cpu_then_ns = thread_cpu_ns()

    def charge(self, Share share not None, int64_t elapsed_ns):
        self.charge_c(share, elapsed_ns)

    def add(self, Share share not None, int64_t elapsed_ns):
        share.add_c(elapsed_ns)
        self.spend(elapsed_ns)

    def begin_round(self):
        self.spent_ns = 0
        self._is_noted = False
        self._cpu_then_ns = thread_cpu_ns()
        self._charged_since_ns = 0

    cdef int charge_c(self, Share share, int64_t elapsed_ns) except -1:
        share.charge_c(elapsed_ns if elapsed_ns <= DOUBTED_NS else self._worked_ns(elapsed_ns))
        self._charged_since_ns += min(elapsed_ns, DOUBTED_NS)
        return self.spend(elapsed_ns)

    cdef int64_t _worked_ns(self, int64_t elapsed_ns) noexcept:
        cdef int64_t now_ns = thread_cpu_ns()
        cdef int64_t most_ns = now_ns - self._cpu_then_ns - self._charged_since_ns
        self._cpu_then_ns = now_ns
        self._charged_since_ns = -DOUBTED_NS    # this one is behind the clock that was read
        return min(elapsed_ns, max(most_ns, DOUBTED_NS))

    cdef int spend(self, int64_t elapsed_ns) except -1:
        self.spent_ns += elapsed_ns
        if self.spent_ns > self.round_ns:
            self.is_crowded = True
        # Fast path: after little use the round cannot be near its end.
        if self.spent_ns > self.round_ns // NOTED_PART and not self._is_noted:
            self._is_noted = True
            if self._on_use is not None:
                self._on_use()
        return 0
