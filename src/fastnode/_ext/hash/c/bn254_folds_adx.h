/* Products in the BN254 scalar field sooner than those of bn254_rows_adx.h, but larger.
 *
 * A Montgomery step looks for the multiple of p that clears the lowest limb, which is a product more to wait for.  But a
 * lowest limb t also counts as much as t times 2^-64 mod p one limb higher up.  Three limbs go this way; the last one
 * takes a Montgomery step, because only that makes four limbs of the result.  2^-64 mod p is below 0.77 p: results are
 * that much larger. */
#ifndef FASTNODE_BN254_FOLDS_ADX_H
#define FASTNODE_BN254_FOLDS_ADX_H

#include "bn254_rows_adx.h"

/* One product of a row: with its low half to one limb and its high half to the next one. */
#define ADD_ONE(b, low_to, high_to)                                                                                    \
    "mulxq %[" b "], %[low], %[high]\n\tadcxq %[low], %[" low_to "]\n\tadoxq %[high], %[" high_to "]\n\t"

/* t = a * (b0, b1, b2, b3), five limbs. */
INLINE void set_row_4(uint64_t t[LIMBS + 1], uint64_t a, uint64_t b0, uint64_t b1, uint64_t b2, uint64_t b3)
{
    uint64_t low1, low2, low3;
    __asm__("mulxq %[b0], %[t0], %[t1]\n\t"
            "mulxq %[b1], %[low1], %[t2]\n\taddq %[low1], %[t1]\n\t"
            "mulxq %[b2], %[low2], %[t3]\n\tadcq %[low2], %[t2]\n\t"
            "mulxq %[b3], %[low3], %[t4]\n\tadcq %[low3], %[t3]\n\tadcq $0, %[t4]"
            : [t0] "=&r"(t[0]), [t1] "=&r"(t[1]), [t2] "=&r"(t[2]), [t3] "=&r"(t[3]), [t4] "=&r"(t[4]),
              [low1] "=&r"(low1), [low2] "=&r"(low2), [low3] "=&r"(low3)
            : "d"(a), [b0] "r"(b0), [b1] "r"(b1), [b2] "r"(b2), [b3] "r"(b3)
            : "cc");
}

/* t + a * (b0, b1, b2); t is four limbs and has room for the sum. */
INLINE void add_row_3(uint64_t t[LIMBS], uint64_t a, uint64_t b0, uint64_t b1, uint64_t b2)
{
    uint64_t low, high, zero;
    __asm__("xorl %k[zero], %k[zero]\n\t" ADD_ONE("b0", "t0", "t1") ADD_ONE("b1", "t1", "t2") ADD_ONE("b2", "t2", "t3")
            "adcxq %[zero], %[t3]"
            : [t0] "+&r"(t[0]), [t1] "+&r"(t[1]), [t2] "+&r"(t[2]), [t3] "+&r"(t[3]),
              [low] "=&r"(low), [high] "=&r"(high), [zero] "=&r"(zero)
            : "d"(a), [b0] "r"(b0), [b1] "r"(b1), [b2] "r"(b2)
            : "cc");
}

/* t + a * (b0, b1); t is three limbs and has room for the sum. */
INLINE void add_row_2(uint64_t t[LIMBS - 1], uint64_t a, uint64_t b0, uint64_t b1)
{
    uint64_t low, high, zero;
    __asm__("xorl %k[zero], %k[zero]\n\t" ADD_ONE("b0", "t0", "t1") ADD_ONE("b1", "t1", "t2") "adcxq %[zero], %[t2]"
            : [t0] "+&r"(t[0]), [t1] "+&r"(t[1]), [t2] "+&r"(t[2]),
              [low] "=&r"(low), [high] "=&r"(high), [zero] "=&r"(zero)
            : "d"(a), [b0] "r"(b0), [b1] "r"(b1)
            : "cc");
}

/* t + a * a; t is two limbs and has room for the sum. */
INLINE void add_square(uint64_t t[2], uint64_t a)
{
    uint64_t low, high;
    __asm__("mulxq %%rdx, %[low], %[high]\n\taddq %[low], %[t0]\n\tadcq %[high], %[t1]"
            : [t0] "+&r"(t[0]), [t1] "+&r"(t[1]), [low] "=&r"(low), [high] "=&r"(high)
            : "d"(a)
            : "cc");
}

/* What t[0] counts to t[1] to t[5], where t[5] is the first one not in use yet. */
INLINE void fold_lowest(uint64_t t[LIMBS + 2])
{
    t[LIMBS + 1] = 0;
    ADD_ROW(t + 1, t[0], P1_FOLD, "m");
}

/* a * b / R, below that + 1.77 p, for b below 4.5 p: then a row, 0.77 p and what is left of the last row fit. */
INLINE element fold_multiply(element a, element b)
{
    uint64_t t[2 * LIMBS];
    set_row_4(t, a.limb[0], b.limb[0], b.limb[1], b.limb[2], b.limb[3]);
    UNROLL for (int i = 1; i < LIMBS; i++) {
        fold_lowest(t + i - 1);
        ADD_ROW(t + i, a.limb[i], b.limb, "r");
    }
    clear_lowest(t + LIMBS - 1);
    return (element){{t[4], t[5], t[6], t[7]}};
}

/* a * a / R, below that + 1.77 p, for a below 2.25 p.  Products of two different limbs count twice: once with the double
 * of the upper one, into which the top bit of the limb between them has to come. */
INLINE element fold_square(element a)
{
    uint64_t t[2 * LIMBS];
    uint64_t twice_1 = a.limb[1] << 1, twice_2 = a.limb[2] << 1, twice_3 = a.limb[3] << 1;
    uint64_t twice_2_with_top = twice_2 + (a.limb[1] >> 63), twice_3_with_top = twice_3 + (a.limb[2] >> 63);
    set_row_4(t, a.limb[0], a.limb[0], twice_1, twice_2_with_top, twice_3_with_top);
    fold_lowest(t);
    add_row_3(t + 2, a.limb[1], a.limb[1], twice_2, twice_3_with_top);
    fold_lowest(t + 1);
    add_row_2(t + 4, a.limb[2], a.limb[2], twice_3);
    fold_lowest(t + 2);
    add_square(t + 6, a.limb[3]);
    clear_lowest(t + LIMBS - 1);
    return (element){{t[4], t[5], t[6], t[7]}};
}

#endif
