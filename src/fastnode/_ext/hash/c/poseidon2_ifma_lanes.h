/* Poseidon2 with AVX-512 IFMA: LANES states side by side, VECTORS vectors of eight lanes each.
 *
 * The including file defines VECTORS, and the names of what comes out of poseidon2_lanes_sponge.h. */
#include "poseidon2_lanes.h"

#include <immintrin.h>
#include <string.h>

#define POSEIDON2_TABLES_VECTOR
#include "poseidon2_tables.h"

#define VECTOR_LANES 8
#define CODE __attribute__((target("avx512f,avx512dq,avx512ifma")))
#define EACH_VECTOR UNROLL for (int v = 0; v < VECTORS; v++)

typedef struct {
    __m512i of[VECTORS];
} lanes;

/* ---- one number in each lane ----------------------------------------------------------------- */

INLINE lanes everywhere(uint64_t value)
{
    lanes r;
    EACH_VECTOR r.of[v] = _mm512_set1_epi64((long long)value);
    return r;
}

INLINE lanes load_lanes(const uint64_t *numbers)
{
    lanes r;
    EACH_VECTOR r.of[v] = _mm512_loadu_si512(numbers + VECTOR_LANES * v);
    return r;
}

INLINE void store_lanes(uint64_t *numbers, lanes a)
{
    EACH_VECTOR _mm512_storeu_si512(numbers + VECTOR_LANES * v, a.of[v]);
}

INLINE lanes plus(lanes a, lanes b)
{
    EACH_VECTOR a.of[v] = _mm512_add_epi64(a.of[v], b.of[v]);
    return a;
}

INLINE lanes minus(lanes a, lanes b)
{
    EACH_VECTOR a.of[v] = _mm512_sub_epi64(a.of[v], b.of[v]);
    return a;
}

INLINE lanes both(lanes a, lanes b)
{
    EACH_VECTOR a.of[v] = _mm512_and_si512(a.of[v], b.of[v]);
    return a;
}

INLINE lanes either(lanes a, lanes b)
{
    EACH_VECTOR a.of[v] = _mm512_or_si512(a.of[v], b.of[v]);
    return a;
}

INLINE lanes shift_left(lanes a, unsigned bits)
{
    EACH_VECTOR a.of[v] = _mm512_slli_epi64(a.of[v], bits);
    return a;
}

INLINE lanes shift_right(lanes a, unsigned bits)
{
    EACH_VECTOR a.of[v] = _mm512_srli_epi64(a.of[v], bits);
    return a;
}

INLINE lanes above_limb(lanes a)
{
    EACH_VECTOR a.of[v] = _mm512_srai_epi64(a.of[v], LIMB_BITS);
    return a;
}

/* The entries of a table of eight that the lowest three bits name. */
INLINE lanes look_up(lanes index, const uint64_t table[8])
{
    EACH_VECTOR index.of[v] = _mm512_permutexvar_epi64(index.of[v], _mm512_loadu_si512(table));
    return index;
}

/* b where the sign of a is negative, else c. */
INLINE lanes by_sign(lanes a, lanes b, lanes c)
{
    EACH_VECTOR c.of[v] = _mm512_mask_mov_epi64(c.of[v], _mm512_movepi64_mask(a.of[v]), b.of[v]);
    return c;
}

/* sum + the low or high 52 bits of the product of the low 52 bits of a and b. */
INLINE lanes add_low(lanes sum, lanes a, lanes b)
{
    EACH_VECTOR sum.of[v] = _mm512_madd52lo_epu64(sum.of[v], a.of[v], b.of[v]);
    return sum;
}

INLINE lanes add_high(lanes sum, lanes a, lanes b)
{
    EACH_VECTOR sum.of[v] = _mm512_madd52hi_epu64(sum.of[v], a.of[v], b.of[v]);
    return sum;
}

#include "poseidon2_lanes_sums.h"

/* ---- products -------------------------------------------------------------------------------- */

/* A factor keeps what was added to the next limb above bit 52: the multiply instructions do not look at it. */
typedef element factor;

INLINE factor constant_factor(const uint64_t limbs[LIMBS])
{
    return constant(limbs);
}

/* Loose to carried. */
INLINE factor carried(element a)
{
    return carry(a);
}

/* The lowest 52 bits of each limb, whatever is above them. */
INLINE factor low_limbs(element a)
{
    return a;
}

