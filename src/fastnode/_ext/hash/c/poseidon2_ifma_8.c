/* 8 states side by side; and what of one or two states is done with their four lanes side by side. */
#if defined(__x86_64__)

#include <stddef.h>
#include <stdint.h>

void poseidon2_ifma_absorb(uint8_t *state, const uint8_t *elements, size_t groups);

#define VECTORS 1
#define HASH_LANES poseidon2_ifma_hash_8
#define ABSORB_LANES poseidon2_ifma_absorb_8
/* Two states are done sooner one after the other. */
#define LANES_WORTH_IT 3
#define ABSORB_ONE poseidon2_ifma_absorb
#define POSEIDON2_TABLES_SINGLE
#include "poseidon2_ifma_lanes.h"
#include "poseidon2_ifma_few_calls.h"

INLINE element load_side(const uint64_t limbs[LIMBS][VECTOR_LANES])
{
    element e;
    UNROLL for (int i = 0; i < LIMBS; i++)
        e.limb[i].of[0] = _mm512_load_si512(limbs[i]);
    return e;
}

/* Loose. */
INLINE void store_side(const vector_tables *k, element e, side_by_side *s)
{
    e = exact(k, e);
    UNROLL for (int i = 0; i < LIMBS; i++)
        _mm512_store_si512(s->limb[i], e.limb[i].of[0]);
}

/* Of itself, of its neighbour in its pair, of the same and of the different place in the other pair, an even lane takes
 * 5, 7, 1 and 3, an odd one 6, 4, 1 and 1: all of them 4, 4, 1 and 1, and then what they have more. */
INLINE lanes external_side(lanes a)
{
    __m512i self = a.of[0];
    __m512i neighbour = _mm512_permutex_epi64(self, 0xB1);
    __m512i other = _mm512_permutex_epi64(self, 0x4E);
    __m512i far = _mm512_permutex_epi64(self, 0x1B);
    __m512i near = _mm512_add_epi64(self, neighbour);
    __m512i common = _mm512_add_epi64(_mm512_slli_epi64(near, 2), _mm512_add_epi64(other, far));
    __m512i twice = _mm512_slli_epi64(_mm512_add_epi64(neighbour, far), 1);
    __m512i even = _mm512_add_epi64(near, twice);
    __m512i odd = _mm512_add_epi64(self, self);
    a.of[0] = _mm512_add_epi64(common, _mm512_mask_mov_epi64(even, 0xAA, odd));
    return a;
}

/* The external matrix.  Bounds grow 16 times. */
INLINE element external_sides(element e)
{
    UNROLL for (int i = 0; i < LIMBS; i++)
        e.limb[i] = external_side(e.limb[i]);
    return e;
}

/* Below 38 before and after. */
INLINE element full_rounds_side(
    const vector_tables *k, element e, const uint64_t constants[][LIMBS][VECTOR_LANES], int rounds)
{
    for (int round = 0; round < rounds; round++)
        e = external_sides(below_3(k, power5(k, add(e, load_side(constants[round])))));
    return e;
}

/* From 38, loose. */
INLINE element below_38_to_3(const vector_tables *k, element e)
{
    return below_3(k, exact(k, below_7(k, exact(k, e))));
}

/* Below 7, loose. */
INLINE element sum_of(const vector_tables *k, const side_by_side *s, const side_by_side *elements)
{
    return add(multiply(k, load_side(elements->limb), constant_factor(k->r_squared)), load_side(s->limb));
}

CODE void poseidon2_ifma_few_first(side_by_side *s, const side_by_side *elements)
{
    const vector_tables *k = tables();
    element e = external_sides(below_3(k, sum_of(k, s, elements)));
    store_side(k, full_rounds_side(k, e, P1_FULL, ROUNDS_FULL_FIRST), s);
}

CODE void poseidon2_ifma_few_last(side_by_side *s)
{
    const vector_tables *k = tables();
    element e = full_rounds_side(k, load_side(s->limb), P1_FULL + ROUNDS_FULL_FIRST, ROUNDS_FULL_LAST);
    store_side(k, below_38_to_3(k, e), s);
}

CODE void poseidon2_ifma_few_add(side_by_side *s, const side_by_side *elements)
{
    const vector_tables *k = tables();
    store_side(k, sum_of(k, s, elements), s);
}

CODE void poseidon2_ifma_few_leave(side_by_side *s)
{
    const vector_tables *k = tables();
    store_side(k, multiply(k, load_side(s->limb), constant_factor(k->one)), s);
}

#endif
