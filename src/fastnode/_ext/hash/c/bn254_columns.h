/* Products in the BN254 scalar field, column by column, for any 64-bit machine.
 *
 * Each of them starts with the lowest column and divides by R on the way: in each of the lower four
 * columns it adds the multiple m of p that makes the column's low limb zero.  Loops are unrolled. */
#ifndef FASTNODE_BN254_COLUMNS_H
#define FASTNODE_BN254_COLUMNS_H

#include "bn254.h"

#define COLUMNS (2 * LIMBS - 1)

/* A column of a product being summed up: three limbs. */
typedef struct {
    uint64_t low, middle, high;
} column;

/* c + a * b */
INLINE column add_product(column c, uint64_t a, uint64_t b)
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

INLINE int first_in(int col)
{
    return col < LIMBS ? 0 : col - LIMBS + 1;
}

/* The column c number `col` of a product, with what the reduction adds to it; and the next one. */
INLINE column reduce_column(column c, int col, uint64_t m[LIMBS], element *result)
{
    UNROLL for (int j = first_in(col); j < col && j < LIMBS; j++)
        c = add_product(c, m[j], P64_MODULUS[col - j]);
    if (col < LIMBS) {
        m[col] = c.low * P64_NEGATIVE_INVERSE;
        c = add_product(c, m[col], P64_MODULUS[0]);
    } else {
        result->limb[col - LIMBS] = c.low;
    }
    result->limb[LIMBS - 1] = c.middle; /* of the last column */
    return (column){c.middle, c.high, 0};
}

/* An inner product on its way: the column it has come to, and what the reduction needs of those before. */
typedef struct {
    column c;
    uint64_t m[LIMBS];
    element result;
} inner_product_state;

static const int INNER_PRODUCT_COLUMNS[INNER_PRODUCT_PARTS + 1] = {0, 3, 4, COLUMNS};

INLINE void inner_product_start(inner_product_state *s)
{
    s->c = (column){0, 0, 0};
}

INLINE void inner_product_part(inner_product_state *s, int part, const element *a, const uint64_t b[][LIMBS], int n)
{
    UNROLL for (int col = INNER_PRODUCT_COLUMNS[part]; col < INNER_PRODUCT_COLUMNS[part + 1]; col++) {
        UNROLL for (int t = 0; t < n; t++)
            UNROLL for (int j = first_in(col); j <= col && j < LIMBS; j++)
                s->c = add_product(s->c, a[t].limb[j], b[t][col - j]);
        s->c = reduce_column(s->c, col, s->m, &s->result);
    }
}

INLINE element inner_product_end(const inner_product_state *s)
{
    return s->result;
}

/* a * b / R, below that + p. */
INLINE element multiply(element a, const uint64_t b[LIMBS])
{
    uint64_t m[LIMBS];
    element result;
    column c = {0, 0, 0};
    UNROLL for (int col = 0; col < COLUMNS; col++) {
        UNROLL for (int j = first_in(col); j <= col && j < LIMBS; j++)
            c = add_product(c, a.limb[j], b[col - j]);
        c = reduce_column(c, col, m, &result);
    }
    return result;
}

/* a * a / R for a below 2^255, below that + p.  Twice the products of two different limbs: once with the double
 * of the upper limb, into which the top bit of the limb between them has to come. */
INLINE element square(element a)
{
    uint64_t m[LIMBS], twice[LIMBS], twice_with_top[LIMBS];
    element result;
    UNROLL for (int i = 1; i < LIMBS; i++) {
        twice[i] = a.limb[i] << 1;
        twice_with_top[i] = twice[i] | a.limb[i - 1] >> 63;
    }
    column c = {0, 0, 0};
    UNROLL for (int col = 0; col < COLUMNS; col++) {
        UNROLL for (int j = first_in(col); 2 * j < col; j++)
            c = add_product(c, a.limb[j], col - j == j + 1 ? twice[col - j] : twice_with_top[col - j]);
        if (col % 2 == 0)
            c = add_product(c, a.limb[col / 2], a.limb[col / 2]);
        c = reduce_column(c, col, m, &result);
    }
    return result;
}

#endif
