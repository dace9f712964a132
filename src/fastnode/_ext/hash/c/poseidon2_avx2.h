/* Numbers of the AVX2 kernel that are the same in all lanes.  They are in another file than their use: numbers that
 * a compiler knows, it makes in the code, with instructions on the ports that also multiply; from memory they are
 * free. */
#ifndef FASTNODE_POSEIDON2_AVX2_H
#define FASTNODE_POSEIDON2_AVX2_H

#include "poseidon2_lanes.h"

#define VECTOR_LANES 4
/* A batch takes 2.5 times as long as one input alone. */
#define LANES_WORTH_IT 3

typedef uint64_t same_number[VECTOR_LANES];

typedef struct {
    same_number limb_mask;
    same_number sign;          /* 2^63 */
    same_number sign_of_carry; /* of what is above a limb, after 2^63 was added */
    same_number exponent_low;  /* of doubles from 2^52 on */
    same_number product[2 * LIMBS]; /* exponents that a product leaves in each of its columns */
    same_number six_products[2 * LIMBS];
    same_number row[LIMBS + 1]; /* the same for a limb times an element */
    same_number four_rows[LIMBS + 1];
} avx2_numbers;

extern __attribute__((visibility("hidden"))) const avx2_numbers AVX2_NUMBERS;

#endif
