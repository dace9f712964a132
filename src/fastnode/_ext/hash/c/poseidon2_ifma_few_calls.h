/* What the AVX-512 IFMA kernel for one or two states does in vectors with their lanes side by side: full rounds. */
#ifndef FASTNODE_POSEIDON2_IFMA_FEW_CALLS_H
#define FASTNODE_POSEIDON2_IFMA_FEW_CALLS_H

#include <stdint.h>

#define SIDE_LIMBS 5

/* Limb i, of 52 bits, of lane j at limb[i][j], of a second state at limb[i][4 + j]. */
typedef struct {
    uint64_t limb[SIDE_LIMBS][8];
} __attribute__((aligned(64))) side_by_side;

/* Montgomery form, R = 2^260, where it does not say otherwise.  Bounds are in multiples of p; limbs are exact. */

/* Add elements that are not in Montgomery form; from 2.4 to 4.7. */
void poseidon2_ifma_few_add(side_by_side *s, const side_by_side *elements);
/* Out of Montgomery form, below 2.4. */
void poseidon2_ifma_few_leave(side_by_side *s);
/* Add such elements, then the first external layer and four full rounds; from 4.7 to 38. */
void poseidon2_ifma_few_first(side_by_side *s, const side_by_side *elements);
/* The last four, from 38 with limbs below 2^60 to 2.4. */
void poseidon2_ifma_few_last(side_by_side *s);

#endif
