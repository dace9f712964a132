/* Poseidon2, one state at a time.
 *
 * The including file has included the products, and defines KERNEL and KERNEL_NAME for what comes out of it.
 *
 * scripts/make-poseidon2-tables explains how a partial round comes down to the S-box and six products
 * with one reduction.  Bounds are in multiples of the modulus p, and up to 2^-60 larger than
 * they are said to be, because less() compares only upper limbs; 2^256 is 5.29 p. */
#include "bn254.h"
#include "poseidon2.h"

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

/* Below p, or a little above. */
static element load_element(const uint8_t bytes[FIELD_BYTES])
{
    return less(multiply(load_bytes(bytes), P64_R_SQUARED), P64_MODULUS);
}

static void store_element(element e, uint8_t bytes[FIELD_BYTES])
{
    static const uint64_t one[LIMBS] = {1, 0, 0, 0};
    store_bytes(less_modulus(multiply(e, one)), bytes);
}

/* ---- rounds --------------------------------------------------------------------------------- */

static inline element constant(const uint64_t limbs[LIMBS])
{
    return (element){{limbs[0], limbs[1], limbs[2], limbs[3]}};
}

/* For a and b below 1, like the result. */
static inline element add_mod(element a, element b)
{
    return less(add(a, b), P64_MODULUS);
}

/* The external matrix: rows 5 7 1 3, 4 6 1 1, 1 3 5 7, 1 1 4 6.  Lanes below 1 before and after. */
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

static void full_rounds(state *s, const uint64_t constants[][POSEIDON2_WIDTH][LIMBS], int rounds)
{
    for (int round = 0; round < rounds; round++) {
        /* Step by step, not lane by lane: neighbouring products do not wait for each other. */
        element power[POSEIDON2_WIDTH];
        for (int i = 0; i < POSEIDON2_WIDTH; i++)
            s->lane[i] = add(s->lane[i], constant(constants[round][i])); /* 2 */
        for (int i = 0; i < POSEIDON2_WIDTH; i++)
            power[i] = square(s->lane[i]); /* 1.8 */
        for (int i = 0; i < POSEIDON2_WIDTH; i++)
            power[i] = square(power[i]); /* 1.6 */
        for (int i = 0; i < POSEIDON2_WIDTH; i++)
            s->lane[i] = less(multiply(power[i], s->lane[i].limb), P64_MODULUS); /* from 1.6 */
        external_layer(s);
    }
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

static void partial_rounds(state *s)
{
    element h[6]; /* y of the last three rounds, newest first, below 1; x of this and of the last two, below 2 */
    for (int j = 0; j < 3; j++)
        h[j] = less(inner_product(s->lane, P64_ENTER_Y[j], POSEIDON2_WIDTH), P64_MODULUS); /* from 1.8 */
    h[3] = less(multiply(s->lane[0], P64_ENTER_X), P64_MODULUS);
    h[3] = add(h[3], constant(P64_ENTER_CONSTANT));
    h[4] = h[5] = ZERO;

    for (int round = 0; round < ROUNDS_PARTIAL; round++) {
        /* y does not wait for the S-box: between its steps it fills their latencies. */
        inner_product_state sum;
        inner_product_start(&sum);
        inner_product_part(&sum, 0, h, P64_ROUND, 6);
        element x2 = square(h[3]); /* 1.8 */
        inner_product_part(&sum, 1, h, P64_ROUND, 6);
        element x4 = square(x2); /* 1.6 */
        inner_product_part(&sum, 2, h, P64_ROUND, 6);
        element y = add(inner_product_end(&sum), constant(P64_ROUND_CONSTANTS[round])); /* 3.8 */
        y = less(less(y, P64_MODULUS_2), P64_MODULUS);
        element z = multiply(x4, add(h[3], h[3]).limb); /* 2.3 */
        element x = add(z, y);
        h[5] = h[4];
        h[4] = h[3];
        h[3] = less(x, P64_MODULUS_2);
        h[2] = h[1];
        h[1] = h[0];
        h[0] = y;
    }

    s->lane[0] = less(multiply(h[3], P64_LEAVE_X), P64_MODULUS);
    for (int i = 0; i < POSEIDON2_WIDTH - 1; i++) {
        element lane = add(inner_product(h, P64_LEAVE_V[i], 6), constant(P64_LEAVE_CONSTANT[i])); /* 3.8 */
        s->lane[1 + i] = less(less(lane, P64_MODULUS_2), P64_MODULUS);
    }
}

/* Lanes below 1 before and after. */
static void permute(state *s)
{
    external_layer(s);
    full_rounds(s, P64_FULL_FIRST, ROUNDS_FULL_FIRST);
    partial_rounds(s);
    full_rounds(s, P64_FULL_LAST, ROUNDS_FULL_LAST);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void absorb(state *s, const uint8_t *elements, size_t count)
{
    for (size_t i = 0; i < count; i++)
        s->lane[i] = add_mod(s->lane[i], load_element(elements + i * FIELD_BYTES));
    permute(s);
}

static void hash_one(const uint8_t *elements, size_t count, uint8_t *out)
{
    state s = {{ZERO, ZERO, ZERO, ZERO}};
    /* The capacity starts as count * 2^64. */
    const element capacity = {{0, count, 0, 0}};
    s.lane[POSEIDON2_RATE] = less(multiply(capacity, P64_R_SQUARED), P64_MODULUS);
    size_t done = 0;
    do {
        size_t group = count - done < POSEIDON2_RATE ? count - done : POSEIDON2_RATE;
        absorb(&s, elements + done * FIELD_BYTES, group);
        done += group;
    } while (done < count);
    store_element(s.lane[0], out);
}

static size_t together(size_t waiting)
{
    (void)waiting;
    return 1;
}

static void hash_many(const uint8_t *inputs, size_t arity, size_t count, uint8_t *out)
{
    for (size_t i = 0; i < count; i++)
        hash_one(inputs + i * arity * FIELD_BYTES, arity, out + i * FIELD_BYTES);
}

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

static void permute_bytes(const uint8_t *in, uint8_t *out)
{
    state s = load_state(in);
    permute(&s);
    store_state(&s, out);
}

static void absorb_bytes(uint8_t *bytes, const uint8_t *elements, size_t groups)
{
    state s = load_state(bytes);
    for (size_t i = 0; i < groups; i++)
        absorb(&s, elements + i * POSEIDON2_RATE * FIELD_BYTES, POSEIDON2_RATE);
    store_state(&s, bytes);
}

static void absorb_many(uint8_t *states, const uint8_t *elements, const size_t *groups, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        absorb_bytes(states + i * POSEIDON2_STATE_BYTES, elements, groups[i]);
        elements += groups[i] * POSEIDON2_RATE * FIELD_BYTES;
    }
}

const poseidon2_kernel KERNEL = {
    .name = KERNEL_NAME,
    .together = together,
    .hash_many = hash_many,
    .hash_one = hash_one,
    .permute = permute_bytes,
    .absorb = absorb_bytes,
    .absorb_many = absorb_many,
};
