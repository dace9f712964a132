/* STATES states at a time on processors with AVX-512 IFMA: one, or two whose partial rounds take turns.
 *
 * The including file defines STATES, and HASH_FEW as the name of the one function that comes out of it.
 *
 * A chain of S-boxes waits half of the time, so that another one, and the vectors, can work meanwhile.  Vectors of 512
 * bits are not free: each of them takes the ports of one or two scalar products.  Full rounds are in vectors, lanes side
 * by side (poseidon2_ifma_8.c), with R = 2^260; the S-boxes of partial rounds in scalars with R = 2^256; what is linear in
 * between, limbs times vectors.  scripts/make-poseidon2-tables explains z and all factors.
 *
 * Bounds are in multiples of p, and up to 2^-60 larger than they are said to be; 2^256 is 5.29 p. */
#define POSEIDON2_TABLES_SINGLE
#include "bn254_folds_adx.h"
#include "poseidon2.h"
#include "poseidon2_ifma_few_calls.h"

#include <immintrin.h>
#include <string.h>

#if defined(__clang__)
#define VECTOR_CODE __attribute__((target("avx512f,avx512dq,avx512ifma")))
#else
/* Otherwise gcc puts scalars that it has no register for into vector registers, which takes ports that multiply. */
#define VECTOR_CODE __attribute__((target("avx512f,avx512dq,avx512ifma,tune=skylake-avx512")))
#endif
#define LIMB_BITS 52
#define LIMB_MASK ((UINT64_C(1) << LIMB_BITS) - 1)
/* z of the last three rounds, and X of the three before this one. */
#define TERMS 3
#define EACH_STATE UNROLL for (int n = 0; n < STATES; n++)

/* ---- forms ----------------------------------------------------------------------------------- */

INLINE element constant(const uint64_t limbs[LIMBS])
{
    return (element){{limbs[0], limbs[1], limbs[2], limbs[3]}};
}

/* To limbs of 52 bits, with what there is above bit 52 in all but the last. */
INLINE void split(element e, uint64_t limb[SIDE_LIMBS])
{
    const uint64_t *from = e.limb;
    limb[0] = from[0];
    limb[1] = from[0] >> 52 | from[1] << 12;
    limb[2] = from[1] >> 40 | from[2] << 24;
    limb[3] = from[2] >> 28 | from[3] << 36;
    limb[4] = from[3] >> 16;
}

/* Below 1.33 from any element. */
INLINE element less_multiple(element e)
{
    return subtract(e, constant(P1_MULTIPLES[e.limb[LIMBS - 1] >> 60]));
}

/* Limbs with a few bits too many, shifted to where they are in words of 64 bits: word i has the upper bits of limb i,
 * and the lower ones of limb i + 1. */
typedef struct {
    uint64_t upper[8], lower[8];
} __attribute__((aligned(64))) shifted;

/* From below 39 to below 1.34. */
INLINE element join(const shifted *s)
{
    element e = {{s->upper[0], s->upper[1], s->upper[2], s->upper[3]}};
    uint64_t top = s->upper[4];
    __asm__("addq %5, %0\n\tadcq %6, %1\n\tadcq %7, %2\n\tadcq %8, %3\n\tadcq $0, %4"
            : "+&r"(e.limb[0]), "+&r"(e.limb[1]), "+&r"(e.limb[2]), "+&r"(e.limb[3]), "+&r"(top)
            : "m"(s->lower[1]), "m"(s->lower[2]), "m"(s->lower[3]), "m"(s->lower[4])
            : "cc");
    return subtract(e, constant(P1_MULTIPLES[top << 4 | e.limb[LIMBS - 1] >> 60]));
}

/* ---- partial rounds -------------------------------------------------------------------------- */

/* Columns of the low and of the high halves of products that z of the next three rounds needs. */
typedef struct {
    __m512i low[2], high[2];
} sums;

/* Values of the last rounds, at round % PAST. */
#define PAST 4

/* What a state is between partial rounds.  Elements are below 1.34. */
typedef struct {
    element x;
    sums ahead;
    element past_x[PAST], past_z[PAST];
} history;

/* What an element adds, whose limbs are `stride` words apart.  Bits above bit 52 of a limb do not count. */
VECTOR_CODE INLINE void add_limbs(
    sums *ahead, const uint64_t factors[SIDE_LIMBS][2][8], const uint64_t *limb, int stride)
{
    UNROLL for (int i = 0; i < SIDE_LIMBS; i++) {
        __m512i everywhere = _mm512_set1_epi64((long long)limb[i * stride]);
        UNROLL for (int v = 0; v < 2; v++) {
            __m512i factor = _mm512_load_si512(factors[i][v]);
            ahead->low[v] = _mm512_madd52lo_epu64(ahead->low[v], factor, everywhere);
            ahead->high[v] = _mm512_madd52hi_epu64(ahead->high[v], factor, everywhere);
        }
    }
}

