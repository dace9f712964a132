/* Between the two halves of the AVX-512 IFMA kernel for one state: full rounds in vectors, partial rounds in scalars. */
#ifndef FASTNODE_POSEIDON2_IFMA_SINGLE_H
#define FASTNODE_POSEIDON2_IFMA_SINGLE_H

#include <stdint.h>

#define SIDE_LIMBS 5

/* Limb i, of 52 bits, of lane j at limb[i][j].  Vectors 4 to 7 are empty. */
typedef struct {
    uint64_t limb[SIDE_LIMBS][8];
} __attribute__((aligned(64))) side_by_side;

/* Montgomery form, R = 2^260, everywhere but where it says otherwise.  Bounds are in multiples of p; limbs are exact. */

/* Add elements that are not in Montgomery form; from 2.4 to 2.4. */
void poseidon2_ifma_single_add(side_by_side *s, const side_by_side *elements);
/* Out of Montgomery form, below 2.4. */
void poseidon2_ifma_single_leave(side_by_side *s);
/* Add such elements, then the first external layer and four full rounds; from 2.4 to 2.4. */
void poseidon2_ifma_single_first(side_by_side *s, const side_by_side *elements);
/* The last four; from 2.4 to 2.4. */
void poseidon2_ifma_single_last(side_by_side *s);

#endif
