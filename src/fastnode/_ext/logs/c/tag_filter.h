/* A blocked Bloom filter over log tags, and the reader of canonical field texts.
 *
 * The filter is an array of blocks of 64 bytes, one cache line each: eight words of 64 bits.  A key
 * selects one block and sets one bit in each of its words, so a probe costs one memory access, and at
 * 16 bits per key about one unknown key in a thousand is taken for a known one.
 *
 *   key     owner (0 or 32 bytes) | tag (32 bytes), read as little-endian words of 64 bits
 *   hash    two words are mixed per step: state = fold((w0 ^ state) * (w1 ^ K1)) ^ K2 * step
 *   block   high half of (hash * number of blocks)
 *   bits    six bits of a second hash for each of the eight words
 */
#ifndef FASTNODE_TAG_FILTER_H
#define FASTNODE_TAG_FILTER_H

#include <stdint.h>

#include "text.h"

#define TAG_BYTES 32
#define TAG_WORDS_PER_BLOCK 8
#define TAG_BLOCK_BYTES 64
#define TAG_BITS_PER_CHOICE 6

#define TAG_MIX_1 0x9e3779b97f4a7c15ULL
#define TAG_MIX_2 0xbf58476d1ce4e5b9ULL
#define TAG_MIX_3 0x94d049bb133111ebULL

/* Field texts: "0x" and 64 hexadecimal digits. */
#define TAG_TEXT_LENGTH 66

__extension__ typedef unsigned __int128 tag_u128;

static inline uint64_t tag_word(const uint8_t *bytes) {
    uint64_t word = 0;
    for (int i = 7; i >= 0; i--) word = (word << 8) | bytes[i]; /* compiles to one load */
    return word;
}

static inline uint64_t tag_fold(uint64_t a, uint64_t b) {
    tag_u128 product = (tag_u128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Mixes 32 more bytes into a hash. */
static inline uint64_t tag_mix(uint64_t state, const uint8_t *bytes) {
    state = tag_fold(tag_word(bytes) ^ state, tag_word(bytes + 8) ^ TAG_MIX_1) + TAG_MIX_2;
    return tag_fold(tag_word(bytes + 16) ^ state, tag_word(bytes + 24) ^ TAG_MIX_3) + TAG_MIX_1;
}

/* Start of every hash; an owner, if there is one, is mixed in before the tag. */
static inline uint64_t tag_start(const uint8_t *owner) {
    return owner ? tag_mix(TAG_MIX_3, owner) : TAG_MIX_2;
}

static inline uint64_t *tag_block(uint64_t *words, uint64_t blocks, uint64_t hash) {
    tag_u128 product = (tag_u128)hash * blocks;
    return words + (uint64_t)(product >> 64) * TAG_WORDS_PER_BLOCK;
}

static inline uint64_t tag_choices(uint64_t hash) { return tag_fold(hash ^ TAG_MIX_2, TAG_MIX_3); }

/* Returns 1 when the filter changed. */
static inline int tag_filter_add(uint64_t *words, uint64_t blocks, uint64_t start, const uint8_t *tag) {
    uint64_t hash = tag_mix(start, tag);
    uint64_t *block = tag_block(words, blocks, hash);
    uint64_t choices = tag_choices(hash);
    uint64_t missing = 0;
    for (int i = 0; i < TAG_WORDS_PER_BLOCK; i++, choices >>= TAG_BITS_PER_CHOICE) {
        uint64_t bit = 1ULL << (choices & 63);
        missing |= ~block[i] & bit;
        block[i] |= bit;
    }
    return missing != 0;
}

static inline int tag_filter_has(uint64_t *words, uint64_t blocks, uint64_t start, const uint8_t *tag) {
    uint64_t hash = tag_mix(start, tag);
    const uint64_t *block = tag_block(words, blocks, hash);
    uint64_t choices = tag_choices(hash);
    uint64_t missing = 0;
    for (int i = 0; i < TAG_WORDS_PER_BLOCK; i++, choices >>= TAG_BITS_PER_CHOICE)
        missing |= ~block[i] & (1ULL << (choices & 63));
    return missing == 0;
}

/* Reads "0x" and 64 digits into 32 bytes.  Returns 0 for any other text and for values of the modulus or more. */
static inline int tag_read_field(const uint8_t *text, uint8_t *field) {
    return text[0] == '0' && text[1] == 'x' && text_read_hex(text + 2, TAG_BYTES, field)
        && text_field_is_canonical(field);
}

#endif