VECTOR_CODE INLINE void add_terms(sums *ahead, const uint64_t factors[SIDE_LIMBS][2][8], element e)
{
    uint64_t limb[SIDE_LIMBS];
    split(e, limb);
    __asm__("" : "+m"(limb)); /* From memory into all lanes is free; from a register it is not. */
    add_limbs(ahead, factors, limb, 1);
}

VECTOR_CODE INLINE sums no_sums(void)
{
    const __m512i zero = _mm512_setzero_si512();
    return (sums){{zero, zero}, {zero, zero}};
}

VECTOR_CODE INLINE sums plus(sums a, const sums *b)
{
    UNROLL for (int v = 0; v < 2; v++) {
        a.low[v] = _mm512_add_epi64(a.low[v], b->low[v]);
        a.high[v] = _mm512_add_epi64(a.high[v], b->high[v]);
    }
    return a;
}

/* The round is over: the second sum becomes the first one, the third one the second one. */
VECTOR_CODE INLINE void move_down(sums *ahead)
{
    ahead->low[0] = _mm512_alignr_epi64(ahead->low[1], ahead->low[0], SIDE_LIMBS);
    ahead->low[1] = _mm512_maskz_alignr_epi64(3, ahead->low[1], ahead->low[1], SIDE_LIMBS);
    ahead->high[0] = _mm512_alignr_epi64(ahead->high[1], ahead->high[0], SIDE_LIMBS);
    ahead->high[1] = _mm512_maskz_alignr_epi64(3, ahead->high[1], ahead->high[1], SIDE_LIMBS);
}

/* The number in the first five lanes, divided by 2^52: limbs with a few bits too many. */
VECTOR_CODE INLINE __m512i divide(__m512i low, __m512i high)
{
    const __m512i zero = _mm512_setzero_si512(), modulus = _mm512_load_si512(P1_MODULUS);
    __m512i m = _mm512_madd52lo_epu64(zero, low, _mm512_set1_epi64((long long)P1_NEGATIVE_INVERSE));
    m = _mm512_broadcastq_epi64(_mm512_castsi512_si128(m));
    low = _mm512_madd52lo_epu64(low, m, modulus);
    high = _mm512_madd52hi_epu64(high, m, modulus);
    /* The lowest column is a multiple of 2^52 now; what is above goes to the next one, and all move down by one. */
    __m512i carry = _mm512_maskz_srli_epi64(1, low, LIMB_BITS);
    return _mm512_add_epi64(_mm512_add_epi64(high, carry), _mm512_maskz_alignr_epi64(0x0F, zero, low, 1));
}

VECTOR_CODE INLINE void shift(__m512i limbs, shifted *s)
{
    _mm512_store_si512(s->upper, _mm512_srlv_epi64(limbs, _mm512_load_si512(P1_SHIFTS[0])));
    _mm512_store_si512(s->lower, _mm512_sllv_epi64(limbs, _mm512_load_si512(P1_SHIFTS[1])));
}

/* z of a round, below 39. */
VECTOR_CODE INLINE void next_z(const sums *ahead, int round, shifted *z)
{
    shift(divide(_mm512_add_epi64(ahead->low[0], _mm512_load_si512(P1_CONSTANTS[round])), ahead->high[0]), z);
}

/* (low + limbs times factors) / 2^52, in the first five lanes. */
VECTOR_CODE INLINE __m512i multiply_limbs(
    __m512i low, const uint64_t factors[SIDE_LIMBS][8], const uint64_t *limb, int stride)
{
    __m512i high = _mm512_setzero_si512();
    UNROLL for (int i = 0; i < SIDE_LIMBS; i++) {
        __m512i factor = _mm512_load_si512(factors[i]), everywhere = _mm512_set1_epi64((long long)limb[i * stride]);
        low = _mm512_madd52lo_epu64(low, factor, everywhere);
        high = _mm512_madd52hi_epu64(high, factor, everywhere);
    }
    return divide(low, high);
}

/* Lanes of state n below 38. */
VECTOR_CODE INLINE void enter_partial_rounds(history *h, const side_by_side *s, int n)
{
    const uint64_t *lane = (const uint64_t *)s + POSEIDON2_WIDTH * n;
    shifted x;
    shift(multiply_limbs(_mm512_load_si512(P1_ENTER_CONSTANT), P1_ENTER_X, lane, 8), &x);
    sums more = no_sums();
    h->ahead = no_sums();
    add_limbs(&h->ahead, P1_ENTER[0], lane, 8);
    add_limbs(&more, P1_ENTER[1], lane + 1, 8);
    add_limbs(&h->ahead, P1_ENTER[2], lane + 2, 8);
    add_limbs(&more, P1_ENTER[3], lane + 3, 8);
    h->ahead = plus(h->ahead, &more);
    h->x = join(&x);
}

