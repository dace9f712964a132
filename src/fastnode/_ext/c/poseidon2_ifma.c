/* The AVX-512 IFMA kernel: cuts a run into batches.  A single state has no use for lanes; every processor that
 * has these has ADX as well. */
#include "poseidon2.h"

#if defined(__x86_64__)

/* Fewer than this are done sooner one after the other than in a batch that is mostly empty. */
#define BATCH_MIN 2

void poseidon2_ifma_hash_8(const uint8_t *inputs, size_t arity, size_t count, uint8_t *out);
void poseidon2_ifma_hash_16(const uint8_t *inputs, size_t arity, size_t count, uint8_t *out);

static void hash_many(const uint8_t *inputs, size_t arity, size_t count, uint8_t *out)
{
    while (count > 0) {
        size_t batch = count < 16 ? count : 16;
        if (batch > 8)
            poseidon2_ifma_hash_16(inputs, arity, batch, out);
        else if (batch >= BATCH_MIN)
            poseidon2_ifma_hash_8(inputs, arity, batch, out);
        else
            poseidon2_x86_64_adx.hash_many(inputs, arity, batch, out);
        inputs += batch * arity * POSEIDON2_FIELD_BYTES;
        out += batch * POSEIDON2_FIELD_BYTES;
        count -= batch;
    }
}

static void hash_one(const uint8_t *elements, size_t count, uint8_t *out)
{
    poseidon2_x86_64_adx.hash_one(elements, count, out);
}

static void permute(const uint8_t *in, uint8_t *out)
{
    poseidon2_x86_64_adx.permute(in, out);
}

static void absorb(uint8_t *state, const uint8_t *elements, size_t groups)
{
    poseidon2_x86_64_adx.absorb(state, elements, groups);
}

const poseidon2_kernel poseidon2_avx512_ifma = {
    .name = "avx512-ifma",
    .hash_many = hash_many,
    .hash_one = hash_one,
    .permute = permute,
    .absorb = absorb,
};

#endif
