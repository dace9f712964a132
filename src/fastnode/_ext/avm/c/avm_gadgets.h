/* The public virtual machine's functions over many cells: hashing, curve addition, digits. */
#ifndef FASTNODE_AVM_GADGETS_H
#define FASTNODE_AVM_GADGETS_H

#include "avm_field.h"

#define SHA_STATE 8
#define SHA_BLOCK 16
#define KECCAK_LANES 25
#define RADIX_MAX 256
/* Digits of the largest element in the smallest radix. */
#define DIGITS_MAX 254

typedef struct {
    element x, y;
    int is_infinity; /* then the coordinates count for nothing */
} curve_point;

/* The compression function of FIPS 180-4, with the addition of the state at its end. */
void sha256_compress(uint32_t state[SHA_STATE], const uint32_t block[SHA_BLOCK]);

/* The permutation of FIPS 202; lane (x, y) is number x + 5y. */
void keccak_f1600(uint64_t lanes[KECCAK_LANES]);

/* Grumpkin: y^2 = x^3 - 17. */
int curve_holds(const curve_point *point);
curve_point curve_add(const curve_point *left, const curve_point *right);

/* Digits of the largest element, by radix up to RADIX_MAX; 0 for radix 0 and 1. */
uint32_t digit_count(uint32_t radix);

/* All digits of a value, least significant first; how many.  2 <= radix <= RADIX_MAX. */
uint32_t digits_of(element value, uint32_t radix, uint8_t digits[DIGITS_MAX]);

#endif