/* Three numbers one after the other, each divided by 2^52. */
VECTOR_CODE INLINE void divide_3(const sums *sum, __m512i limbs[2])
{
    const __m512i zero = _mm512_setzero_si512(), inverse = _mm512_set1_epi64((long long)P1_NEGATIVE_INVERSE);
    const __m512i of_a = _mm512_setr_epi64(0, 0, 0, 0, 0, 5, 5, 5);
    const __m512i of_b = _mm512_setr_epi64(5, 5, 10, 10, 10, 10, 10, 10);
    __m512i m_a = _mm512_madd52lo_epu64(zero, sum->low[0], inverse);
    __m512i m_b = _mm512_madd52lo_epu64(zero, sum->low[1], inverse);
    m_b = _mm512_permutex2var_epi64(m_a, of_b, m_b);
    m_a = _mm512_permutexvar_epi64(of_a, m_a);
    __m512i low_a = _mm512_madd52lo_epu64(sum->low[0], m_a, _mm512_load_si512(P1_MODULUS_3[0]));
    __m512i low_b = _mm512_madd52lo_epu64(sum->low[1], m_b, _mm512_load_si512(P1_MODULUS_3[1]));
    __m512i high_a = _mm512_madd52hi_epu64(sum->high[0], m_a, _mm512_load_si512(P1_MODULUS_3[0]));
    __m512i high_b = _mm512_madd52hi_epu64(sum->high[1], m_b, _mm512_load_si512(P1_MODULUS_3[1]));
    high_a = _mm512_add_epi64(high_a, _mm512_maskz_srli_epi64(0x21, low_a, LIMB_BITS));
    high_b = _mm512_add_epi64(high_b, _mm512_maskz_srli_epi64(0x04, low_b, LIMB_BITS));
    limbs[0] = _mm512_add_epi64(high_a, _mm512_maskz_alignr_epi64(0xEF, low_b, low_a, 1));
    limbs[1] = _mm512_add_epi64(high_b, _mm512_maskz_alignr_epi64(0x3D, zero, low_b, 1));
}

/* Lanes of state n below 31, limbs with a few bits too many. */
VECTOR_CODE INLINE void leave_partial_rounds(const history *h, side_by_side *s, int n)
{
    const __m512i zero = _mm512_setzero_si512();
    sums sum = {{_mm512_load_si512(P1_LEAVE_CONSTANT[0]), _mm512_load_si512(P1_LEAVE_CONSTANT[1])}, {zero, zero}};
    sums more = no_sums();
    UNROLL for (int back = TERMS; back > 0; back--) {
        add_terms(&sum, P1_LEAVE[back - 1], h->past_z[(ROUNDS_PARTIAL - back) % PAST]);
        add_terms(&more, P1_LEAVE[TERMS + back], h->past_x[(ROUNDS_PARTIAL - back) % PAST]);
    }
    uint64_t x[SIDE_LIMBS];
    split(h->x, x);
    __asm__("" : "+m"(x));
    __m512i first = multiply_limbs(zero, P1_LEAVE_X, x, 1);
    add_limbs(&sum, P1_LEAVE[TERMS], x, 1);
    sum = plus(sum, &more);

    __m512i limbs[2];
    divide_3(&sum, limbs);
    /* Limbs one after the other to lanes side by side. */
    const __m512i place = _mm512_setr_epi64(0, 0, 5, 10, 0, 0, 5, 10);
    const __mmask8 all = (__mmask8)(0x0F << POSEIDON2_WIDTH * n), lane_0 = (__mmask8)(0x01 << POSEIDON2_WIDTH * n);
    UNROLL for (int i = 0; i < SIDE_LIMBS; i++) {
        const __m512i limb = _mm512_set1_epi64(i);
        __m512i side = _mm512_permutex2var_epi64(limbs[0], _mm512_add_epi64(place, limb), limbs[1]);
        side = _mm512_mask_permutexvar_epi64(side, lane_0, limb, first);
        _mm512_store_si512(s->limb[i], n == 0 ? _mm512_maskz_mov_epi64(all, side)
                                              : _mm512_mask_mov_epi64(_mm512_load_si512(s->limb[i]), all, side));
    }
}

