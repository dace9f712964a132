from libc.stdint cimport uint8_t


cdef extern from "poseidon2.h" nogil:
    enum:
        POSEIDON2_FIELD_BYTES
        POSEIDON2_RATE
        POSEIDON2_STATE_BYTES

    ctypedef struct poseidon2_kernel:
        const char *name
        size_t (*together)(size_t waiting) noexcept nogil
        void (*hash_many)(const uint8_t *inputs, size_t arity, size_t count, uint8_t *out) noexcept nogil
        void (*hash_one)(const uint8_t *elements, size_t count, uint8_t *out) noexcept nogil
        void (*permute)(const uint8_t *state, uint8_t *out) noexcept nogil
        void (*absorb)(uint8_t *state, const uint8_t *elements, size_t groups) noexcept nogil
        void (*absorb_many)(uint8_t *states, const uint8_t *elements, const size_t *groups, size_t count) noexcept nogil

    const poseidon2_kernel *const *poseidon2_kernels
    bint poseidon2_kernel_runs_here(const poseidon2_kernel *kernel)
    size_t poseidon2_first_not_canonical(const uint8_t *elements, size_t count)


# For other extensions, without the GIL.  Elements are 32 bytes, big-endian; 0 when done, -1 with nothing
# written when one is not below the modulus.  n counts hashes; `out` may be the input itself.
cdef int hash_fields_c(const uint8_t *fields, size_t n, uint8_t *out) noexcept nogil    # one hash of n elements
cdef int hash_pair_c(const uint8_t *left, const uint8_t *right, uint8_t *out) noexcept nogil
cdef int hash_pairs_c(const uint8_t *nodes, size_t n, uint8_t *out) noexcept nogil      # 64 * n to 32 * n bytes
# The same with `separator` hashed before each pair; NULL: without.
cdef int hash_nodes_c(const uint8_t *separator, const uint8_t *nodes, size_t n, uint8_t *out) noexcept nogil
cdef int hash_leaves_3_c(const uint8_t *leaves, size_t n, uint8_t *out) noexcept nogil  # 96 * n to 32 * n bytes
cdef int hash_leaves_4_c(const uint8_t *leaves, size_t n, uint8_t *out) noexcept nogil  # 128 * n to 32 * n bytes
# n runs of `arity` elements each: 32 * arity * n to 32 * n bytes
cdef int hash_runs_c(const uint8_t *runs, size_t arity, size_t n, uint8_t *out) noexcept nogil
# How many of so many runs of one length hash_runs_c should have at once.
cdef size_t together_c(size_t waiting) noexcept nogil
cdef int permute_c(const uint8_t *state, uint8_t *out) noexcept nogil                     # 128 bytes to 128 bytes
