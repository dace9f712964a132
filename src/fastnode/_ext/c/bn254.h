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

/* a + b; the sum must be below 2^256. */
static inline element add(element a, element b)
{
    element sum;
    wide carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        carry += (wide)a.limb[i] + b.limb[i];
        sum.limb[i] = (uint64_t)carry;
        carry >>= 64;
    }
    return sum;
}

/* a - b; b must not be above a. */
static inline element subtract(element a, element b)
{
    element difference;
    uint64_t borrow = 0;
    for (int i = 0; i < LIMBS; i++) {
        wide d = (wide)a.limb[i] - b.limb[i] - borrow;
        difference.limb[i] = (uint64_t)d;
        borrow = (uint64_t)(d >> 64) & 1;
    }
    return difference;
}

/* a - multiple if that is not negative, else a.  Without branches. */
static inline element reduce_once(element a, const uint64_t multiple[LIMBS])
{
    element reduced;
    uint64_t borrow = 0;
    for (int i = 0; i < LIMBS; i++) {
        wide d = (wide)a.limb[i] - multiple[i] - borrow;
        reduced.limb[i] = (uint64_t)d;
        borrow = (uint64_t)(d >> 64) & 1;
    }
    uint64_t keep = 0 - borrow;
    for (int i = 0; i < LIMBS; i++)
        reduced.limb[i] ^= keep & (reduced.limb[i] ^ a.limb[i]);
    return reduced;
}

/* (a + b) mod p for a and b below p. */
static inline element add_mod(element a, element b)
{
    return reduce_once(add(a, b), P64_MODULUS);
}

/* One step of a Montgomery product by rows: t = (t + a * b + m p) / 2^64 with the m that makes it whole.
 *
 * With b below 3 p, t stays below b + p < 2^256 whatever a is, so that no fifth limb is needed. */
static inline void montgomery_row(uint64_t t[LIMBS], uint64_t a, const uint64_t b[LIMBS])
{
    wide product = (wide)a * b[0] + t[0];
    uint64_t m = (uint64_t)product * P64_NEGATIVE_INVERSE;
    wide multiple = (wide)m * P64_MODULUS[0] + (uint64_t)product;
    for (int i = 1; i < LIMBS; i++) {
        product = (wide)a * b[i] + t[i] + (uint64_t)(product >> 64);
        multiple = (wide)m * P64_MODULUS[i] + (uint64_t)product + (uint64_t)(multiple >> 64);
        t[i - 1] = (uint64_t)multiple;
    }
    t[LIMBS - 1] = (uint64_t)(product >> 64) + (uint64_t)(multiple >> 64);
}

/* a * b / R for any a and b below 3 p. */
static inline element multiply(element a, const uint64_t b[LIMBS])
{
    element t = {{0, 0, 0, 0}};
    for (int i = 0; i < LIMBS; i++)
        montgomery_row(t.limb, a.limb[i], b);
    return t;
}

/* a * a / R for a below 3 p. */
static inline element square(element a)
{
    return multiply(a, a.limb);
}

/* t += a * b, where t has one limb more than b and room for the sum. */
static inline void multiply_row(uint64_t t[LIMBS + 1], uint64_t a, const uint64_t b[LIMBS])
{
    wide sum = 0;
    for (int i = 0; i < LIMBS; i++) {
        sum = (wide)a * b[i] + t[i] + (uint64_t)(sum >> 64);
        t[i] = (uint64_t)sum;
    }
    t[LIMBS] += (uint64_t)(sum >> 64);
}

/* t = (t + m p) / 2^64 with the m that makes it whole. */
static inline void reduce_row(uint64_t t[LIMBS + 1])
{
    uint64_t m = t[0] * P64_NEGATIVE_INVERSE;
    wide sum = (wide)m * P64_MODULUS[0] + t[0];
    for (int i = 1; i < LIMBS; i++) {
        sum = (wide)m * P64_MODULUS[i] + t[i] + (uint64_t)(sum >> 64);
        t[i - 1] = (uint64_t)sum;
    }
    sum = (wide)t[LIMBS] + (uint64_t)(sum >> 64);
    t[LIMBS - 1] = (uint64_t)sum;
    t[LIMBS] = (uint64_t)(sum >> 64);
}

/* (a[0] b[0] + a[1] b[1] + a[2] b[2]) / R with one reduction, for any a and b below p.
 *
 * t stays below 4 p < 2^256 after every row.  The result is below 0.19 p * (sum of a / p) + p. */
static inline element inner_product_3(const element a[3], const uint64_t b[][LIMBS])
{
    uint64_t t[LIMBS + 1] = {0, 0, 0, 0, 0};
    for (int i = 0; i < LIMBS; i++) {
        for (int j = 0; j < 3; j++)
            multiply_row(t, a[j].limb[i], b[j]);
        reduce_row(t);
    }
    return (element){{t[0], t[1], t[2], t[3]}};
}

#endif
