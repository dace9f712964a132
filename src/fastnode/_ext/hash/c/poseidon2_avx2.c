/* The kernel for AVX2 and FMA: cuts a run into batches.  One and two states are left to the kernel for ADX. */
#if defined(__x86_64__)

#include <immintrin.h>

#include "poseidon2_avx2.h"

#define SAME(number) {number, number, number, number}

/* Bits of the exponents of doubles from 2^52 and from 2^104 on, of so many lower and upper halves.  What is above
 * 64 bits is forgotten. */
#define EXPONENTS(low, high) SAME((low) * 0x4330000000000000ULL + (high) * 0x4670000000000000ULL)
#define EXPONENTS_OF_PRODUCTS(n)                                                                       \
    {                                                                                                  \
        EXPONENTS(1 * n, 0 * n), EXPONENTS(2 * n, 1 * n), EXPONENTS(3 * n, 2 * n), EXPONENTS(4 * n, 3 * n), \
        EXPONENTS(5 * n, 4 * n), EXPONENTS(4 * n, 5 * n), EXPONENTS(3 * n, 4 * n), EXPONENTS(2 * n, 3 * n), \
        EXPONENTS(1 * n, 2 * n), EXPONENTS(0 * n, 1 * n),                                              \
    }
#define EXPONENTS_OF_ROWS(n)                                                                           \
    {                                                                                                  \
        EXPONENTS(n, 0), EXPONENTS(n, n), EXPONENTS(n, n), EXPONENTS(n, n), EXPONENTS(n, n), EXPONENTS(0, n), \
    }

const avx2_numbers AVX2_NUMBERS = {
    .limb_mask = SAME((1ULL << LIMB_BITS) - 1),
    .sign = SAME(1ULL << 63),
    .sign_of_carry = SAME(1ULL << (63 - LIMB_BITS)),
    .exponent_low = EXPONENTS(1, 0),
    .product = EXPONENTS_OF_PRODUCTS(1),
    .six_products = EXPONENTS_OF_PRODUCTS(6),
    .row = EXPONENTS_OF_ROWS(1),
    .four_rows = EXPONENTS_OF_ROWS(4),
};

/* In poseidon2_avx2_4.c; for the rounding mode towards zero. */
void poseidon2_avx2_hash_4(const uint8_t *inputs, size_t arity, size_t count, uint8_t *out);
void poseidon2_avx2_absorb_4(uint8_t *states, const uint8_t *elements, const size_t *groups, size_t count);

void poseidon2_avx2_absorb(uint8_t *state, const uint8_t *elements, size_t groups)
{
    poseidon2_x86_64_adx.absorb(state, elements, groups);
}

/* Rounds towards zero, tells nobody of inexact numbers; the mode that was. */
static unsigned begin_doubles(void)
{
    unsigned before = _mm_getcsr();
    _mm_setcsr(_MM_MASK_MASK | _MM_ROUND_TOWARD_ZERO);
    return before;
}

static size_t together(size_t waiting)
{
    if (waiting < LANES_WORTH_IT)
        return 1;
    return waiting < VECTOR_LANES ? waiting : VECTOR_LANES;
}

static void hash_many(const uint8_t *inputs, size_t arity, size_t count, uint8_t *out)
{
    unsigned before = begin_doubles();
    while (count >= LANES_WORTH_IT) {
        size_t batch = count < VECTOR_LANES ? count : VECTOR_LANES;
        poseidon2_avx2_hash_4(inputs, arity, batch, out);
        inputs += batch * arity * POSEIDON2_FIELD_BYTES;
        out += batch * POSEIDON2_FIELD_BYTES;
        count -= batch;
    }
    _mm_setcsr(before);
    poseidon2_x86_64_adx.hash_many(inputs, arity, count, out);
}

static void hash_one(const uint8_t *elements, size_t count, uint8_t *out)
{
    poseidon2_x86_64_adx.hash_one(elements, count, out);
}

static void permute(const uint8_t *in, uint8_t *out)
{
    poseidon2_x86_64_adx.permute(in, out);
}

static void absorb_many(uint8_t *states, const uint8_t *elements, const size_t *groups, size_t count)
{
    unsigned before = begin_doubles();
    poseidon2_avx2_absorb_4(states, elements, groups, count);
    _mm_setcsr(before);
}

const poseidon2_kernel poseidon2_avx2_fma = {
    .name = "avx2-fma",
    .together = together,
    .hash_many = hash_many,
    .hash_one = hash_one,
    .permute = permute,
    .absorb = poseidon2_avx2_absorb,
    .absorb_many = absorb_many,
};

#endif
