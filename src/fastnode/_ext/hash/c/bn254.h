/* The BN254 scalar field on 64-bit machines: Montgomery form, R = 2^256.
 *
 * An element is four limbs of 64 bits, least significant first.  The modulus p is a little below
 * 0.19 * 2^256, so that four limbs hold up to 5.29 p.  To save subtractions most values are only
 * bounded, not reduced; every function states the bounds it needs and gives.
 *
 * Products are in bn254_columns.h, and for x86-64 with ADX in bn254_rows_adx.h.  An inner product is
 * made in parts, so that other work can be put between them: processors look only some hundred
 * instructions ahead for something to do. */
#ifndef FASTNODE_BN254_H
#define FASTNODE_BN254_H

#include <stddef.h>
#include <stdint.h>

#define POSEIDON2_TABLES_PORTABLE
#include "poseidon2_tables.h"

#define FIELD_BYTES 32
#define LIMBS 4

#define INNER_PRODUCT_PARTS 3

typedef unsigned __int128 wide;

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

typedef struct {
    uint64_t limb[LIMBS];
} element;

/* ---- carries --------------------------------------------------------------------------------- */

/* For arm64 compilers turn 128-bit sums into chains of additions with carry well enough; for x86-64 they do
 * not, so that the chains are spelled out. */

/* a + b; the sum must be below 2^256. */
INLINE element add(element a, element b)
{
#if defined(__x86_64__)
    __asm__("addq %4, %0\n\tadcq %5, %1\n\tadcq %6, %2\n\tadcq %7, %3"
            : "+&r"(a.limb[0]), "+&r"(a.limb[1]), "+&r"(a.limb[2]), "+&r"(a.limb[3])
            : "rm"(b.limb[0]), "rm"(b.limb[1]), "rm"(b.limb[2]), "rm"(b.limb[3])
            : "cc");
#else
    wide sum = 0;
    for (int i = 0; i < LIMBS; i++) {
        sum += (wide)a.limb[i] + b.limb[i];
        a.limb[i] = (uint64_t)sum;
        sum >>= 64;
    }
#endif
    return a;
}

/* a - b; b must not be above a. */
INLINE element subtract(element a, element b)
{
#if defined(__x86_64__)
    __asm__("subq %4, %0\n\tsbbq %5, %1\n\tsbbq %6, %2\n\tsbbq %7, %3"
            : "+&r"(a.limb[0]), "+&r"(a.limb[1]), "+&r"(a.limb[2]), "+&r"(a.limb[3])
            : "rm"(b.limb[0]), "rm"(b.limb[1]), "rm"(b.limb[2]), "rm"(b.limb[3])
            : "cc");
#else
    uint64_t borrow = 0;
    for (int i = 0; i < LIMBS; i++) {
        wide difference = (wide)a.limb[i] - b.limb[i] - borrow;
        a.limb[i] = (uint64_t)difference;
        borrow = (uint64_t)(difference >> 64) & 1;
    }
#endif
    return a;
}

/* ---- reduction ------------------------------------------------------------------------------- */

/* a below 2 * multiple to a below multiple, or multiple + 2^192: only the upper limbs are compared. */
INLINE element less(element a, const uint64_t multiple[LIMBS])
{
    uint64_t mask = 0 - (uint64_t)(a.limb[3] > multiple[3]);
    element b = {{multiple[0] & mask, multiple[1] & mask, multiple[2] & mask, multiple[3] & mask}};
    return subtract(a, b);
}

/* a - p unless that is negative. */
INLINE element less_modulus(element a)
{
    for (int i = LIMBS - 1; i >= 0; i--) {
        if (a.limb[i] < P64_MODULUS[i])
            return a;
        if (a.limb[i] > P64_MODULUS[i])
            break;
    }
    return subtract(a, (element){{P64_MODULUS[0], P64_MODULUS[1], P64_MODULUS[2], P64_MODULUS[3]}});
}

#endif
