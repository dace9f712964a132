/* Multiples of curve points.  Only public values pass through here, so nothing is constant-time.
 *
 * Doubling and adding run in Jacobian coordinates (x = X / Z^2, y = Y / Z^3) and in Montgomery form, which leaves one
 * inversion at the end. */
#include "grumpkin.h"

#include "avm_field.h"

typedef struct {
    element x, y, z; /* z = 0: the point at infinity */
} jacobian;

typedef struct {
    element x, y;
} affine;

/* Of elements below p in Montgomery form; below p. */
static element times(element a, element b)
{
    return less_modulus(multiply(a, b.limb)); /* from 1.2 p */
}

static element twice(element a)
{
    return field_add(a, a);
}

static element to_montgomery(element a)
{
    return less_modulus(multiply(a, P64_R_SQUARED));
}

static element from_montgomery(element a)
{
    static const uint64_t one[LIMBS] = {1, 0, 0, 0};
    return less_modulus(multiply(a, one));
}

static element one(void)
{
    return to_montgomery((element){{1, 0, 0, 0}});
}

static affine affine_load(const uint8_t bytes[GRUMPKIN_POINT_BYTES])
{
    return (affine){to_montgomery(field_load(bytes)), to_montgomery(field_load(bytes + FIELD_BYTES))};
}

static jacobian doubled(jacobian p)
{
    element y_squared = times(p.y, p.y);
    element s = twice(twice(times(p.x, y_squared)));
    element x_squared = times(p.x, p.x);
    element m = field_add(twice(x_squared), x_squared); /* the curve has a = 0 */
    element y_to_4 = times(y_squared, y_squared);
    jacobian sum;
    sum.x = field_subtract(times(m, m), twice(s));
    sum.y = field_subtract(times(m, field_subtract(s, sum.x)), twice(twice(twice(y_to_4))));
    sum.z = twice(times(p.y, p.z));
    return sum;
}

static jacobian plus(jacobian p, affine q)
{
    if (field_is_zero(p.z))
        return (jacobian){q.x, q.y, one()};
    element z_squared = times(p.z, p.z);
    element h = field_subtract(times(q.x, z_squared), p.x);
    element r = field_subtract(times(times(q.y, z_squared), p.z), p.y);
    if (field_is_zero(h))
        return field_is_zero(r) ? doubled(p) : (jacobian){one(), one(), {{0, 0, 0, 0}}};
    element h_squared = times(h, h);
    element h_cubed = times(h_squared, h);
    element v = times(p.x, h_squared);
    jacobian sum;
    sum.x = field_subtract(field_subtract(times(r, r), h_cubed), twice(v));
    sum.y = field_subtract(times(r, field_subtract(v, sum.x)), times(p.y, h_cubed));
    sum.z = times(p.z, h);
    return sum;
}

int grumpkin_multiply_and_add(const uint8_t scalar[GRUMPKIN_SCALAR_BYTES], const uint8_t point[GRUMPKIN_POINT_BYTES],
                              const uint8_t addend[GRUMPKIN_POINT_BYTES], uint8_t sum[GRUMPKIN_POINT_BYTES])
{
    affine base = affine_load(point);
    jacobian result = {one(), one(), {{0, 0, 0, 0}}};
    for (int bit = 0; bit < 8 * GRUMPKIN_SCALAR_BYTES; bit++) {
        result = doubled(result);
        if (scalar[bit / 8] >> (7 - bit % 8) & 1)
            result = plus(result, base);
    }
    result = plus(result, affine_load(addend));
    if (field_is_zero(result.z))
        return 0;
    element inverse = to_montgomery(field_inverse(from_montgomery(result.z)));
    element squared = times(inverse, inverse);
    field_store(from_montgomery(times(result.x, squared)), sum);
    field_store(from_montgomery(times(result.y, times(squared, inverse))), sum + FIELD_BYTES);
    return 1;
}