/* Lanes below 38 before and after; exact limbs before, limbs with a few bits too many after. */
VECTOR_CODE static void partial_rounds(side_by_side *side)
{
    history h[STATES];
    EACH_STATE enter_partial_rounds(&h[n], side, n);
    for (int round = 0; round < ROUNDS_PARTIAL; round++) {
        element power[STATES], z[STATES];
        shifted sum[STATES];
        /* Between the steps of an S-box what does not wait for it. */
        EACH_STATE {
            next_z(&h[n].ahead, round, &sum[n]);
            power[n] = fold_square(h[n].x); /* 2.2 */
        }
        EACH_STATE {
            move_down(&h[n].ahead);
            add_terms(&h[n].ahead, P1_FACTORS[1], h[n].x);
            z[n] = join(&sum[n]);
            power[n] = fold_square(power[n]); /* 2.6 */
        }
        EACH_STATE {
            add_terms(&h[n].ahead, P1_FACTORS[0], z[n]);
            h[n].past_x[round % PAST] = h[n].x;
            h[n].past_z[round % PAST] = z[n];
            element x_twice = add(h[n].x, h[n].x); /* 2.7 */
            element product = fold_multiply(add(power[n], constant(P1_B0_HALF)), x_twice); /* 3.5 */
            h[n].x = less_multiple(add(product, z[n])); /* from 4.9 */
        }
    }
    EACH_STATE leave_partial_rounds(&h[n], side, n);
}

/* ---- states ---------------------------------------------------------------------------------- */

static element get_lane(const side_by_side *from, int lane)
{
    shifted s;
    for (int i = 0; i < SIDE_LIMBS; i++) {
        uint64_t limb = from->limb[i][lane];
        s.upper[i] = limb >> P1_SHIFTS[0][i];
        s.lower[i] = limb << P1_SHIFTS[1][i];
    }
    return less(join(&s), P64_MODULUS);
}

static void set_lane(side_by_side *s, int lane, element e)
{
    uint64_t limb[SIDE_LIMBS];
    split(e, limb);
    for (int i = 0; i < SIDE_LIMBS; i++)
        s->limb[i][lane] = limb[i] & LIMB_MASK;
}

static element load_bytes(const uint8_t bytes[FIELD_BYTES])
{
    element e;
    for (int i = 0; i < LIMBS; i++) {
        memcpy(&e.limb[i], bytes + 8 * (LIMBS - 1 - i), 8);
        e.limb[i] = __builtin_bswap64(e.limb[i]);
    }
    return e;
}

static void store_bytes(element e, uint8_t bytes[FIELD_BYTES])
{
    for (int i = 0; i < LIMBS; i++) {
        uint64_t limb = __builtin_bswap64(e.limb[i]);
        memcpy(bytes + 8 * (LIMBS - 1 - i), &limb, 8);
    }
}

/* `count` elements of each state, whose elements are `stride` bytes after those of the one before. */
static side_by_side load_elements(const uint8_t *elements, size_t stride, size_t count)
{
    side_by_side loaded = {{{0}}};
    EACH_STATE for (size_t i = 0; i < count; i++)
        set_lane(&loaded, POSEIDON2_WIDTH * n + (int)i, load_bytes(elements + n * stride + i * FIELD_BYTES));
    return loaded;
}

/* Add them, and permute. */
static void absorb(side_by_side *s, const uint8_t *elements, size_t stride, size_t count)
{
    side_by_side added = load_elements(elements, stride, count);
    poseidon2_ifma_few_first(s, &added);
    partial_rounds(s);
    poseidon2_ifma_few_last(s);
}

/* `count` elements of each state, one after the other. */
static void store_elements(side_by_side *s, uint8_t *out, int count)
{
    poseidon2_ifma_few_leave(s);
    EACH_STATE for (int i = 0; i < count; i++)
        store_bytes(less_modulus(get_lane(s, POSEIDON2_WIDTH * n + i)), out + (n * count + i) * FIELD_BYTES);
}

/* Hash STATES inputs of `arity` elements each. */
void HASH_FEW(const uint8_t *inputs, size_t arity, uint8_t *out)
{
    side_by_side s = {{{0}}}, capacity = {{{0}}};
    /* The capacity starts as arity * 2^64. */
    EACH_STATE set_lane(&capacity, POSEIDON2_WIDTH * n + POSEIDON2_RATE, (element){{0, arity, 0, 0}});
    poseidon2_ifma_few_add(&s, &capacity);
    size_t done = 0;
    do {
        size_t group = arity - done < POSEIDON2_RATE ? arity - done : POSEIDON2_RATE;
        absorb(&s, inputs + done * FIELD_BYTES, arity * FIELD_BYTES, group);
        done += group;
    } while (done < arity);
    store_elements(&s, out, 1);
}
