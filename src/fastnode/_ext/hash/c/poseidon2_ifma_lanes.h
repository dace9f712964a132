/* Poseidon2 with AVX-512 IFMA: LANES states side by side, VECTORS vectors of eight lanes each.
 *
 * The including file defines VECTORS, HASH_LANES as the name of the function that comes out of it, and ABSORB_LANES, if
 * it wants to, as the name of another one.
 * A permutation is a chain of dependent products.  With two vectors there are two chains to
 * choose from, which keeps the multipliers busy; with one, a batch is done sooner.
 *
 * An element is five limbs of 52 bits, least significant first, in Montgomery form, R = 2^260.
 * 2^260 is 84.6 p, so that values are rarely reduced; bounds are given in multiples of p.  Limbs are
 *
 *   loose      any signed 64-bit numbers; the value is the sum of limb[i] * 2^(52 i)
 *   carried    for the factors of a product: what is above bit 52 was added to the next limb, but is
 *              still there; the multiply instructions do not look at it
 *   exact      what is above bit 52 was added to the next limb and taken away
 *
 * scripts/make-poseidon2-tables explains how a partial round comes down to the S-box and six products
 * with one reduction. */
#include "poseidon2.h"

#include <immintrin.h>
#include <string.h>

#define POSEIDON2_TABLES_VECTOR
#include "poseidon2_tables.h"

#define LIMBS 5
#define LIMB_BITS 52
#define VECTOR_LANES 8
#define LANES (VECTORS * VECTOR_LANES)
#define WORDS (POSEIDON2_FIELD_BYTES / 8)

#define CODE __attribute__((target("avx512f,avx512dq,avx512ifma")))
#define INLINE CODE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 10")
#endif
#define EACH_VECTOR UNROLL for (int v = 0; v < VECTORS; v++)

typedef struct {
    __m512i of[VECTORS];
} lanes;

typedef struct {
    lanes limb[LIMBS];
} element;

/* Columns of a sum of products, loose. */
typedef struct {
    lanes column[2 * LIMBS];
} product;

typedef struct {
    element lane[POSEIDON2_WIDTH];
} state;

/* The tables, through a pointer of which the compiler does not know where it points.  Otherwise it makes
 * the numbers in the code, on the ports that also multiply; from memory they are free. */
static inline const vector_tables *tables(void)
{
    const vector_tables *k = &VECTOR_TABLES;
    __asm__("" : "+r"(k));
    return k;
}

/* ---- one number in each lane ----------------------------------------------------------------- */

