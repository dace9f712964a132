/* One state at a time, with AVX-512 IFMA. */
#if defined(__x86_64__)

#define STATES 1
#define HASH_FEW poseidon2_ifma_hash_1
#include "poseidon2_ifma_few.h"

void poseidon2_ifma_permute(const uint8_t *in, uint8_t *out)
{
    side_by_side s = {{{0}}};
    absorb(&s, in, 0, POSEIDON2_WIDTH);
    store_elements(&s, out, POSEIDON2_WIDTH);
}

void poseidon2_ifma_absorb(uint8_t *state, const uint8_t *elements, size_t groups)
{
    side_by_side s = {{{0}}}, before = load_elements(state, 0, POSEIDON2_WIDTH);
    poseidon2_ifma_few_add(&s, &before);
    for (size_t i = 0; i < groups; i++)
        absorb(&s, elements + i * POSEIDON2_RATE * FIELD_BYTES, 0, POSEIDON2_RATE);
    store_elements(&s, state, POSEIDON2_WIDTH);
}

#endif
