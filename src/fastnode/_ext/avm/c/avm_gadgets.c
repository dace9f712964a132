#include "avm_gadgets.h"

/* ---- SHA-256 --------------------------------------------------------------------------------- */

#define SHA_ROUNDS 64

/* The first 32 bits of the fractional parts of the cube roots of the first primes. */
static const uint32_t SHA_CONSTANTS[SHA_ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

INLINE uint32_t rotate_right(uint32_t value, int count)
{
    return value >> count | value << (32 - count);
}

void sha256_compress(uint32_t state[SHA_STATE], const uint32_t block[SHA_BLOCK])
{
    uint32_t words[SHA_ROUNDS];
    memcpy(words, block, SHA_BLOCK * sizeof *words);
    for (int i = SHA_BLOCK; i < SHA_ROUNDS; i++) {
        uint32_t early = words[i - 15], late = words[i - 2];
        uint32_t small_0 = rotate_right(early, 7) ^ rotate_right(early, 18) ^ early >> 3;
        uint32_t small_1 = rotate_right(late, 17) ^ rotate_right(late, 19) ^ late >> 10;
        words[i] = words[i - 16] + small_0 + words[i - 7] + small_1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < SHA_ROUNDS; i++) {
        uint32_t big_1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
        uint32_t first = h + big_1 + ((e & f) ^ (~e & g)) + SHA_CONSTANTS[i] + words[i];
        uint32_t big_0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
        uint32_t second = big_0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + first;
        d = c;
        c = b;
        b = a;
        a = first + second;
    }
    const uint32_t mixed[SHA_STATE] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < SHA_STATE; i++)
        state[i] += mixed[i];
}

/* ---- Keccak ---------------------------------------------------------------------------------- */

#define KECCAK_ROUNDS 24

static const uint64_t KECCAK_CONSTANTS[KECCAK_ROUNDS] = {
    0x0000000000000001, 0x0000000000008082, 0x800000000000808a, 0x8000000080008000,
    0x000000000000808b, 0x0000000080000001, 0x8000000080008081, 0x8000000000008009,
    0x000000000000008a, 0x0000000000000088, 0x0000000080008009, 0x000000008000000a,
    0x000000008000808b, 0x800000000000008b, 0x8000000000008089, 0x8000000000008003,
    0x8000000000008002, 0x8000000000000080, 0x000000000000800a, 0x800000008000000a,
    0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008,
};

/* Steps rho and pi as one walk over the lanes: where each goes next, and how far it is rotated. */
static const uint8_t KECCAK_WALK[KECCAK_ROUNDS][2] = {
    {10, 1}, {7, 3}, {11, 6}, {17, 10}, {18, 15}, {3, 21}, {5, 28}, {16, 36},
    {8, 45}, {21, 55}, {24, 2}, {4, 14}, {15, 27}, {23, 41}, {19, 56}, {13, 8},
    {12, 25}, {2, 43}, {20, 62}, {14, 18}, {22, 39}, {9, 61}, {6, 20}, {1, 44},
};

INLINE uint64_t rotate_left(uint64_t value, int count)
{
    return value << count | value >> (64 - count);
}

void keccak_f1600(uint64_t lanes[KECCAK_LANES])
{
    for (int round = 0; round < KECCAK_ROUNDS; round++) {
        uint64_t parity[5];
        for (int x = 0; x < 5; x++)
            parity[x] = lanes[x] ^ lanes[x + 5] ^ lanes[x + 10] ^ lanes[x + 15] ^ lanes[x + 20];
        for (int x = 0; x < 5; x++) {
            uint64_t spread = parity[(x + 4) % 5] ^ rotate_left(parity[(x + 1) % 5], 1);
            for (int y = 0; y < KECCAK_LANES; y += 5)
                lanes[x + y] ^= spread;
        }
        uint64_t carried = lanes[1];
        for (int step = 0; step < KECCAK_ROUNDS; step++) {
            uint64_t displaced = lanes[KECCAK_WALK[step][0]];
            lanes[KECCAK_WALK[step][0]] = rotate_left(carried, KECCAK_WALK[step][1]);
            carried = displaced;
        }
        for (int y = 0; y < KECCAK_LANES; y += 5) {
            uint64_t row[5];
            memcpy(row, lanes + y, sizeof row);
            for (int x = 0; x < 5; x++)
                lanes[x + y] = row[x] ^ (~row[(x + 1) % 5] & row[(x + 2) % 5]);
        }
        lanes[0] ^= KECCAK_CONSTANTS[round];
    }
}

