# What connections have used of the event loop.  The stub (loop_time.pyi) says what everything does.

cimport cython


cdef enum:
    UNKNOWN_TURN_NS = 250000    # of a party that has had none: more than modest ones need


@cython.final
cdef class Share:
    def __cinit__(self):
        self.turn_ns = UNKNOWN_TURN_NS

    def charge(self, int64_t elapsed_ns):
        self.charge_c(elapsed_ns)

    cdef void charge_c(self, int64_t elapsed_ns) noexcept:
        self.used_ns += elapsed_ns
        self.turn_ns += (elapsed_ns - self.turn_ns) // 4


@cython.final
cdef class LoopTime:
    def __init__(self, int64_t slice_ns, int64_t round_ns):
        if not 0 < slice_ns <= round_ns:
            raise ValueError(f"a slice of {slice_ns} ns in a round of {round_ns} ns")
        self.slice_ns = slice_ns
        self.round_ns = round_ns

    def charge(self, Share share not None, int64_t elapsed_ns):
        self.charge_c(share, elapsed_ns)

    def look(self, double moment):
        self.look_c(moment)

    cdef void look_c(self, double moment) noexcept:
        if moment != self._looked_at:
            self._looked_at = moment
            self.spent_ns = 0

    cdef void charge_c(self, Share share, int64_t elapsed_ns) noexcept:
        share.charge_c(elapsed_ns)
        self.spent_ns += elapsed_ns
        if self.spent_ns > self.round_ns:
            self.is_crowded = True
