/* Poseidon2 with AVX2 and FMA: four states side by side.
 *
 * The multiply instructions are those of doubles, whose numbers of 53 bits have room for a limb.  With the rounding
 * mode towards zero, for integers a and b from 0 to below 2^52,
 *
 *   high = 2^104 + a b                      is 2^104 + 2^52 floor(a b / 2^52): the last bit of doubles from 2^104 on
 *                                           is 2^52, and the sum is below 2^105
 *   low  = (2^104 + 2^52 - high) + a b      is 2^52 + a b mod 2^52: the bracket and the sum are exact
 *
 * so that the 52 bits below a double's exponent are the upper and the lower half of a product, as AVX-512 IFMA has
 * them: the bounds on their sums are the same.  Both are from 0 to below 2^52, so are the limbs of a factor, and a
 * column is never negative.  The exponents, which are always the same, are added up with the halves and taken away from
 * a column at its end: integers of 64 bits forget what is above them.
 *
 * The caller sets the rounding mode, in another file, so that no compiler moves anything past that. */
#if defined(__x86_64__)

#include "poseidon2_avx2.h"

#include <immintrin.h>
#include <string.h>

void poseidon2_avx2_absorb(uint8_t *state, const uint8_t *elements, size_t groups);

#define POSEIDON2_TABLES_VECTOR
#define POSEIDON2_TABLES_DOUBLE
#include "poseidon2_tables.h"

#define VECTORS 1
#define HASH_LANES poseidon2_avx2_hash_4
#define ABSORB_LANES poseidon2_avx2_absorb_4
#define ABSORB_ONE poseidon2_avx2_absorb

#define CODE __attribute__((target("avx2,fma")))

typedef __m256i lanes;
typedef __m256d doubles;

/* ---- one number in each lane ----------------------------------------------------------------- */

INLINE lanes everywhere(uint64_t value)
{
    return _mm256_set1_epi64x((long long)value);
}

INLINE lanes load_lanes(const uint64_t *numbers)
{
    return _mm256_loadu_si256((const __m256i *)numbers);
}

INLINE void store_lanes(uint64_t *numbers, lanes a)
{
    _mm256_storeu_si256((__m256i *)numbers, a);
}

INLINE lanes plus(lanes a, lanes b)
{
    return _mm256_add_epi64(a, b);
}

INLINE lanes minus(lanes a, lanes b)
{
    return _mm256_sub_epi64(a, b);
}

INLINE lanes both(lanes a, lanes b)
{
    return _mm256_and_si256(a, b);
}

INLINE lanes either(lanes a, lanes b)
{
    return _mm256_or_si256(a, b);
}

INLINE lanes shift_left(lanes a, unsigned bits)
{
    return _mm256_slli_epi64(a, (int)bits);
}

INLINE lanes shift_right(lanes a, unsigned bits)
{
    return _mm256_srli_epi64(a, (int)bits);
}

/* Signed numbers are shifted 2^63 higher, where none is negative. */
INLINE lanes above_limb(lanes a)
{
    lanes shifted = shift_right(plus(a, load_lanes(AVX2_NUMBERS.sign)), LIMB_BITS);
    return minus(shifted, load_lanes(AVX2_NUMBERS.sign_of_carry));
}

/* The entries of a table of eight that the lowest three bits name. */
INLINE lanes look_up(lanes index, const uint64_t table[8])
{
    __m256 first = _mm256_castsi256_ps(load_lanes(table));
    __m256 second = _mm256_castsi256_ps(load_lanes(table + VECTOR_LANES));
    __m256i lower = _mm256_castps_si256(_mm256_shuffle_ps(first, second, 0x88));
    __m256i upper = _mm256_castps_si256(_mm256_shuffle_ps(first, second, 0xDD));
    index = _mm256_shuffle_epi32(index, 0xA0);
    lower = _mm256_permutevar8x32_epi32(_mm256_permute4x64_epi64(lower, 0xD8), index);
    upper = _mm256_permutevar8x32_epi32(_mm256_permute4x64_epi64(upper, 0xD8), index);
    return _mm256_blend_epi32(lower, upper, 0xAA);
}

/* b where the sign of a is negative, else c. */
INLINE lanes by_sign(lanes a, lanes b, lanes c)
{
    return _mm256_castpd_si256(
        _mm256_blendv_pd(_mm256_castsi256_pd(c), _mm256_castsi256_pd(b), _mm256_castsi256_pd(a)));
}

