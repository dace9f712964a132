/* STATES states at a time on processors with AVX-512 IFMA: one, or two whose partial rounds take turns.  A chain of S-boxes
 * waits most of the time; vectors, and the other chain, work meanwhile.
 *
 * The including file defines STATES, and HASH_FEW as the name of the one function that comes out of it.
 *
 * The scalars have Montgomery form with R = 2^256, and bounds in multiples of p.  scripts/make-poseidon2-tables explains z
 * and its factors. */
#define POSEIDON2_TABLES_SINGLE
#include "bn254_folds_adx.h"
#include "poseidon2.h"
#include "poseidon2_ifma_few_calls.h"

#include <immintrin.h>
#include <string.h>

#define VECTOR_CODE __attribute__((target("avx512f,avx512dq,avx512ifma")))
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

/* Limbs with a few bits too many, shifted to where they are in words of 64 bits: word i has the upper bits of limb i, and
 * the lower ones of limb i + 1. */
typedef struct {
    uint64_t upper[8], lower[8];
} __attribute__((aligned(64))) shifted;

/* From below 31 to below 1.34. */
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

VECTOR_CODE INLINE void add_terms(sums *ahead, const uint64_t factors[SIDE_LIMBS][2][8], element e)
{
    uint64_t limb[SIDE_LIMBS];
    split(e, limb);
    __asm__("" : "+m"(limb)); /* From memory into all lanes is free; from a register it is not. */
    UNROLL for (int i = 0; i < SIDE_LIMBS; i++) {
        __m512i everywhere = _mm512_set1_epi64((long long)limb[i]);
        UNROLL for (int v = 0; v < 2; v++) {
            __m512i factor = _mm512_load_si512(factors[i][v]);
            ahead->low[v] = _mm512_madd52lo_epu64(ahead->low[v], factor, everywhere);
            ahead->high[v] = _mm512_madd52hi_epu64(ahead->high[v], factor, everywhere);
        }
    }
}

/* The round is over: the second sum becomes the first one, the third one the second one. */
VECTOR_CODE INLINE void move_down(sums *ahead)
{
    ahead->low[0] = _mm512_alignr_epi64(ahead->low[1], ahead->low[0], SIDE_LIMBS);
    ahead->low[1] = _mm512_maskz_alignr_epi64(3, ahead->low[1], ahead->low[1], SIDE_LIMBS);
    ahead->high[0] = _mm512_alignr_epi64(ahead->high[1], ahead->high[0], SIDE_LIMBS);
    ahead->high[1] = _mm512_maskz_alignr_epi64(3, ahead->high[1], ahead->high[1], SIDE_LIMBS);
}

/* z of a round, below 26: the first sum divided by 2^52. */
VECTOR_CODE INLINE void divide(const sums *ahead, int round, shifted *s)
{
    const __m512i zero = _mm512_setzero_si512(), modulus = _mm512_load_si512(P1_MODULUS);
    __m512i low = _mm512_add_epi64(ahead->low[0], _mm512_load_si512(P1_CONSTANTS[round]));
    __m512i m = _mm512_madd52lo_epu64(zero, low, _mm512_set1_epi64((long long)P1_NEGATIVE_INVERSE));
    m = _mm512_broadcastq_epi64(_mm512_castsi512_si128(m));
    low = _mm512_madd52lo_epu64(low, m, modulus);
    __m512i high = _mm512_madd52hi_epu64(ahead->high[0], m, modulus);
    /* The lowest column is a multiple of 2^52 now; what is above goes to the next one, and all move down by one. */
    __m512i carry = _mm512_maskz_srli_epi64(1, low, LIMB_BITS);
    high = _mm512_add_epi64(_mm512_add_epi64(high, carry), _mm512_maskz_alignr_epi64(0x0F, zero, low, 1));
    _mm512_store_si512(s->upper, _mm512_srlv_epi64(high, _mm512_load_si512(P1_SHIFTS[0])));
    _mm512_store_si512(s->lower, _mm512_sllv_epi64(high, _mm512_load_si512(P1_SHIFTS[1])));
}

/* (a[0] * b[0] + ... + a[n-1] * b[n-1]) / R, below that + 1. */
INLINE element inner_product(const element *a, const uint64_t b[][LIMBS], int n)
{
    inner_product_state s;
    inner_product_start(&s);
    UNROLL for (int part = 0; part < INNER_PRODUCT_PARTS; part++)
        inner_product_part(&s, part, a, b, n);
    return inner_product_end(&s);
}

