from libc.stdint cimport uint8_t, uint64_t


cdef extern from "hash_threads.h" nogil:
    enum:
        HASH_BYTES

    ctypedef int (*hash_runs_function)(const uint8_t *runs, size_t arity, size_t n, uint8_t *out) noexcept nogil
    ctypedef size_t (*together_function)(size_t waiting) noexcept nogil

    ctypedef struct hash_job:
        pass

    ctypedef struct hash_counts:
        uint64_t runs
        uint64_t batches

    void hash_threads_use(hash_runs_function hash_runs, together_function together, size_t threads)
    void hash_threads_limit(size_t threads)
    hash_job *hash_threads_start(const uint8_t *elements, size_t count)
    bint hash_threads_is_done(hash_job *job)
    int hash_threads_wait(hash_job *job, uint8_t *hash)
    void hash_threads_drop(hash_job *job)
    hash_counts hash_threads_counts()


cdef class PendingHash:
    cdef:
        hash_job *_job      # owned
        bytes _hash         # once a caller has waited for it