/* ---- curve ----------------------------------------------------------------------------------- */

int curve_holds(const curve_point *point)
{
    if (point->is_infinity)
        return 1;
    element cube = field_multiply(field_multiply(point->x, point->x), point->x);
    element square_and_17 = field_add(field_multiply(point->y, point->y), (element){{17, 0, 0, 0}});
    return field_equal(cube, square_and_17);
}

curve_point curve_add(const curve_point *left, const curve_point *right)
{
    static const curve_point infinity = {.is_infinity = 1};
    if (left->is_infinity)
        return right->is_infinity ? infinity : *right;
    if (right->is_infinity)
        return *left;
    element rise, run;
    if (!field_equal(left->x, right->x)) {
        rise = field_subtract(right->y, left->y);
        run = field_subtract(right->x, left->x);
    } else if (field_equal(left->y, right->y)) { /* no point has y = 0 */
        element x_squared = field_multiply(left->x, left->x);
        rise = field_add(field_add(x_squared, x_squared), x_squared);
        run = field_add(left->y, left->y);
    } else {
        return infinity;
    }
    element slope = field_multiply(rise, field_inverse(run));
    curve_point sum = {.is_infinity = 0};
    sum.x = field_subtract(field_subtract(field_multiply(slope, slope), left->x), right->x);
    sum.y = field_subtract(field_multiply(slope, field_subtract(left->x, sum.x)), left->y);
    return sum;
}

/* ---- digits ---------------------------------------------------------------------------------- */

#define HALF_LIMBS (2 * LIMBS)

/* Divide by a small number; the remainder.  Half limbs are most significant first, `count` of them not known to be zero. */
INLINE uint32_t divide(uint32_t value[HALF_LIMBS], int count, uint32_t divisor)
{
    uint64_t remainder = 0;
    for (int i = HALF_LIMBS - count; i < HALF_LIMBS; i++) {
        uint64_t dividend = remainder << 32 | value[i];
        value[i] = (uint32_t)(dividend / divisor);
        remainder = dividend % divisor;
    }
    return (uint32_t)remainder;
}

uint32_t digits_of(element value, uint32_t radix, uint8_t digits[DIGITS_MAX])
{
    uint32_t rest[HALF_LIMBS];
    for (int i = 0; i < LIMBS; i++) {
        rest[HALF_LIMBS - 1 - 2 * i] = (uint32_t)value.limb[i];
        rest[HALF_LIMBS - 2 - 2 * i] = (uint32_t)(value.limb[i] >> 32);
    }
    uint32_t found = 0;
    int count = HALF_LIMBS;
    for (;;) {
        while (count && !rest[HALF_LIMBS - count])
            count--;
        if (!count)
            return found;
        digits[found++] = (uint8_t)divide(rest, count, radix);
    }
}

uint32_t digit_count(uint32_t radix)
{
    static const uint8_t counts[RADIX_MAX + 1] = {
        0, 0, 254, 161, 127, 110, 99, 91, 85, 81, 77, 74, 71, 69, 67, 65, 64, 63, 61, 60,
        59, 58, 57, 57, 56, 55, 54, 54, 53, 53, 52, 52, 51, 51, 50, 50, 50, 49, 49, 48,
        48, 48, 48, 47, 47, 47, 46, 46, 46, 46, 45, 45, 45, 45, 45, 44, 44, 44, 44, 44,
        43, 43, 43, 43, 43, 43, 42, 42, 42, 42, 42, 42, 42, 41, 41, 41, 41, 41, 41, 41,
        41, 41, 40, 40, 40, 40, 40, 40, 40, 40, 40, 39, 39, 39, 39, 39, 39, 39, 39, 39,
        39, 39, 39, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 37, 37, 37, 37,
        37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 37, 36, 36, 36, 36, 36, 36, 36, 36,
        36, 36, 36, 36, 36, 36, 36, 36, 36, 36, 36, 36, 35, 35, 35, 35, 35, 35, 35, 35,
        35, 35, 35, 35, 35, 35, 35, 35, 35, 35, 35, 35, 35, 35, 35, 35, 34, 34, 34, 34,
        34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34, 34,
        34, 34, 34, 34, 34, 34, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33,
        33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33,
        33, 33, 33, 33, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32,
    };
    return counts[radix];
}
