from libc.stdint cimport int64_t


cdef extern from "<time.h>" nogil:
    ctypedef long time_t
    struct timespec:
        time_t tv_sec
        long tv_nsec
    int CLOCK_MONOTONIC
    int CLOCK_THREAD_CPUTIME_ID
    int clock_gettime(int clock, timespec *result)


cdef inline int64_t clock_ns() noexcept nogil:
    """A clock that only rises, in nanoseconds."""
    cdef timespec moment
    clock_gettime(CLOCK_MONOTONIC, &moment)
    return <int64_t>moment.tv_sec * 1000000000 + moment.tv_nsec


cdef inline int64_t thread_cpu_ns() noexcept nogil:
    """What the calling thread has had of a processor, in nanoseconds."""
    cdef timespec moment
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &moment)
    return <int64_t>moment.tv_sec * 1000000000 + moment.tv_nsec