/* t + a * b for carried a and b. */
INLINE product add_product(product t, factor a, factor b)
{
    UNROLL for (int i = 0; i < LIMBS; i++) {
        UNROLL for (int j = 0; j < LIMBS; j++)
            t.column[i + j] = add_low(t.column[i + j], a.limb[i], b.limb[j]);
        UNROLL for (int j = 0; j < LIMBS; j++)
            t.column[i + j + 1] = add_high(t.column[i + j + 1], a.limb[i], b.limb[j]);
    }
    return t;
}

/* a * a for carried a. */
INLINE product square(factor a)
{
    product t = no_product();
    UNROLL for (int i = 0; i < LIMBS; i++) {
        UNROLL for (int j = i + 1; j < LIMBS; j++)
            t.column[i + j] = add_low(t.column[i + j], a.limb[i], a.limb[j]);
        UNROLL for (int j = i + 1; j < LIMBS; j++)
            t.column[i + j + 1] = add_high(t.column[i + j + 1], a.limb[i], a.limb[j]);
    }
    UNROLL for (int i = 1; i < 2 * LIMBS - 1; i++)
        t.column[i] = plus(t.column[i], t.column[i]);
    UNROLL for (int i = 0; i < LIMBS; i++) {
        t.column[2 * i] = add_low(t.column[2 * i], a.limb[i], a.limb[i]);
        t.column[2 * i + 1] = add_high(t.column[2 * i + 1], a.limb[i], a.limb[i]);
    }
    return t;
}

/* t / R, loose, below t / R + 2.24.  For n products a limb is a sum of at most 9 n + 10 numbers of 52 bits.
 *
 * Limbs 0 to 3 are replaced by what they count after division by 2^208, side by side; the
 * last division by 2^52 is Montgomery's.  The table's values and the modulus add up to 2.24. */
INLINE element reduce(const vector_tables *k, product t)
{
    lanes *upper = t.column + LIMBS - 1;
    /* One vector alone would wait: it sums up apart what has not got to be added one after the other. */
    product apart = no_product();
    lanes *folded = VECTORS == 1 ? apart.column : upper;
    UNROLL for (int i = 0; i < LIMBS - 1; i++) {
        t.column[i + 1] = plus(t.column[i + 1], above_limb(t.column[i]));
        UNROLL for (int j = 0; j < LIMBS; j++) {
            folded[j] = add_low(folded[j], t.column[i], everywhere(k->fold[i][j]));
            folded[j + 1] = add_high(folded[j + 1], t.column[i], everywhere(k->fold[i][j]));
        }
    }
    if (VECTORS == 1)
        UNROLL for (int j = 0; j <= LIMBS; j++)
            upper[j] = plus(upper[j], folded[j]);

    lanes m = add_low(no_product().column[0], upper[0], everywhere(k->negative_inverse));
    /* Column 0 becomes a multiple of 2^52 by the low half of m p, which is below 2^52: round up. */
    upper[1] = plus(upper[1], above_limb(plus(upper[0], everywhere(k->limb_mask))));
    UNROLL for (int i = 1; i < LIMBS; i++)
        upper[i] = add_low(upper[i], m, everywhere(k->modulus[i]));
    UNROLL for (int i = 0; i < LIMBS; i++)
        upper[i + 1] = add_high(upper[i + 1], m, everywhere(k->modulus[i]));

    element e;
    UNROLL for (int i = 0; i < LIMBS; i++)
        e.limb[i] = upper[i + 1];
    return e;
}

/* a * b / R, loose. */
INLINE element multiply(const vector_tables *k, factor a, factor b)
{
    return reduce(k, add_product(no_product(), a, b));
}

/* From y and x of the last three rounds, newest first, to those of this one; y below 3.6, x below 6.2. */
INLINE void partial_round(const vector_tables *k, const uint64_t constants[LIMBS], factor y[3], factor x[3])
{
    element x2 = carried(reduce(k, square(x[0])));
    /* y does not wait for the S-box: between its steps it fills their latencies. */
    product t = times_r(constant(constants));
    t = add_product(t, y[2], constant(k->round[2]));
    t = add_product(t, x[2], constant(k->round[5]));
    t = add_product(t, y[1], constant(k->round[1]));
    t = add_product(t, x[1], constant(k->round[4]));
    t = add_product(t, x[0], constant(k->round[3]));
    t = add_product(t, y[0], constant(k->round[0]));
    element new_y = reduce(k, t);
    element x4 = reduce(k, square(x2));
    element new_x = reduce(k, add_product(times_r(new_y), x[0], carried(add(x4, x4))));

    x[2] = x[1];
    x[1] = x[0];
    x[0] = carried(new_x);
    y[2] = y[1];
    y[1] = y[0];
    y[0] = carried(new_y);
}

#include "poseidon2_lanes_sponge.h"
