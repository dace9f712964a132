/* Big-endian integers.  With a size that the compiler knows, each is one load or store. */
#ifndef FASTNODE_NUMBERS_H
#define FASTNODE_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t read_number(const uint8_t *source, size_t size)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++)
        number = number << 8 | source[i];
    return number;
}

/* The lowest 8 * size bits. */
static inline void write_number(uint8_t *target, uint64_t number, size_t size)
{
    for (size_t i = size; i > 0; i--, number >>= 8)
        target[i - 1] = (uint8_t)number;
}

#endif