#include "poseidon2_lanes_sums.h"

/* ---- products -------------------------------------------------------------------------------- */

/* A factor is of doubles, integers from 0 to below 2^52. */
typedef struct {
    doubles limb[LIMBS];
} factor;

/* The lowest 52 bits. */
INLINE doubles as_double(lanes a)
{
    lanes bits = either(both(a, load_lanes(AVX2_NUMBERS.limb_mask)), load_lanes(AVX2_NUMBERS.exponent_low));
    return _mm256_sub_pd(_mm256_castsi256_pd(bits), _mm256_castsi256_pd(load_lanes(AVX2_NUMBERS.exponent_low)));
}

/* The lowest 52 bits of each limb, whatever is above them. */
INLINE factor low_limbs(element a)
{
    factor f;
    UNROLL for (int i = 0; i < LIMBS; i++)
        f.limb[i] = as_double(a.limb[i]);
    return f;
}

INLINE factor constant_factor(const uint64_t limbs[LIMBS])
{
    return low_limbs(constant(limbs));
}

/* Loose to carried. */
INLINE factor carried(element a)
{
    return low_limbs(carry(a));
}

/* The same for limbs none of which is negative. */
INLINE factor carried_sum(element a)
{
    UNROLL for (int i = 0; i < LIMBS - 1; i++)
        a.limb[i + 1] = plus(a.limb[i + 1], shift_right(a.limb[i], LIMB_BITS));
    return low_limbs(a);
}

/* Vector by vector: compilers copy structs by half vectors, and wait for both when they read a whole one. */
INLINE void keep(factor *to, const factor *from)
{
    UNROLL for (int i = 0; i < LIMBS; i++)
        to->limb[i] = from->limb[i];
}

/* Both halves of the product of the register a and of b, with their exponents, to the columns low and high.  In machine
 * language: compilers that choose the order themselves keep more numbers at a time than there are registers. */
#define ADD_HALVES(b, low, high)                \
    "vmovapd %[top], %[h]\n\t"                  \
    "vfmadd231pd %[" b "], %[a], %[h]\n\t"      \
    "vsubpd %[h], %[both], %[l]\n\t"            \
    "vpaddq %[h], %[" high "], %[" high "]\n\t" \
    "vfmadd231pd %[" b "], %[a], %[l]\n\t"      \
    "vpaddq %[l], %[" low "], %[" low "]\n\t"

/* 2^104, and the sum that the lower half is left of. */
#define TOP [top] "x"(_mm256_set1_pd(0x1p104)), [both] "x"(_mm256_set1_pd(0x1p104 + 0x1p52))

INLINE void add_halves(lanes *low, lanes *high, doubles a, const doubles *b)
{
    doubles h, l;
    __asm__ volatile(
        ADD_HALVES("b", "low", "high")
        : [low] "+x"(*low), [high] "+x"(*high), [h] "=&x"(h), [l] "=&x"(l)
        : [a] "x"(a), [b] "m"(*b), TOP);
}

/* Add a limb times an element to six columns. */
INLINE void add_row(lanes columns[LIMBS + 1], doubles a, const doubles b[LIMBS])
{
    doubles h, l;
    __asm__ volatile(
        ADD_HALVES("b0", "c0", "c1")
        ADD_HALVES("b1", "c1", "c2")
        ADD_HALVES("b2", "c2", "c3")
        ADD_HALVES("b3", "c3", "c4")
        ADD_HALVES("b4", "c4", "c5")
        : [c0] "+x"(columns[0]), [c1] "+x"(columns[1]), [c2] "+x"(columns[2]), [c3] "+x"(columns[3]),
          [c4] "+x"(columns[4]), [c5] "+x"(columns[5]), [h] "=&x"(h), [l] "=&x"(l)
        : [a] "x"(a), [b0] "m"(b[0]), [b1] "m"(b[1]), [b2] "m"(b[2]), [b3] "m"(b[3]), [b4] "m"(b[4]), TOP);
}

/* An element of the tables. */
INLINE const doubles *of_table(const double limbs[LIMBS][VECTOR_LANES])
{
    return (const doubles *)limbs;
}

/* Without the exponents that so many products have left. */
INLINE product less_exponents(product t, const same_number exponents[2 * LIMBS])
{
    UNROLL for (int i = 0; i < 2 * LIMBS; i++)
        t.column[i] = minus(t.column[i], load_lanes(exponents[i]));
    return t;
}

