# The clock of requests.  The stub (clock.pyi) says what everything does.

from libc.stdint cimport int64_t


cdef extern from "<time.h>" nogil:
    ctypedef long time_t
    struct timespec:
        time_t tv_sec
        long tv_nsec
    int CLOCK_MONOTONIC
    int CLOCK_THREAD_CPUTIME_ID
    int clock_gettime(int clock, timespec *result)


cdef int64_t given_ns = 0


cdef int64_t clock_ns() noexcept nogil:
    """A clock that only rises, in nanoseconds."""
    return given_ns if given_ns else _read(CLOCK_MONOTONIC)


cdef int64_t thread_cpu_ns() noexcept nogil:
    """Time of a processor that the calling thread has had, in nanoseconds."""
    return given_ns if given_ns else _read(CLOCK_THREAD_CPUTIME_ID)


cdef inline int64_t _read(int clock) noexcept nogil:
    cdef timespec moment
    clock_gettime(clock, &moment)
    return <int64_t>moment.tv_sec * 1000000000 + moment.tv_nsec


def now_ns():
    return clock_ns()


def give(int64_t moment_ns):
    global given_ns
    given_ns = moment_ns