INLINE lanes everywhere(uint64_t value)
{
    lanes r;
    EACH_VECTOR r.of[v] = _mm512_set1_epi64((long long)value);
    return r;
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

/* ---- sums ------------------------------------------------------------------------------------ */

INLINE element constant(const uint64_t limbs[LIMBS])
{
    element e;
    UNROLL for (int i = 0; i < LIMBS; i++)
        e.limb[i] = everywhere(limbs[i]);
    return e;
}

INLINE element add(element a, element b)
{
    UNROLL for (int i = 0; i < LIMBS; i++)
        a.limb[i] = plus(a.limb[i], b.limb[i]);
    return a;
}

/* Loose to carried, for a value below 84.6. */
INLINE element carried(element a)
{
    UNROLL for (int i = 0; i < LIMBS - 1; i++)
        a.limb[i + 1] = plus(a.limb[i + 1], above_limb(a.limb[i]));
    return a;
}

/* Loose to exact; the last limb keeps the sign of the value. */
INLINE element exact(const vector_tables *k, element a)
{
    a = carried(a);
    UNROLL for (int i = 0; i < LIMBS - 1; i++)
        a.limb[i] = both(a.limb[i], everywhere(k->limb_mask));
    return a;
}

/* Take away the multiple of p that the table has for the three bits from `bits` on.  Loose, below 2^bits + p. */
INLINE element less_multiple(element a, const uint64_t multiples[LIMBS][8], int bits)
{
    lanes top = plus(a.limb[LIMBS - 1], above_limb(a.limb[LIMBS - 2]));
    lanes index = shift_right(top, (unsigned)(bits - LIMB_BITS * (LIMBS - 1)));
    UNROLL for (int i = 0; i < LIMBS; i++)
        a.limb[i] = minus(a.limb[i], look_up(index, multiples[i]));
    return a;
}

/* From 10.5 to 2.4. */
INLINE element below_3(const vector_tables *k, element a)
{
    return less_multiple(a, k->multiples_254, 254);
}

/* From 42 to 6.3. */
INLINE element below_7(const vector_tables *k, element a)
{
    return less_multiple(a, k->multiples_256, 256);
}

/* ---- products -------------------------------------------------------------------------------- */

/* R times a loose element, to add products to: so the sum costs nothing. */
INLINE product times_r(element e)
{
    product t;
    UNROLL for (int i = 0; i < LIMBS; i++) {
        EACH_VECTOR t.column[i].of[v] = _mm512_setzero_si512();
        t.column[LIMBS + i] = e.limb[i];
    }
    return t;
}

INLINE product no_product(void)
{
    element zero;
    UNROLL for (int i = 0; i < LIMBS; i++)
        EACH_VECTOR zero.limb[i].of[v] = _mm512_setzero_si512();
    return times_r(zero);
}

/* t + a * b for carried a and b. */
INLINE product add_product(product t, element a, element b)
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
INLINE product square(element a)
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
INLINE element multiply(const vector_tables *k, element a, element b)
{
    return reduce(k, add_product(no_product(), a, b));
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* x^5 for loose x up to 39; the result is below 5.6, loose. */
INLINE element power5(const vector_tables *k, element x)
{
    x = carried(x);
    element x2 = carried(reduce(k, square(x)));   /* 20.3 */
    element x4 = carried(reduce(k, square(x2)));  /* 7.2 */
    return multiply(k, x, x4);
}

/* The external matrix: rows 5 7 1 3, 4 6 1 1, 1 3 5 7, 1 1 4 6.  Bounds grow 16 times. */
INLINE void external_layer(state *s)
{
    element t0 = add(s->lane[0], s->lane[1]);
    element t1 = add(s->lane[2], s->lane[3]);
    element t2 = add(add(s->lane[1], s->lane[1]), t1);
    element t3 = add(add(s->lane[3], s->lane[3]), t0);
    element t1_twice = add(t1, t1);
    element t0_twice = add(t0, t0);
    element t4 = add(add(t1_twice, t1_twice), t3);
    element t5 = add(add(t0_twice, t0_twice), t2);
    s->lane[0] = add(t3, t5);
    s->lane[1] = t5;
    s->lane[2] = add(t2, t4);
    s->lane[3] = t4;
}

/* Lanes below 38 before and after: 16 * 2.33.  Limbs below 2^61 after: 16 * 19 * 2^52, see reduce. */
CODE static void full_rounds(
    const vector_tables *k, state *s, const uint64_t constants[][POSEIDON2_WIDTH][LIMBS], int rounds)
{
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < POSEIDON2_WIDTH; i++)
            s->lane[i] = below_3(k, power5(k, add(s->lane[i], constant(constants[round][i]))));
        external_layer(s);
    }
}

/* What of a state is needed between partial rounds, newest first; carried. */
typedef struct {
    element x[3], y[3];
} history;

/* Lanes below 38; history below 4. */
INLINE history enter_partial_rounds(const vector_tables *k, const state *s)
{
    history h;
    element lane[POSEIDON2_WIDTH];
    for (int i = 0; i < POSEIDON2_WIDTH; i++)
        lane[i] = carried(s->lane[i]);
    product x = add_product(times_r(constant(k->enter_constant)), lane[0], constant(k->enter_x));
    h.x[0] = carried(reduce(k, x));
    h.x[1] = h.x[2] = constant(k->zero);
    for (int j = 0; j < 3; j++) {
        product t = no_product();
        for (int i = 0; i < POSEIDON2_WIDTH; i++)
            t = add_product(t, lane[i], constant(k->enter_y[j][i]));
        h.y[j] = carried(reduce(k, t));
    }
    return h;
}

