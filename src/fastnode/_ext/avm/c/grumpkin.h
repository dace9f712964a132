/* The Grumpkin curve, y^2 = x^3 - 17 over the BN254 scalar field. */
#ifndef FASTNODE_GRUMPKIN_H
#define FASTNODE_GRUMPKIN_H

#include <stdint.h>

#define GRUMPKIN_SCALAR_BYTES 32
#define GRUMPKIN_POINT_BYTES 64

/* scalar * point + addend.  The scalar is any number of 256 bits, big-endian; points are two coordinates below the
 * modulus.  1 if the sum has coordinates, 0 if it is the point at infinity. */
int grumpkin_multiply_and_add(const uint8_t scalar[GRUMPKIN_SCALAR_BYTES], const uint8_t point[GRUMPKIN_POINT_BYTES],
                              const uint8_t addend[GRUMPKIN_POINT_BYTES], uint8_t sum[GRUMPKIN_POINT_BYTES]);

#endif
