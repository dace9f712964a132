/* The AVX-512 IFMA kernel: cuts a run into batches.  A single state has its own way, which needs ADX as well; every
 * processor that has IFMA has that. */
#include "poseidon2.h"

#if defined(__x86_64__)

/* Fewer than this are done sooner one after the other than in a batch that is mostly empty. */
#define BATCH_MIN 2

void poseidon2_ifma_hash_8(const uint8_t *inputs, size_t arity, size_t count, uint8_t *out);
void poseidon2_ifma_hash_16(const uint8_t *inputs, size_t arity, size_t count, uint8_t *out);
void poseidon2_ifma_single_hash(const uint8_t *elements, size_t count, uint8_t *out);
void poseidon2_ifma_single_permute(const uint8_t *in, uint8_t *out);
void poseidon2_ifma_single_absorb(uint8_t *state, const uint8_t *elements, size_t groups);

static void hash_many(const uint8_t *inputs, size_t arity, size_t count, uint8_t *out)
{
    while (count > 0) {
        size_t batch = count < 16 ? count : 16;
        if (batch > 8)
            poseidon2_ifma_hash_16(inputs, arity, batch, out);
        else if (batch >= BATCH_MIN)
            poseidon2_ifma_hash_8(inputs, arity, batch, out);
        else
            poseidon2_ifma_single_hash(inputs, arity, out);
        inputs += batch * arity * POSEIDON2_FIELD_BYTES;
        out += batch * POSEIDON2_FIELD_BYTES;
        count -= batch;
    }
}

const poseidon2_kernel poseidon2_avx512_ifma = {
    .name = "avx512-ifma",
    .lanes = 8,
    .hash_many = hash_many,
    .hash_one = poseidon2_ifma_single_hash,
    .permute = poseidon2_ifma_single_permute,
    .absorb = poseidon2_ifma_single_absorb,
};

#endif