/* Lanes below 4. */
INLINE void leave_partial_rounds(const vector_tables *k, state *s, const history *h)
{
    s->lane[0] = multiply(k, h->x[0], constant(k->leave_x));
    for (int i = 0; i < POSEIDON2_WIDTH - 1; i++) {
        product t = times_r(constant(k->leave_constant[i]));
        for (int j = 0; j < 3; j++) {
            t = add_product(t, h->y[j], constant(k->leave_v[i][j]));
            t = add_product(t, h->x[j], constant(k->leave_v[i][3 + j]));
        }
        s->lane[1 + i] = reduce(k, t);
    }
}

CODE static void partial_rounds(const vector_tables *k, state *s)
{
    history h = enter_partial_rounds(k, s);
    for (int round = 0; round < ROUNDS_PARTIAL; round++) {
        element x2 = carried(reduce(k, square(h.x[0])));
        /* y does not wait for the S-box: between its steps it fills their latencies. */
        product t = times_r(constant(k->round_constants[round]));
        t = add_product(t, h.y[2], constant(k->round[2]));
        t = add_product(t, h.x[2], constant(k->round[5]));
        t = add_product(t, h.y[1], constant(k->round[1]));
        t = add_product(t, h.x[1], constant(k->round[4]));
        t = add_product(t, h.x[0], constant(k->round[3]));
        t = add_product(t, h.y[0], constant(k->round[0]));
        element y = reduce(k, t); /* 3.6 */
        element x4 = reduce(k, square(x2));
        element x = reduce(k, add_product(times_r(y), h.x[0], carried(add(x4, x4)))); /* 6.2 */

        h.x[2] = h.x[1];
        h.x[1] = h.x[0];
        h.x[0] = carried(x);
        h.y[2] = h.y[1];
        h.y[1] = h.y[0];
        h.y[0] = carried(y);
    }
    leave_partial_rounds(k, s, &h);
}

