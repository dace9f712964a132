/* Big-endian integers.  With a size that the compiler knows, each is a load or store or two: loops it leaves as they are. */
#ifndef FASTNODE_NUMBERS_H
#define FASTNODE_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t read_number_2(const uint8_t *source)
{
    return (uint64_t)source[0] << 8 | source[1];
}

static inline uint64_t read_number_4(const uint8_t *source)
{
    return (uint64_t)source[0] << 24 | (uint64_t)source[1] << 16 | (uint64_t)source[2] << 8 | source[3];
}

static inline uint64_t read_number(const uint8_t *source, size_t size)
{
    uint64_t number = 0;
    if (__builtin_constant_p(size) && size == 4)
        return read_number_4(source);
    if (__builtin_constant_p(size) && size == 6)
        return read_number_4(source) << 16 | read_number_2(source + 4);
    if (__builtin_constant_p(size) && size == 8)
        return read_number_4(source) << 32 | read_number_4(source + 4);
    for (size_t i = 0; i < size; i++)
        number = number << 8 | source[i];
    return number;
}

static inline void write_number_2(uint8_t *target, uint64_t number)
{
    target[0] = (uint8_t)(number >> 8);
    target[1] = (uint8_t)number;
}

static inline void write_number_4(uint8_t *target, uint64_t number)
{
    target[0] = (uint8_t)(number >> 24);
    target[1] = (uint8_t)(number >> 16);
    target[2] = (uint8_t)(number >> 8);
    target[3] = (uint8_t)number;
}

/* The lowest 8 * size bits. */
static inline void write_number(uint8_t *target, uint64_t number, size_t size)
{
    if (__builtin_constant_p(size) && (size == 4 || size == 6 || size == 8)) {
        if (size > 4)
            write_number_4(target, number >> 8 * (size - 4));
        if (size == 6)
            write_number_2(target + 4, number);
        else
            write_number_4(target + (size - 4), number);
        return;
    }
    for (size_t i = size; i > 0; i--, number >>= 8)
        target[i - 1] = (uint8_t)number;
}

#endif
