/* The AVX-512 IFMA kernel: cuts a run into batches.  One and two states have their own way, which needs ADX as well;
 * every processor that has IFMA has that. */
#include "poseidon2.h"

#if defined(__x86_64__)

void poseidon2_ifma_hash_1(const uint8_t *input, size_t arity, uint8_t *out);
void poseidon2_ifma_hash_2(const uint8_t *inputs, size_t arity, uint8_t *out);
void poseidon2_ifma_hash_8(const uint8_t *inputs, size_t arity, size_t count, uint8_t *out);
void poseidon2_ifma_hash_16(const uint8_t *inputs, size_t arity, size_t count, uint8_t *out);
void poseidon2_ifma_permute(const uint8_t *in, uint8_t *out);
void poseidon2_ifma_absorb(uint8_t *state, const uint8_t *elements, size_t groups);
void poseidon2_ifma_absorb_8(uint8_t *states, const uint8_t *elements, const size_t *groups, size_t count);

/* What is hashed first of `count` inputs.  Two take 1.6 times as long as one, three to eight in lanes 2.9 times, up to
 * sixteen 5.3 times: three are done sooner as two and one, nine and ten as eight and the rest. */
static size_t batch_of(size_t count)
{
    if (count == 3)
        return 2;
    if (count > 10)
        return count < 16 ? count : 16;
    return count < 8 ? count : 8;
}

/* Fewer than five are cheaper in pairs than in a batch that is mostly empty. */
static size_t together(size_t waiting)
{
    if (waiting < 5)
        return waiting < 2 ? 1 : 2;
    return waiting < 16 ? waiting : 16;
}

static void hash_batch(const uint8_t *inputs, size_t arity, size_t count, uint8_t *out)
{
    if (count > 8)
        poseidon2_ifma_hash_16(inputs, arity, count, out);
    else if (count > 2)
        poseidon2_ifma_hash_8(inputs, arity, count, out);
    else if (count == 2)
        poseidon2_ifma_hash_2(inputs, arity, out);
    else
        poseidon2_ifma_hash_1(inputs, arity, out);
}

static void hash_many(const uint8_t *inputs, size_t arity, size_t count, uint8_t *out)
{
    while (count > 0) {
        size_t batch = batch_of(count);
        hash_batch(inputs, arity, batch, out);
        inputs += batch * arity * POSEIDON2_FIELD_BYTES;
        out += batch * POSEIDON2_FIELD_BYTES;
        count -= batch;
    }
}

const poseidon2_kernel poseidon2_avx512_ifma = {
    .name = "avx512-ifma",
    .together = together,
    .hash_many = hash_many,
    .hash_one = poseidon2_ifma_hash_1,
    .permute = poseidon2_ifma_permute,
    .absorb = poseidon2_ifma_absorb,
    .absorb_many = poseidon2_ifma_absorb_8,
};

#endif
