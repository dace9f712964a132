/* One state on processors with AVX-512 IFMA: as long as it waits for its S-boxes, vectors do what does not depend on them.
 *
 * The scalars have Montgomery form with R = 2^256.  scripts/make-poseidon2-tables explains z and its factors. */
#if defined(__x86_64__)

#define POSEIDON2_TABLES_SINGLE
#include "bn254_rows_adx.h"
#include "poseidon2.h"
#include "poseidon2_ifma_single.h"

#include <immintrin.h>
#include <string.h>

#define VECTOR_CODE __attribute__((target("avx512f,avx512dq,avx512ifma")))
#define LIMB_BITS 52
#define LIMB_MASK ((UINT64_C(1) << LIMB_BITS) - 1)
/* z of the last three rounds, and X of the three before this one. */
#define TERMS 3

/* ---- forms ----------------------------------------------------------------------------------- */

static element constant(const uint64_t limbs[LIMBS])
{
    return (element){{limbs[0], limbs[1], limbs[2], limbs[3]}};
}

INLINE void split(element e, uint64_t limb[SIDE_LIMBS])
{
    const uint64_t *from = e.limb;
    limb[0] = from[0] & LIMB_MASK;
    limb[1] = (from[0] >> 52 | from[1] << 12) & LIMB_MASK;
    limb[2] = (from[1] >> 40 | from[2] << 24) & LIMB_MASK;
    limb[3] = (from[2] >> 28 | from[3] << 36) & LIMB_MASK;
    limb[4] = from[3] >> 16;
}

/* From limbs with a few bits too many, below 31, to an element below 1. */
INLINE element join(const uint64_t limb[SIDE_LIMBS])
{
    element e;
    wide sum = limb[0] + ((wide)limb[1] << 52);
    e.limb[0] = (uint64_t)sum;
    sum = (sum >> 64) + ((wide)limb[2] << 40);
    e.limb[1] = (uint64_t)sum;
    sum = (sum >> 64) + ((wide)limb[3] << 28);
    e.limb[2] = (uint64_t)sum;
    sum = (sum >> 64) + ((wide)limb[4] << 16);
    e.limb[3] = (uint64_t)sum;
    uint64_t multiple = (uint64_t)(sum >> 61); /* of 2^253 */
    return less(subtract(e, constant(P1_MULTIPLES[multiple])), P64_MODULUS); /* from 1.7 */
}

static element get_lane(const side_by_side *s, int lane)
{
    uint64_t limb[SIDE_LIMBS];
    for (int i = 0; i < SIDE_LIMBS; i++)
        limb[i] = s->limb[i][lane];
    return join(limb);
}

