/* Products in the BN254 scalar field, row by row, for x86-64 with BMI2 and ADX.
 *
 * mulx leaves the flags alone, adcx uses one carry and adox another, so that a row of four products takes
 * two chains of additions that do not wait for each other.  Compilers do not find this. */
#ifndef FASTNODE_BN254_ROWS_ADX_H
#define FASTNODE_BN254_ROWS_ADX_H

#include "bn254.h"

/* t + a * b, where t is five limbs, t4 the highest, and has room for the sum. */
#define ADD_ROW(t, a, b, b_place)                                                                                      \
    do {                                                                                                               \
        uint64_t low, high, zero;                                                                                      \
        __asm__("xorl %k[zero], %k[zero]\n\t"                                                                          \
                "mulxq %[b0], %[low], %[high]\n\tadcxq %[low], %[t0]\n\tadoxq %[high], %[t1]\n\t"                    \
                "mulxq %[b1], %[low], %[high]\n\tadcxq %[low], %[t1]\n\tadoxq %[high], %[t2]\n\t"                    \
                "mulxq %[b2], %[low], %[high]\n\tadcxq %[low], %[t2]\n\tadoxq %[high], %[t3]\n\t"                    \
                "mulxq %[b3], %[low], %[high]\n\tadcxq %[low], %[t3]\n\tadoxq %[high], %[t4]\n\t"                    \
                "adcxq %[zero], %[t4]"                                                                                 \
                : [t0] "+&r"((t)[0]), [t1] "+&r"((t)[1]), [t2] "+&r"((t)[2]), [t3] "+&r"((t)[3]), [t4] "+&r"((t)[4]),  \
                  [low] "=&r"(low), [high] "=&r"(high), [zero] "=&r"(zero)                                             \
                : "d"(a), [b0] b_place((b)[0]), [b1] b_place((b)[1]), [b2] b_place((b)[2]), [b3] b_place((b)[3])       \
                : "cc");                                                                                               \
    } while (0)

/* t + m p with the m that makes the lowest limb zero. */
INLINE void clear_lowest(uint64_t t[LIMBS + 1])
{
    uint64_t m = t[0] * P64_NEGATIVE_INVERSE;
    ADD_ROW(t, m, P64_MODULUS, "m");
}

/* An inner product on its way: rows that are done have moved into the upper limbs. */
typedef struct {
    uint64_t t[2 * LIMBS];
} inner_product_state;

static const int INNER_PRODUCT_ROWS[INNER_PRODUCT_PARTS + 1] = {0, 1, 2, 4};

INLINE void inner_product_start(inner_product_state *s)
{
    UNROLL for (int i = 0; i < 2 * LIMBS; i++)
        s->t[i] = 0;
}

INLINE void inner_product_part(inner_product_state *s, int part, const element *a, const uint64_t b[][LIMBS], int n)
{
    UNROLL for (int i = INNER_PRODUCT_ROWS[part]; i < INNER_PRODUCT_ROWS[part + 1]; i++) {
        UNROLL for (int j = 0; j < n; j++)
            ADD_ROW(s->t + i, a[j].limb[i], b[j], "m");
        clear_lowest(s->t + i);
    }
}

INLINE element inner_product_end(const inner_product_state *s)
{
    return (element){{s->t[4], s->t[5], s->t[6], s->t[7]}};
}

/* a * b / R, below that + p, for b below 4. */
INLINE element multiply(element a, const uint64_t b[LIMBS])
{
    uint64_t t[2 * LIMBS] = {0};
    UNROLL for (int i = 0; i < LIMBS; i++) {
        ADD_ROW(t + i, a.limb[i], b, "r");
        clear_lowest(t + i);
    }
    return (element){{t[4], t[5], t[6], t[7]}};
}

INLINE element square(element a)
{
    return multiply(a, a.limb);
}

#endif
