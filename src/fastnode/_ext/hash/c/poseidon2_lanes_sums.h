/* Poseidon2 with vectors, LANES states side by side: elements and their sums.
 *
 * A file for some kind of processor says what a vector can do with one number in each lane, includes this one, goes on
 * with its products, and ends with poseidon2_lanes_sponge.h, which has all the rest.
 *
 * A permutation is a chain of dependent products.  With two vectors there are two chains to
 * choose from, which keeps the multipliers busy; with one, a batch is done sooner.
 *
 * An element is five limbs of 52 bits, least significant first, in Montgomery form, R = 2^260.
 * 2^260 is 84.6 p, so that values are rarely reduced; bounds are given in multiples of p.  Limbs are
 *
 *   loose      any signed 64-bit numbers; the value is the sum of limb[i] * 2^(52 i)
 *   carried    for the factors of a product, in the form that the multiply instructions want, with all 52 bits of
 *              a limb added up: a value from 0 to below 84.6
 *   exact      what is above bit 52 was added to the next limb and taken away
 *
 * scripts/make-poseidon2-tables explains how a partial round comes down to the S-box and six products
 * with one reduction. */
#define LANES (VECTORS * VECTOR_LANES)

typedef struct {
    lanes limb[LIMBS];
} element;

/* Columns of a sum of products, loose. */
typedef struct {
    lanes column[2 * LIMBS];
} product;

/* The tables, through a pointer of which the compiler does not know where it points.  Otherwise it makes
 * the numbers in the code, on the ports that also multiply; from memory they are free. */
static inline const vector_tables *tables(void)
{
    const vector_tables *k = &VECTOR_TABLES;
    __asm__("" : "+r"(k));
    return k;
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

/* Add what is above bit 52 of a limb to the next one. */
INLINE element carry(element a)
{
    UNROLL for (int i = 0; i < LIMBS - 1; i++)
        a.limb[i + 1] = plus(a.limb[i + 1], above_limb(a.limb[i]));
    return a;
}

/* Loose to exact; the last limb keeps the sign of the value. */
INLINE element exact(const vector_tables *k, element a)
{
    a = carry(a);
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

/* R times a loose element, to add products to: so the sum costs nothing. */
INLINE product times_r(element e)
{
    product t;
    UNROLL for (int i = 0; i < LIMBS; i++) {
        t.column[i] = everywhere(0);
        t.column[LIMBS + i] = e.limb[i];
    }
    return t;
}

INLINE product no_product(void)
{
    element zero;
    UNROLL for (int i = 0; i < LIMBS; i++)
        zero.limb[i] = everywhere(0);
    return times_r(zero);
}