/* t + a * b. */
INLINE product add_product(product t, factor a, factor b)
{
    UNROLL for (int i = 0; i < LIMBS; i++)
        add_row(t.column + i, a.limb[i], b.limb);
    return less_exponents(t, AVX2_NUMBERS.product);
}

/* a * a. */
INLINE product square(factor a)
{
    product t = no_product();
    UNROLL for (int i = 0; i < LIMBS; i++)
        UNROLL for (int j = i + 1; j < LIMBS; j++)
            add_halves(&t.column[i + j], &t.column[i + j + 1], a.limb[i], &a.limb[j]);
    UNROLL for (int i = 1; i < 2 * LIMBS - 1; i++)
        t.column[i] = plus(t.column[i], t.column[i]);
    UNROLL for (int i = 0; i < LIMBS; i++)
        add_halves(&t.column[2 * i], &t.column[2 * i + 1], a.limb[i], &a.limb[i]);
    return less_exponents(t, AVX2_NUMBERS.product);
}

/* t / R, loose, below t / R + 2.24, for columns that are not negative.  For n products a limb is a sum of at most
 * 9 n + 10 numbers of 52 bits.
 *
 * Limbs 0 to 3 are replaced by what they count after division by 2^208, side by side; the
 * last division by 2^52 is Montgomery's.  The table's values and the modulus add up to 2.24. */
INLINE element reduce(const vector_tables *k, product t)
{
    lanes *upper = t.column + LIMBS - 1;
    UNROLL for (int i = 0; i < LIMBS - 1; i++) {
        add_row(upper, as_double(t.column[i]), of_table(DOUBLE_TABLES.fold[i]));
        t.column[i + 1] = plus(t.column[i + 1], shift_right(t.column[i], LIMB_BITS));
    }
    UNROLL for (int j = 0; j <= LIMBS; j++)
        upper[j] = minus(upper[j], load_lanes(AVX2_NUMBERS.four_rows[j]));

    lanes m = everywhere(0), unused = m;
    add_halves(&m, &unused, as_double(upper[0]), (const doubles *)DOUBLE_TABLES.negative_inverse);
    /* Column 0 becomes a multiple of 2^52 by the low half of m p, which is below 2^52: round up. */
    lanes rounded = plus(upper[0], load_lanes(AVX2_NUMBERS.limb_mask));
    upper[1] = plus(upper[1], shift_right(rounded, LIMB_BITS));
    add_row(upper, as_double(m), of_table(DOUBLE_TABLES.modulus));

    element e;
    UNROLL for (int i = 0; i < LIMBS; i++)
        e.limb[i] = minus(upper[i + 1], load_lanes(AVX2_NUMBERS.row[i + 1]));
    (void)k;
    return e;
}

/* a * b / R, loose. */
INLINE element multiply(const vector_tables *k, factor a, factor b)
{
    return reduce(k, add_product(no_product(), a, b));
}

/* t + the six products of a partial round.  Limb by limb: the six columns that are added to stay in registers. */
INLINE product add_round_products(product t, const factor y[3], const factor x[3])
{
    UNROLL for (int limb = 0; limb < LIMBS; limb++) {
        UNROLL for (int i = 0; i < 3; i++)
            add_row(t.column + limb, y[i].limb[limb], of_table(DOUBLE_TABLES.round[i]));
        UNROLL for (int i = 0; i < 3; i++)
            add_row(t.column + limb, x[i].limb[limb], of_table(DOUBLE_TABLES.round[3 + i]));
    }
    return less_exponents(t, AVX2_NUMBERS.six_products);
}

/* From y and x of the last three rounds, newest first, to those of this one; y below 3.6, x below 6.2. */
INLINE void partial_round(const vector_tables *k, const uint64_t constants[LIMBS], factor y[3], factor x[3])
{
    factor x2 = carried_sum(reduce(k, square(x[0])));
    /* y does not wait for the S-box: between its steps it fills their latencies. */
    element new_y = reduce(k, add_round_products(times_r(constant(constants)), y, x));
    element x4 = reduce(k, square(x2));
    element new_x = reduce(k, add_product(times_r(new_y), x[0], carried_sum(add(x4, x4))));

    keep(&x[2], &x[1]);
    keep(&x[1], &x[0]);
    x[0] = carried_sum(new_x);
    keep(&y[2], &y[1]);
    keep(&y[1], &y[0]);
    y[0] = carried_sum(new_y);
}

#include "poseidon2_lanes_sponge.h"

#endif