/* Lanes below 2.33 with limbs below 2^57 before; 38 and 2^61 after. */
CODE static void permute(const vector_tables *k, state *s)
{
    external_layer(s);
    full_rounds(k, s, k->full_first, ROUNDS_FULL_FIRST);
    partial_rounds(k, s);
    full_rounds(k, s, k->full_last, ROUNDS_FULL_LAST);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* An element of each lane in 64-bit words, least significant first. */
typedef uint64_t words[WORDS][LANES];

/* Words of an element that is at `bytes`. */
static inline void load_words(words loaded, size_t lane, const uint8_t *bytes)
{
    for (int i = 0; i < WORDS; i++) {
        uint64_t word;
        memcpy(&word, bytes + 8 * (WORDS - 1 - i), sizeof word);
        loaded[i][lane] = __builtin_bswap64(word);
    }
}

/* Loose, below 2.3. */
INLINE element from_words(const vector_tables *k, words loaded)
{
    lanes word[WORDS];
    for (int i = 0; i < WORDS; i++)
        EACH_VECTOR word[i].of[v] = _mm512_loadu_si512(loaded[i] + VECTOR_LANES * v);
    element e = {{
        word[0],
        either(shift_right(word[0], 52), shift_left(word[1], 12)),
        either(shift_right(word[1], 40), shift_left(word[2], 24)),
        either(shift_right(word[2], 28), shift_left(word[3], 36)),
        shift_right(word[3], 16),
    }};
    /* The multiply instructions do not look at what is above bit 52 of a limb: no need to take it away. */
    return multiply(k, e, constant(k->r_squared));
}

/* The elements at bytes, bytes + stride, ... for `count` lanes, zero for the others; loose, below 2.3. */
CODE static element load_elements(const vector_tables *k, const uint8_t *bytes, size_t stride, size_t count)
{
    words loaded = {{0}};
    for (size_t lane = 0; lane < count; lane++)
        load_words(loaded, lane, bytes + lane * stride);
    return from_words(k, loaded);
}

/* a - p unless that is negative, for exact a; exact. */
INLINE element less_modulus(const vector_tables *k, element a)
{
    element difference;
    UNROLL for (int i = 0; i < LIMBS; i++)
        difference.limb[i] = minus(a.limb[i], everywhere(k->modulus[i]));
    difference = exact(k, difference);
    UNROLL for (int i = 0; i < LIMBS; i++)
        a.limb[i] = by_sign(difference.limb[LIMBS - 1], a.limb[i], difference.limb[i]);
    return a;
}

/* Loose, below 84 in Montgomery form, to 32 bytes for each of `count` lanes. */
CODE static void store_elements(const vector_tables *k, element e, uint8_t *bytes, size_t count)
{
    e = exact(k, multiply(k, carried(e), constant(k->one))); /* below 2.3 */
    e = less_modulus(k, less_modulus(k, e));
    lanes word[WORDS] = {
        either(e.limb[0], shift_left(e.limb[1], 52)),
        either(shift_right(e.limb[1], 12), shift_left(e.limb[2], 40)),
        either(shift_right(e.limb[2], 24), shift_left(e.limb[3], 28)),
        either(shift_right(e.limb[3], 36), shift_left(e.limb[4], 16)),
    };
    words stored;
    for (int i = 0; i < WORDS; i++)
        EACH_VECTOR _mm512_storeu_si512(stored[i] + VECTOR_LANES * v, word[i].of[v]);
    for (size_t lane = 0; lane < count; lane++)
        for (int i = 0; i < WORDS; i++) {
            uint64_t reversed = __builtin_bswap64(stored[WORDS - 1 - i][lane]);
            memcpy(bytes + lane * POSEIDON2_FIELD_BYTES + 8 * i, &reversed, sizeof reversed);
        }
}

/* ---- sponge ---------------------------------------------------------------------------------- */

/* Hash `count` <= LANES inputs of `arity` elements each. */
CODE void HASH_LANES(const uint8_t *inputs, size_t arity, size_t count, uint8_t *out)
{
    const vector_tables *k = tables();
    const element zero = constant(k->zero);
    /* The capacity starts as arity * 2^64. */
    element capacity = zero;
    capacity.limb[1] = everywhere((uint64_t)arity << (64 - LIMB_BITS));
    state s = {{zero, zero, zero, multiply(k, capacity, constant(k->r_squared))}};

    for (size_t done = 0; done < arity; done += POSEIDON2_RATE) {
        for (size_t i = 0; i < POSEIDON2_RATE && done + i < arity; i++) {
            const uint8_t *elements = inputs + (done + i) * POSEIDON2_FIELD_BYTES;
            element loaded = load_elements(k, elements, arity * POSEIDON2_FIELD_BYTES, count);
            s.lane[i] = add(s.lane[i], loaded);
        }
        /* After a permutation, and with 2.3 added, both the values and their limbs are too large for another one. */
        if (done > 0)
            for (int i = 0; i < POSEIDON2_WIDTH; i++)
                s.lane[i] = exact(k, below_3(k, below_7(k, s.lane[i])));
        permute(k, &s);
    }
    store_elements(k, s.lane[0], out, count);
}

#ifdef ABSORB_LANES

/* The states that are in the lanes, and what each of them has still to absorb. */
typedef struct {
    state sponge;
    uint8_t *bytes[LANES];
    const uint8_t *elements[LANES];
    size_t groups[LANES];
    size_t used;
} sponges;

/* States that wait for a lane. */
typedef struct {
    uint8_t *states;
    const uint8_t *elements;
    const size_t *groups;
    size_t count;
} queue;

/* Element i of what each lane points to; loose, below 2.3. */
CODE static element load_each(const vector_tables *k, const uint8_t *const bytes[LANES], size_t used, size_t i)
{
    words loaded = {{0}};
    for (size_t lane = 0; lane < used; lane++)
        load_words(loaded, lane, bytes[lane] + i * POSEIDON2_FIELD_BYTES);
    return from_words(k, loaded);
}

/* All lanes to the bytes that they came from. */
CODE static void store_states(const vector_tables *k, const sponges *s)
{
    uint8_t stored[LANES * POSEIDON2_FIELD_BYTES];
    for (size_t i = 0; i < POSEIDON2_WIDTH; i++) {
        store_elements(k, s->sponge.lane[i], stored, s->used);
        for (size_t lane = 0; lane < s->used; lane++)
            memcpy(s->bytes[lane] + i * POSEIDON2_FIELD_BYTES, stored + lane * POSEIDON2_FIELD_BYTES,
                   POSEIDON2_FIELD_BYTES);
    }
}

/* Give the lanes that are done to states that wait, and close up; zero lanes when nobody is left. */
CODE static void fill_lanes(const vector_tables *k, sponges *s, queue *waiting)
{
    store_states(k, s);
    size_t used = 0;
    for (size_t lane = 0; lane < LANES; lane++) {
        if (lane < s->used && s->groups[lane] > 0) {
            s->bytes[used] = s->bytes[lane];
            s->elements[used] = s->elements[lane];
            s->groups[used++] = s->groups[lane];
        }
    }
    for (; used < LANES && waiting->count > 0; waiting->count--) {
        s->bytes[used] = waiting->states;
        s->elements[used] = waiting->elements;
        s->groups[used] = *waiting->groups++;
        waiting->states += POSEIDON2_STATE_BYTES;
        waiting->elements += s->groups[used] * POSEIDON2_RATE * POSEIDON2_FIELD_BYTES;
        used += s->groups[used] > 0;
    }
    s->used = used;
    for (size_t i = 0; i < POSEIDON2_WIDTH; i++)
        s->sponge.lane[i] = load_each(k, (const uint8_t *const *)s->bytes, used, i);
}

/* One group in each lane. */
CODE static void absorb_group(const vector_tables *k, sponges *s)
{
    for (size_t i = 0; i < POSEIDON2_RATE; i++)
        s->sponge.lane[i] = add(s->sponge.lane[i], load_each(k, s->elements, s->used, i));
    /* See HASH_LANES; what was loaded as a state is below 4.6 here. */
    for (int i = 0; i < POSEIDON2_WIDTH; i++)
        s->sponge.lane[i] = exact(k, below_3(k, below_7(k, s->sponge.lane[i])));
    permute(k, &s->sponge);
    for (size_t lane = 0; lane < s->used; lane++) {
        s->elements[lane] += POSEIDON2_RATE * POSEIDON2_FIELD_BYTES;
        s->groups[lane]--;
    }
}

/* Absorb into `count` states, LANES of them at a time; a state that is done leaves its lane to the next one. */
CODE void ABSORB_LANES(uint8_t *states, const uint8_t *elements, const size_t *groups, size_t count)
{
    const vector_tables *k = tables();
    queue waiting = {states, elements, groups, count};
    sponges s = {.used = 0};
    for (;;) {
        fill_lanes(k, &s, &waiting);
        if (s.used < LANES_WORTH_IT)
            break;
        size_t shortest = s.groups[0];
        for (size_t lane = 1; lane < s.used; lane++)
            shortest = s.groups[lane] < shortest ? s.groups[lane] : shortest;
        for (; shortest > 0; shortest--)
            absorb_group(k, &s);
    }
    for (size_t lane = 0; lane < s.used; lane++)
        poseidon2_ifma_absorb(s.bytes[lane], s.elements[lane], s.groups[lane]);
}

#endif