/* Lanes below 1. */
VECTOR_CODE INLINE void enter_partial_rounds(history *h, const element lane[POSEIDON2_WIDTH])
{
    const __m512i zero = _mm512_setzero_si512();
    h->ahead = (sums){{zero, zero}, {zero, zero}};
    /* z of the three rounds before the first one; X of them is 0. */
    UNROLL for (int before = TERMS; before > 0; before--) {
        element z = inner_product(lane, P1_ENTER_Y[before - 1], POSEIDON2_WIDTH); /* 1.8 */
        move_down(&h->ahead);
        add_terms(&h->ahead, P1_FACTORS[0], z);
    }
    h->x = less_multiple(add(multiply(lane[0], P1_ENTER_X), constant(P1_ENTER_CONSTANT)));
}

/* Lanes below 1. */
INLINE void leave_partial_rounds(const history *h, element lane[POSEIDON2_WIDTH])
{
    element ends[2 * TERMS]; /* y of the last three rounds, below 1; X of this and of the last two */
    ends[TERMS] = h->x;
    UNROLL for (int j = 0; j < TERMS; j++) {
        int round = (ROUNDS_PARTIAL - 1 - j) % PAST;
        element y = add(multiply(h->past_x[round], P1_B0), h->past_z[round]); /* 2.6 */
        ends[j] = less(less(y, P64_MODULUS_2), P64_MODULUS);
        if (j < TERMS - 1)
            ends[TERMS + 1 + j] = h->past_x[round];
    }
    lane[0] = less(multiply(h->x, P1_LEAVE_X), P64_MODULUS);
    UNROLL for (int i = 0; i < POSEIDON2_WIDTH - 1; i++) {
        element sum = add(inner_product(ends, P1_LEAVE_V[i], 2 * TERMS), constant(P1_LEAVE_CONSTANT[i])); /* 3.8 */
        lane[1 + i] = less(less(sum, P64_MODULUS_2), P64_MODULUS);
    }
}

/* Lanes below 1 before and after. */
VECTOR_CODE static void partial_rounds(element lane[STATES][POSEIDON2_WIDTH])
{
    history h[STATES];
    EACH_STATE enter_partial_rounds(&h[n], lane[n]);
    for (int round = 0; round < ROUNDS_PARTIAL; round++) {
        element power[STATES];
        shifted s[STATES];
        EACH_STATE {
            divide(&h[n].ahead, round, &s[n]);
            power[n] = fold_square(h[n].x); /* 2.2 */
        }
        EACH_STATE {
            move_down(&h[n].ahead);
            add_terms(&h[n].ahead, P1_FACTORS[1], h[n].x);
            power[n] = fold_square(power[n]); /* 2.6 */
        }
        EACH_STATE {
            element z = join(&s[n]);
            add_terms(&h[n].ahead, P1_FACTORS[0], z);
            h[n].past_x[round % PAST] = h[n].x;
            h[n].past_z[round % PAST] = z;
            element x_twice = add(h[n].x, h[n].x); /* 2.7 */
            element product = fold_multiply(add(power[n], constant(P1_B0_HALF)), x_twice); /* 3.5 */
            h[n].x = less_multiple(add(product, z)); /* from 4.9 */
        }
    }
    EACH_STATE leave_partial_rounds(&h[n], lane[n]);
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
    element lane[STATES][POSEIDON2_WIDTH];
    EACH_STATE for (int i = 0; i < POSEIDON2_WIDTH; i++)
        lane[n][i] = get_lane(s, POSEIDON2_WIDTH * n + i);
    partial_rounds(lane);
    EACH_STATE for (int i = 0; i < POSEIDON2_WIDTH; i++)
        set_lane(s, POSEIDON2_WIDTH * n + i, lane[n][i]);
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
    EACH_STATE set_lane(&capacity, POSEIDON2_WIDTH * n + POSEIDON2_RATE, (element){{0, arity, 0, 0}}); /* arity * 2^64 */
    poseidon2_ifma_few_add(&s, &capacity);
    size_t done = 0;
    do {
        size_t group = arity - done < POSEIDON2_RATE ? arity - done : POSEIDON2_RATE;
        absorb(&s, inputs + done * FIELD_BYTES, arity * FIELD_BYTES, group);
        done += group;
    } while (done < arity);
    store_elements(&s, out, 1);
}
