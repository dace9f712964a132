/* Elements of the BN254 scalar field as the public virtual machine keeps them: canonical, not in Montgomery form.
 *
 * Most elements are only moved, compared and added; a product pays for two reductions instead. */
#ifndef FASTNODE_AVM_FIELD_H
#define FASTNODE_AVM_FIELD_H

#include <string.h>

#include "bn254_columns.h"

INLINE element modulus(void)
{
    return (element){{P64_MODULUS[0], P64_MODULUS[1], P64_MODULUS[2], P64_MODULUS[3]}};
}

INLINE uint64_t load_big_endian(const uint8_t *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

INLINE void store_big_endian(uint8_t *bytes, uint64_t value)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    memcpy(bytes, &value, sizeof value);
}

INLINE element field_load(const uint8_t bytes[FIELD_BYTES])
{
    element e;
    for (int i = 0; i < LIMBS; i++)
        e.limb[i] = load_big_endian(bytes + 8 * (LIMBS - 1 - i));
    return e;
}

INLINE void field_store(element e, uint8_t bytes[FIELD_BYTES])
{
    for (int i = 0; i < LIMBS; i++)
        store_big_endian(bytes + 8 * (LIMBS - 1 - i), e.limb[i]);
}

INLINE int field_equal(element a, element b)
{
    return !((a.limb[0] ^ b.limb[0]) | (a.limb[1] ^ b.limb[1]) | (a.limb[2] ^ b.limb[2]) | (a.limb[3] ^ b.limb[3]));
}

INLINE int field_is_zero(element a)
{
    return !(a.limb[0] | a.limb[1] | a.limb[2] | a.limb[3]);
}

INLINE int field_less(element a, element b)
{
    for (int i = LIMBS - 1; i >= 0; i--)
        if (a.limb[i] != b.limb[i])
            return a.limb[i] < b.limb[i];
    return 0;
}

/* Any 256 bits to below the modulus, of which they hold up to five. */
INLINE element field_reduce(element a)
{
    while (!field_less(a, modulus()))
        a = subtract(a, modulus());
    return a;
}

/* What follows takes and gives elements below the modulus. */

INLINE element field_add(element a, element b)
{
    return less_modulus(add(a, b));
}

INLINE element field_subtract(element a, element b)
{
    return field_less(a, b) ? subtract(add(a, modulus()), b) : subtract(a, b);
}

INLINE element field_multiply(element a, element b)
{
    element a_times_r = multiply(a, P64_R_SQUARED); /* below 1.2 p */
    return less_modulus(multiply(a_times_r, b.limb)); /* from 1.3 p */
}

/* 1 / a; a must not be zero. */
element field_inverse(element a);

#endif
