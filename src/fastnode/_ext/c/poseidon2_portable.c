/* Poseidon2 in portable C, one state at a time.
 *
 * scripts/make-poseidon2-tables explains how a partial round comes down to the S-box, one
 * product and one inner product.  Bounds are in multiples of the modulus p; 2^256 is above 5.2 p. */
#include "bn254.h"
#include "poseidon2.h"

#include <string.h>

typedef struct {
    element lane[POSEIDON2_WIDTH];
} state;

static const element ZERO;

/* ---- bytes ---------------------------------------------------------------------------------- */

static element load_bytes(const uint8_t bytes[FIELD_BYTES])
{
    element e;
    for (int i = 0; i < LIMBS; i++) {
        uint64_t limb = 0;
        for (int j = 0; j < 8; j++)
            limb = limb << 8 | bytes[8 * (LIMBS - 1 - i) + j];
        e.limb[i] = limb;
    }
    return e;
}

static void store_bytes(element e, uint8_t bytes[FIELD_BYTES])
{
    for (int i = 0; i < LIMBS; i++)
        for (int j = 0; j < 8; j++)
            bytes[8 * (LIMBS - 1 - i) + j] = (uint8_t)(e.limb[i] >> (56 - 8 * j));
}

/* Below p. */
static element load_element(const uint8_t bytes[FIELD_BYTES])
{
    return reduce_once(multiply(load_bytes(bytes), P64_R_SQUARED), P64_MODULUS);
}

static void store_element(element e, uint8_t bytes[FIELD_BYTES])
{
    static const uint64_t one[LIMBS] = {1, 0, 0, 0};
    store_bytes(reduce_once(multiply(e, one), P64_MODULUS), bytes);
}

/* ---- rounds --------------------------------------------------------------------------------- */

static element constant(const uint64_t limbs[LIMBS])
{
    return (element){{limbs[0], limbs[1], limbs[2], limbs[3]}};
}

/* x^5 for x below 2 p; the result is below p. */
static inline element power5(element x)
{
    element x2 = square(x);
    element x4 = square(x2);
    return reduce_once(multiply(x4, x.limb), P64_MODULUS);
}

/* The external matrix: rows 5 7 1 3, 4 6 1 1, 1 3 5 7, 1 1 4 6.  Lanes below p before and after. */
static void external_layer(state *s)
{
    element t0 = add_mod(s->lane[0], s->lane[1]);
    element t1 = add_mod(s->lane[2], s->lane[3]);
    element t2 = add_mod(add_mod(s->lane[1], s->lane[1]), t1);
    element t3 = add_mod(add_mod(s->lane[3], s->lane[3]), t0);
    element t1_twice = add_mod(t1, t1);
    element t0_twice = add_mod(t0, t0);
    element t4 = add_mod(add_mod(t1_twice, t1_twice), t3);
    element t5 = add_mod(add_mod(t0_twice, t0_twice), t2);
    s->lane[0] = add_mod(t3, t5);
    s->lane[1] = t5;
    s->lane[2] = add_mod(t2, t4);
    s->lane[3] = t4;
}

static void full_round(state *s, const uint64_t constants[POSEIDON2_WIDTH][LIMBS])
{
    for (int i = 0; i < POSEIDON2_WIDTH; i++)
        s->lane[i] = power5(add(s->lane[i], constant(constants[i])));
    external_layer(s);
}