static void set_lane(side_by_side *s, int lane, element e)
{
    uint64_t limb[SIDE_LIMBS];
    split(e, limb);
    for (int i = 0; i < SIDE_LIMBS; i++)
        s->limb[i][lane] = limb[i];
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

/* ---- partial rounds -------------------------------------------------------------------------- */

/* Values of the rounds, with those before the first one. */
typedef struct {
    uint64_t x[TERMS + ROUNDS_PARTIAL + 1][8];
    uint64_t z[TERMS + ROUNDS_PARTIAL][8];
} history;

/* (a[0] * b[0] + ... + a[n-1] * b[n-1]) / R, below that + 1. */
INLINE element inner_product(const element *a, const uint64_t b[][LIMBS], int n)
{
    inner_product_state s;
    inner_product_start(&s);
    UNROLL for (int part = 0; part < INNER_PRODUCT_PARTS; part++)
        inner_product_part(&s, part, a, b, n);
    return inner_product_end(&s);
}

/* Columns of the low and of the high halves of products; three of each, because one after the other they would wait. */
typedef struct {
    __m512i low[3], high[3];
} columns;

VECTOR_CODE INLINE void add_term(columns *sum, const uint64_t factors[SIDE_LIMBS][8], const uint64_t limb[8])
{
    UNROLL for (int i = 0; i < SIDE_LIMBS; i++) {
        __m512i factor = _mm512_load_si512(factors[i]);
        __m512i everywhere = _mm512_set1_epi64((long long)limb[i]);
        sum->low[i % 3] = _mm512_madd52lo_epu64(sum->low[i % 3], factor, everywhere);
        sum->high[i % 3] = _mm512_madd52hi_epu64(sum->high[i % 3], factor, everywhere);
    }
}

/* 2^52 times z of a round. */
VECTOR_CODE INLINE columns sum_terms(const history *h, int round)
{
    const __m512i zero = _mm512_setzero_si512();
    columns sum = {{_mm512_load_si512(P1_CONSTANTS[round]), zero, zero}, {zero, zero, zero}};
    /* The oldest first: they are known for long. */
    UNROLL for (int back = TERMS - 1; back >= 0; back--) {
        add_term(&sum, P1_FACTORS[TERMS + back], h->x[round + TERMS - 1 - back]);
        add_term(&sum, P1_FACTORS[back], h->z[round + TERMS - 1 - back]);
    }
    return sum;
}

/* By 2^52: below 26, limbs with a few bits too many. */
VECTOR_CODE INLINE void divide(const columns *sum, uint64_t limb[8])
{
    const __m512i zero = _mm512_setzero_si512(), modulus = _mm512_load_si512(P1_MODULUS);
    __m512i low = _mm512_add_epi64(_mm512_add_epi64(sum->low[0], sum->low[1]), sum->low[2]);
    __m512i high = _mm512_add_epi64(_mm512_add_epi64(sum->high[0], sum->high[1]), sum->high[2]);
    __m512i m = _mm512_madd52lo_epu64(zero, low, _mm512_set1_epi64((long long)P1_NEGATIVE_INVERSE));
    m = _mm512_broadcastq_epi64(_mm512_castsi512_si128(m));
    low = _mm512_madd52lo_epu64(low, m, modulus);
    high = _mm512_madd52hi_epu64(high, m, modulus);
    /* The lowest column is a multiple of 2^52 now; what is above goes to the next one, and all move down by one. */
    __m512i carry = _mm512_maskz_srli_epi64(1, low, LIMB_BITS);
    high = _mm512_add_epi64(_mm512_add_epi64(high, carry), _mm512_alignr_epi64(zero, low, 1));
    _mm512_store_si512(limb, high);
}

/* Lanes below 1 before and after. */
VECTOR_CODE static void partial_rounds(element lane[POSEIDON2_WIDTH])
{
    history h __attribute__((aligned(64)));
    uint64_t limb[8] __attribute__((aligned(64)));
    element x[TERMS + 1] = {{{0}}}, z[TERMS]; /* newest first; x below 2, z below 1 */
    for (int j = 0; j < TERMS; j++) {
        z[j] = less(inner_product(lane, P1_ENTER_Y[j], POSEIDON2_WIDTH), P64_MODULUS); /* from 1.8 */
        split(z[j], h.z[TERMS - 1 - j]);
        split(x[1 + j], h.x[TERMS - 1 - j]);
    }
    x[0] = add(less(multiply(lane[0], P1_ENTER_X), P64_MODULUS), constant(P1_ENTER_CONSTANT));
    split(x[0], h.x[TERMS]);

    for (int round = 0; round < ROUNDS_PARTIAL; round++) {
        columns sum = sum_terms(&h, round);
        element x2 = square(x[0]); /* 1.8 */
        divide(&sum, limb);
        element x4 = square(x2); /* 1.6 */
        element next_z = join(limb);
        split(next_z, h.z[round + TERMS]);
        element power = add(add(x4, x4), constant(P1_B0));                                 /* 4.2 */
        element next_x = less(add(multiply(power, x[0].limb), next_z), P64_MODULUS_2); /* from 3.6 */
        split(next_x, h.x[round + TERMS + 1]);
        x[3] = x[2];
        x[2] = x[1];
        x[1] = x[0];
        x[0] = next_x;
        z[2] = z[1];
        z[1] = z[0];
        z[0] = next_z;
    }

    element ends[2 * TERMS]; /* y of the last three rounds, below 1; x of this and of the last two */
    for (int j = 0; j < TERMS; j++) {
        element y = add(multiply(x[1 + j], P1_B0), z[j]); /* 2.4 */
        ends[j] = less(less(y, P64_MODULUS_2), P64_MODULUS);
        ends[TERMS + j] = x[j];
    }
    lane[0] = less(multiply(x[0], P1_LEAVE_X), P64_MODULUS);
    for (int i = 0; i < POSEIDON2_WIDTH - 1; i++) {
        element sum = add(inner_product(ends, P1_LEAVE_V[i], 2 * TERMS), constant(P1_LEAVE_CONSTANT[i])); /* 3.8 */
        lane[1 + i] = less(less(sum, P64_MODULUS_2), P64_MODULUS);
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

static side_by_side load_elements(const uint8_t *elements, size_t count)
{
    side_by_side loaded = {{{0}}};
    for (size_t i = 0; i < count; i++)
        set_lane(&loaded, (int)i, load_bytes(elements + i * FIELD_BYTES));
    return loaded;
}

static void absorb(side_by_side *s, const uint8_t *elements, size_t count)
{
    side_by_side added = load_elements(elements, count);
    poseidon2_ifma_single_first(s, &added);
    element lane[POSEIDON2_WIDTH];
    for (int i = 0; i < POSEIDON2_WIDTH; i++)
        lane[i] = get_lane(s, i);
    partial_rounds(lane);
    for (int i = 0; i < POSEIDON2_WIDTH; i++)
        set_lane(s, i, lane[i]);
    poseidon2_ifma_single_last(s);
}

static void store_elements(side_by_side *s, uint8_t *out, int count)
{
    poseidon2_ifma_single_leave(s);
    for (int i = 0; i < count; i++)
        store_bytes(less_modulus(get_lane(s, i)), out + i * FIELD_BYTES);
}

void poseidon2_ifma_single_hash(const uint8_t *elements, size_t count, uint8_t *out)
{
    side_by_side s = {{{0}}}, capacity = {{{0}}};
    set_lane(&capacity, POSEIDON2_RATE, (element){{0, count, 0, 0}}); /* count * 2^64 */
    poseidon2_ifma_single_add(&s, &capacity);
    size_t done = 0;
    do {
        size_t group = count - done < POSEIDON2_RATE ? count - done : POSEIDON2_RATE;
        absorb(&s, elements + done * FIELD_BYTES, group);
        done += group;
    } while (done < count);
    store_elements(&s, out, 1);
}

void poseidon2_ifma_single_permute(const uint8_t *in, uint8_t *out)
{
    side_by_side s = {{{0}}};
    absorb(&s, in, POSEIDON2_WIDTH);
    store_elements(&s, out, POSEIDON2_WIDTH);
}

void poseidon2_ifma_single_absorb(uint8_t *state, const uint8_t *elements, size_t groups)
{
    side_by_side s = {{{0}}}, before = load_elements(state, POSEIDON2_WIDTH);
    poseidon2_ifma_single_add(&s, &before);
    for (size_t i = 0; i < groups; i++)
        absorb(&s, elements + i * POSEIDON2_RATE * FIELD_BYTES, POSEIDON2_RATE);
    store_elements(&s, state, POSEIDON2_WIDTH);
}

#endif
