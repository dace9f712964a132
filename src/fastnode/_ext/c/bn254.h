/* The BN254 scalar field on 64-bit machines: Montgomery form, R = 2^256.
 *
 * An element is four limbs of 64 bits, least significant first.  The modulus p is a little below
 * 0.19 * 2^256, so that four limbs hold up to 5 p.  To save subtractions most values are only
 * bounded, not reduced; every function states the bounds it needs and gives.
 *
 * A Montgomery product of a and b is below (a / p) * (b / p) * 0.19 p + p.
 */
#ifndef FASTNODE_BN254_H
#define FASTNODE_BN254_H

#include <stddef.h>
#include <stdint.h>

#define POSEIDON2_TABLES_PORTABLE
#include "poseidon2_tables.h"

#define FIELD_BYTES 32
#define LIMBS 4

typedef unsigned __int128 wide;

typedef struct {
    uint64_t limb[LIMBS];
} element;

/* ---- carries --------------------------------------------------------------------------------- */

/* Compilers turn 128-bit sums into chains of additions with carry well enough on arm64.  For x86-64 they
 * do not, so that the three chains that everything is made of are spelled out there. */

/* a + b; the sum must be below 2^256. */
static inline element add(element a, element b)
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
static inline element subtract(element a, element b)
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

/* A column of a product being summed up: three limbs. */
typedef struct {
    uint64_t low, middle, high;
} column;

/* c + a * b */
static inline column add_product(column c, uint64_t a, uint64_t b)
{
    wide product = (wide)a * b;
#if defined(__x86_64__)
    __asm__("addq %3, %0\n\tadcq %4, %1\n\tadcq $0, %2"
            : "+&r"(c.low), "+&r"(c.middle), "+&r"(c.high)
            : "r"((uint64_t)product), "r"((uint64_t)(product >> 64))
            : "cc");
#else
    wide sum = product + ((wide)c.middle << 64 | c.low);
    c.high += sum < product;
    c.low = (uint64_t)sum;
    c.middle = (uint64_t)(sum >> 64);
#endif
    return c;
}

/* The column above, with what this one carries into it. */
static inline column next(column c)
{
    return (column){c.middle, c.high, 0};
}

/* ---- reduction ------------------------------------------------------------------------------- */

/* a below 2 * multiple to a below multiple, or multiple + 2^192: only the upper limbs are compared. */
static inline element less(element a, const uint64_t multiple[LIMBS])
{
    uint64_t mask = 0 - (uint64_t)(a.limb[3] > multiple[3]);
    element b = {{multiple[0] & mask, multiple[1] & mask, multiple[2] & mask, multiple[3] & mask}};
    return subtract(a, b);
}

/* a - p unless that is negative. */
static inline element less_modulus(element a)
{
    for (int i = LIMBS - 1; i >= 0; i--) {
        if (a.limb[i] < P64_MODULUS[i])
            return a;
        if (a.limb[i] > P64_MODULUS[i])
            break;
    }
    return subtract(a, (element){{P64_MODULUS[0], P64_MODULUS[1], P64_MODULUS[2], P64_MODULUS[3]}});
}

/* ---- products -------------------------------------------------------------------------------- */

/* (a[0] * b[0] + ... + a[n-1] * b[n-1]) / R with one reduction, column by column.
 *
 * The result is below (sum of a[i] * b[i]) / R + p, and that must be below 2^256. */
static inline __attribute__((always_inline)) element inner_product(const element *a, const uint64_t b[][LIMBS], int n)
{
    uint64_t m[LIMBS];
    element result;
    column c = {0, 0, 0};
#pragma GCC unroll 8
    for (int i = 0; i < 2 * LIMBS - 1; i++) {
        int first = i < LIMBS ? 0 : i - LIMBS + 1, last = i < LIMBS ? i : LIMBS - 1;
#pragma GCC unroll 8
        for (int t = 0; t < n; t++)
#pragma GCC unroll 8
            for (int j = first; j <= last; j++)
                c = add_product(c, a[t].limb[j], b[t][i - j]);
#pragma GCC unroll 8
        for (int j = first; j <= last && j < i; j++)
                    c = add_product(c, m[j], P64_MODULUS[i - j]);
        if (i < LIMBS) {
            m[i] = c.low * P64_NEGATIVE_INVERSE;
            c = add_product(c, m[i], P64_MODULUS[0]);
        } else {
            result.limb[i - LIMBS] = c.low;
        }
        c = next(c);
    }
    result.limb[LIMBS - 1] = c.low;
    return result;
}

/* a * b / R */
static inline element multiply(element a, const uint64_t b[LIMBS])
{
    return inner_product(&a, (const uint64_t(*)[LIMBS])b, 1);
}

static inline element square(element a)
{
    return multiply(a, a.limb);
}

#endif
