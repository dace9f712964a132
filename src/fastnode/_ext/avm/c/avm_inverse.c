/* Inverses in the BN254 scalar field by the division steps of Bernstein and Yang ("Fast constant-time gcd computation and
 * modular inversion", 2019).  Everything here is public, so that a step may take as long as it likes.
 *
 * Kept are f, g, d and e with f = d * a and g = e * a modulo p, from f = p, g = a, d = 0, e = 1 on.  A step makes g, or
 * g + f, or g - f with f replaced by g, which is even, and halves it; in the end g is zero and f is 1 or -1.  Which steps come
 * next shows in the low bits, so that 62 of them are found on single words, and then done to the long numbers at once. */
#include "avm_field.h"

#define BATCH 62
#define WORDS 5
#define BITS_AT_ONCE 6
#define WORD_MASK ((UINT64_C(1) << BATCH) - 1)

typedef __int128 signed_wide;

/* Words of 62 bits, least significant first; the last one has the sign. */
typedef struct {
    int64_t word[WORDS];
} long_number;

/* What a batch of steps makes of two numbers, times 2^62. */
typedef struct {
    int64_t f_of_f, f_of_g, g_of_f, g_of_g;
} batch_matrix;

static long_number long_from(element e)
{
    const uint64_t *limb = e.limb;
    return (long_number){{
        (int64_t)(limb[0] & WORD_MASK),
        (int64_t)((limb[0] >> 62 | limb[1] << 2) & WORD_MASK),
        (int64_t)((limb[1] >> 60 | limb[2] << 4) & WORD_MASK),
        (int64_t)((limb[2] >> 58 | limb[3] << 6) & WORD_MASK),
        (int64_t)(limb[3] >> 56),
    }};
}

/* From 0 to 2^256 - 1. */
static element long_to_element(const long_number *a)
{
    const int64_t *word = a->word;
    return (element){{
        (uint64_t)word[0] | (uint64_t)word[1] << 62,
        (uint64_t)word[1] >> 2 | (uint64_t)word[2] << 60,
        (uint64_t)word[2] >> 4 | (uint64_t)word[3] << 58,
        (uint64_t)word[3] >> 6 | (uint64_t)word[4] << 56,
    }};
}

static int long_is_zero(const long_number *a)
{
    return !(a->word[0] | a->word[1] | a->word[2] | a->word[3] | a->word[4]);
}

/* a + factor * b */
static long_number long_add(const long_number *a, const long_number *b, int64_t factor)
{
    long_number sum;
    signed_wide carry = 0;
    for (int i = 0; i < WORDS - 1; i++) {
        carry += a->word[i] + (signed_wide)factor * b->word[i];
        sum.word[i] = (int64_t)((uint64_t)carry & WORD_MASK);
        carry >>= BATCH;
    }
    sum.word[WORDS - 1] = (int64_t)(carry + a->word[WORDS - 1] + (signed_wide)factor * b->word[WORDS - 1]);
    return sum;
}

/* (x * a + y * b + z * c) / 2^62, which leaves no remainder. */
static long_number combine(const long_number *a, int64_t x, const long_number *b, int64_t y, const long_number *c,
                           int64_t z)
{
    long_number result;
    signed_wide carry = 0;
    for (int i = 0; i < WORDS; i++) {
        /* Two products are below 2^124 together, the third alone. */
        carry += (signed_wide)x * a->word[i] + (signed_wide)y * b->word[i] + (signed_wide)z * c->word[i];
        if (i > 0)
            result.word[i - 1] = (int64_t)((uint64_t)carry & WORD_MASK);
        carry >>= BATCH;
    }
    result.word[WORDS - 1] = (int64_t)carry;
    return result;
}

/* The steps that the low bits of f and g ask for; the new delta.
 *
 * As long as delta is not positive, an odd g gets f added.  So many steps together are one addition: of that multiple of f
 * which clears as many bits of g.  f * (2 - f * f) is the inverse of f modulo 2^6. */
static int64_t find_steps(int64_t delta, uint64_t f, uint64_t g, batch_matrix *out)
{
    uint64_t f_of_f = 1, f_of_g = 0, g_of_f = 0, g_of_g = 1;
    int64_t left = BATCH;
    for (;;) {
        int halvings = __builtin_ctzll(g | UINT64_MAX << left);
        g >>= halvings;
        f_of_f <<= halvings;
        f_of_g <<= halvings;
        delta += halvings;
        left -= halvings;
        if (!left)
            break;
        if (delta > 0) {
            uint64_t old_f = f, old_f_of_f = f_of_f, old_f_of_g = f_of_g;
            delta = -delta;
            f = g;
            f_of_f = g_of_f;
            f_of_g = g_of_g;
            g = 0 - old_f;
            g_of_f = 0 - old_f_of_f;
            g_of_g = 0 - old_f_of_g;
        }
        int64_t bits = 1 - delta < left ? 1 - delta : left;
        uint64_t mask = UINT64_MAX >> (64 - (bits < BITS_AT_ONCE ? bits : BITS_AT_ONCE));
        uint64_t multiple = g * f * (f * f - 2) & mask;
        g += multiple * f;
        g_of_f += multiple * f_of_f;
        g_of_g += multiple * f_of_g;
    }
    *out = (batch_matrix){(int64_t)f_of_f, (int64_t)f_of_g, (int64_t)g_of_f, (int64_t)g_of_g};
    return delta;
}

/* (x * d + y * e) / 2^62 modulo p.  It may be larger than the larger of them by p, never smaller than the smaller: after the
 * dozen batches there can be, 310 bits are plenty. */
static long_number combine_modulo(const long_number *d, int64_t x, const long_number *e, int64_t y,
                                  const long_number *p)
{
    uint64_t low = (uint64_t)x * (uint64_t)d->word[0] + (uint64_t)y * (uint64_t)e->word[0];
    return combine(d, x, e, y, p, (int64_t)(low * P64_NEGATIVE_INVERSE & WORD_MASK));
}

element field_inverse(element a)
{
    const long_number p = long_from(modulus());
    long_number f = p, g = long_from(a), d = {{0}}, e = {{1}};
    const long_number nothing = {{0}};
    int64_t delta = 1;
    while (!long_is_zero(&g)) {
        batch_matrix m;
        delta = find_steps(delta, (uint64_t)f.word[0] | (uint64_t)f.word[1] << BATCH,
                           (uint64_t)g.word[0] | (uint64_t)g.word[1] << BATCH, &m);
        long_number new_f = combine(&f, m.f_of_f, &g, m.f_of_g, &nothing, 0);
        g = combine(&f, m.g_of_f, &g, m.g_of_g, &nothing, 0);
        f = new_f;
        long_number new_d = combine_modulo(&d, m.f_of_f, &e, m.f_of_g, &p);
        e = combine_modulo(&d, m.g_of_f, &e, m.g_of_g, &p);
        d = new_d;
    }
    if (f.word[WORDS - 1] < 0)
        d = long_add(&nothing, &d, -1);
    while (d.word[WORDS - 1] >= 0)
        d = long_add(&d, &p, -1);
    do {
        d = long_add(&d, &p, 1);
    } while (d.word[WORDS - 1] < 0);
    return long_to_element(&d);
}
