from libc.stdint cimport int64_t


cdef class Share:
    cdef:
        public int64_t used_ns
        public int64_t turn_ns
        public int64_t served_ns
        public int64_t period
        public Share group

    cdef void charge_c(self, int64_t elapsed_ns) noexcept
    cdef void _learn(self, int64_t elapsed_ns) noexcept
    cdef void add_c(self, int64_t elapsed_ns) noexcept


cdef class LoopTime:
    cdef:
        public int64_t slice_ns
        readonly int64_t round_ns
        public int64_t spent_ns
        public bint is_crowded
        bint _is_noted
        int64_t _cpu_then_ns
        int64_t _charged_since_ns
        object _on_use

    cdef int charge_c(self, Share share, int64_t elapsed_ns) except -1
    cdef int64_t _worked_ns(self, int64_t elapsed_ns) noexcept
    cdef int spend(self, int64_t elapsed_ns) except -1