/* All partial rounds.  Lanes below p before and after. */
static void partial_rounds(state *s)
{
    const element v[3] = {s->lane[1], s->lane[2], s->lane[3]};
    element x = reduce_once(multiply(s->lane[0], P64_ENTER_X), P64_MODULUS);
    x = add(x, constant(P64_PARTIAL[0])); /* below 2 p, here and at the end of each round */

    element w[3]; /* w of this round, of the one before, of the one before that; below 2 p */
    for (int j = 0; j < 3; j++)
        w[j] = inner_product_3(v, P64_ENTER_W[j]); /* 1 + 3 * 0.19 */
    element sum_1 = ZERO, sum_2 = ZERO; /* S of one and of two rounds ago; below p */

    for (int round = 0; round < ROUNDS_PARTIAL; round++) {
        /* What does not need this round's S-box. */
        const element terms[3] = {
            subtract(add(w[0], constant(P64_MODULUS_2)), add(sum_1, sum_1)), /* below 4 p */
            subtract(add(sum_2, constant(P64_MODULUS_2)), w[1]),             /* below 3 p */
            w[2],
        };
        element next = inner_product_3(terms, P64_STEP_W); /* 1 + 9 * 0.19 */
        next = reduce_once(reduce_once(next, P64_MODULUS_2), P64_MODULUS);
        element offset = add(multiply(w[0], P64_STEP_X), constant(P64_PARTIAL[round + 1]));
        offset = reduce_once(reduce_once(offset, P64_MODULUS), P64_MODULUS);

        /* z = 2 x^5: below p after the reduction (1 + 2 * 1.6 * 0.19 before). */
        element twice = reduce_once(add(x, x), P64_MODULUS_2);
        element z = reduce_once(multiply(twice, square(square(x)).limb), P64_MODULUS);
        x = add(z, offset);

        element sum = reduce_once(reduce_once(add(z, w[0]), P64_MODULUS_2), P64_MODULUS);
        next = reduce_once(add(next, add(sum, add(sum, sum))), P64_MODULUS_2);
        w[2] = w[1];
        w[1] = w[0];
        w[0] = next;
        sum_2 = sum_1;
        sum_1 = sum;
    }

    s->lane[0] = reduce_once(reduce_once(multiply(x, P64_LEAVE_X), P64_MODULUS), P64_MODULUS);
    const element sums[3] = {sum_1, sum_2, ZERO};
    for (int i = 0; i < 3; i++) {
        element lane = add(inner_product_3(w, P64_LEAVE_V[i]), inner_product_3(sums, P64_LEAVE_V[i] + 3));
        s->lane[1 + i] = reduce_once(reduce_once(lane, P64_MODULUS_2), P64_MODULUS);
    }
}

/* Lanes below p before and after. */
static void permute(state *s)
{
    external_layer(s);
    for (int round = 0; round < ROUNDS_FULL_FIRST; round++)
        full_round(s, P64_FULL_FIRST[round]);
    partial_rounds(s);
    for (int round = 0; round < ROUNDS_FULL_LAST; round++)
        full_round(s, P64_FULL_LAST[round]);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void absorb(state *s, const uint8_t *elements, size_t count)
{
    for (size_t i = 0; i < count; i++)
        s->lane[i] = add_mod(s->lane[i], load_element(elements + i * FIELD_BYTES));
    permute(s);
}

void poseidon2_hash_one(const uint8_t *elements, size_t count, uint8_t *out)
{
    state s = {{ZERO, ZERO, ZERO, ZERO}};
    /* The capacity starts as count * 2^64. */
    const element capacity = {{0, count, 0, 0}};
    s.lane[POSEIDON2_RATE] = reduce_once(multiply(capacity, P64_R_SQUARED), P64_MODULUS);
    size_t done = 0;
    do {
        size_t group = count - done < POSEIDON2_RATE ? count - done : POSEIDON2_RATE;
        absorb(&s, elements + done * FIELD_BYTES, group);
        done += group;
    } while (done < count);
    store_element(s.lane[0], out);
}

static void hash_many(const uint8_t *inputs, size_t arity, size_t count, uint8_t *out)
{
    for (size_t i = 0; i < count; i++)
        poseidon2_hash_one(inputs + i * arity * FIELD_BYTES, arity, out + i * FIELD_BYTES);
}

const poseidon2_kernel poseidon2_portable = {"portable", hash_many};

static state load_state(const uint8_t *bytes)
{
    state s;
    for (int i = 0; i < POSEIDON2_WIDTH; i++)
        s.lane[i] = load_element(bytes + i * FIELD_BYTES);
    return s;
}

static void store_state(const state *s, uint8_t *bytes)
{
    for (int i = 0; i < POSEIDON2_WIDTH; i++)
        store_element(s->lane[i], bytes + i * FIELD_BYTES);
}

void poseidon2_permute(const uint8_t *in, uint8_t *out)
{
    state s = load_state(in);
    permute(&s);
    store_state(&s, out);
}

void poseidon2_absorb(uint8_t *bytes, const uint8_t *elements, size_t groups)
{
    state s = load_state(bytes);
    for (size_t i = 0; i < groups; i++)
        absorb(&s, elements + i * POSEIDON2_RATE * FIELD_BYTES, POSEIDON2_RATE);
    store_state(&s, bytes);
}
