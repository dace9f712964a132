/* Poseidon2 over the BN254 scalar field, width 4: one interface, several kernels.
 *
 * Elements outside are 32 bytes, big-endian, and must be below the modulus (check them with
 * poseidon2_first_not_canonical first).  A state is four elements.  Nothing here allocates,
 * fails or touches Python. */
#ifndef FASTNODE_POSEIDON2_H
#define FASTNODE_POSEIDON2_H

#include <stddef.h>
#include <stdint.h>

#define POSEIDON2_FIELD_BYTES 32
#define POSEIDON2_WIDTH 4
#define POSEIDON2_RATE 3
#define POSEIDON2_STATE_BYTES (POSEIDON2_WIDTH * POSEIDON2_FIELD_BYTES)

typedef struct {
    const char *name;

    /* How many of `waiting` inputs of one length are best given to hash_many at once, at least 1: more of them would make
     * each wait without getting cheaper.  Always 1 where nothing is done side by side. */
    size_t (*together)(size_t waiting);

    /* Hash `count` inputs of `arity` elements each, one after the other in `inputs`; 32 bytes
     * each to `out`.  `out` may be `inputs`: no input is overwritten before it was read. */
    void (*hash_many)(const uint8_t *inputs, size_t arity, size_t count, uint8_t *out);

    /* Hash of `count` elements, from 0 on. */
    void (*hash_one)(const uint8_t *elements, size_t count, uint8_t *out);

    /* One state in, one out; `out` may be `in`. */
    void (*permute)(const uint8_t *in, uint8_t *out);

    /* For each of `groups` groups of three elements: add them to lanes 0 to 2 of the state, permute. */
    void (*absorb)(uint8_t *state, const uint8_t *elements, size_t groups);

    /* The same for each of `count` states, one after the other in `states`: `groups[i]` groups for state i, behind those
     * of the states before it in `elements`. */
    void (*absorb_many)(uint8_t *states, const uint8_t *elements, const size_t *groups, size_t count);
} poseidon2_kernel;

extern const poseidon2_kernel poseidon2_portable;
#if defined(__x86_64__)
extern const poseidon2_kernel poseidon2_x86_64_adx;
extern const poseidon2_kernel poseidon2_avx2_fma;
extern const poseidon2_kernel poseidon2_avx512_ifma;
#endif

/* Every kernel compiled in, slowest first, ending with a NULL; the portable one is always there. */
extern const poseidon2_kernel *const poseidon2_kernels[];

/* Can this processor run it? */
int poseidon2_kernel_runs_here(const poseidon2_kernel *kernel);

/* Index of the first of `count` elements that is not below the modulus, or `count`. */
size_t poseidon2_first_not_canonical(const uint8_t *elements, size_t count);

#endif
