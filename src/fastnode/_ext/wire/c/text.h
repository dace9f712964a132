/* Text forms of bytes and of 256-bit numbers (32 bytes, big-endian). */
#ifndef FASTNODE_TEXT_H
#define FASTNODE_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#define TEXT_FIELD_BYTES 32
#define TEXT_FIELD_HEX_DIGITS (2 * TEXT_FIELD_BYTES)
#define TEXT_DECIMAL_DIGITS_MAX 78 /* of 2^256 - 1 */

static const char TEXT_HEX_DIGITS[] = "0123456789abcdef";

/* 0x30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001 */
static const uint8_t TEXT_MODULUS[TEXT_FIELD_BYTES] = {
    0x30, 0x64, 0x4e, 0x72, 0xe1, 0x31, 0xa0, 0x29, 0xb8, 0x50, 0x45, 0xb6, 0x81, 0x81, 0x58, 0x5d,
    0x28, 0x33, 0xe8, 0x48, 0x79, 0xb9, 0x70, 0x91, 0x43, 0xe1, 0xf5, 0x93, 0xf0, 0x00, 0x00, 0x01,
};

static inline int text_field_is_canonical(const uint8_t *field)
{
    return memcmp(field, TEXT_MODULUS, TEXT_FIELD_BYTES) < 0;
}

/* ---- hex ------------------------------------------------------------------------------------ */

#if defined(__x86_64__)
/* Sixteen bytes at a time, as long as there are so many; returns how many it has taken. */
static inline size_t text_write_hex_sse2(const uint8_t *data, size_t size, uint8_t *out)
{
    const __m128i low_half = _mm_set1_epi8(15), nine = _mm_set1_epi8(9);
    const __m128i to_letter = _mm_set1_epi8('a' - 10 - '0'), zero = _mm_set1_epi8('0');
    size_t taken = 0;
    for (; size - taken >= 16; taken += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(data + taken));
        __m128i high = _mm_and_si128(_mm_srli_epi16(bytes, 4), low_half), low = _mm_and_si128(bytes, low_half);
        for (int half = 0; half < 2; half++) {
            __m128i values = half ? _mm_unpackhi_epi8(high, low) : _mm_unpacklo_epi8(high, low);
            __m128i more = _mm_and_si128(_mm_cmpgt_epi8(values, nine), to_letter);
            __m128i characters = _mm_add_epi8(_mm_add_epi8(values, zero), more);
            _mm_storeu_si128((__m128i *)(out + 2 * taken + 16 * half), characters);
        }
    }
    return taken;
}
#endif

/* Two digits per byte, to `out` of 2 * size characters. */
static inline void text_write_hex(const uint8_t *data, size_t size, uint8_t *out)
{
    size_t taken = 0;
#if defined(__x86_64__)
    taken = text_write_hex_sse2(data, size, out);
#endif
    for (out += 2 * taken; taken < size; taken++) {
        *out++ = (uint8_t)TEXT_HEX_DIGITS[data[taken] >> 4];
        *out++ = (uint8_t)TEXT_HEX_DIGITS[data[taken] & 15];
    }
}

/* 0 to 15, or something above for a character that is no hex digit.  Without branches or tables. */
static inline unsigned text_hex_value(uint8_t character)
{
    unsigned decimal = (unsigned)character - '0';
    unsigned letter = ((unsigned)character | 0x20) - 'a';
    return decimal < 10 ? decimal : letter < 6 ? letter + 10 : 16;
}

#if defined(__x86_64__)
/* Sixteen digits at a time; returns how many bytes it has written, and stops in front of a character that is none.
 * Each processor of this kind has these instructions. */
static inline size_t text_read_hex_sse2(const uint8_t *digits, size_t size, uint8_t *out)
{
    size_t written = 0;
    for (; size - written >= 8; written += 8) {
        __m128i characters = _mm_loadu_si128((const __m128i *)(digits + 2 * written));
        __m128i decimal = _mm_sub_epi8(characters, _mm_set1_epi8('0'));
        __m128i letter = _mm_sub_epi8(_mm_or_si128(characters, _mm_set1_epi8(0x20)), _mm_set1_epi8('a'));
        __m128i is_decimal = _mm_cmpeq_epi8(_mm_min_epu8(decimal, _mm_set1_epi8(9)), decimal);
        __m128i is_letter = _mm_cmpeq_epi8(_mm_min_epu8(letter, _mm_set1_epi8(5)), letter);
        if (_mm_movemask_epi8(_mm_or_si128(is_decimal, is_letter)) != 0xffff)
            break;
        letter = _mm_add_epi8(letter, _mm_set1_epi8(10));
        __m128i values = _mm_or_si128(_mm_and_si128(is_decimal, decimal), _mm_and_si128(is_letter, letter));
        __m128i high = _mm_and_si128(_mm_slli_epi16(values, 4), _mm_set1_epi16(0xff));
        __m128i bytes = _mm_packus_epi16(_mm_or_si128(high, _mm_srli_epi16(values, 8)), _mm_setzero_si128());
        _mm_storel_epi64((__m128i *)(out + written), bytes);
    }
    return written;
}
#endif

/* `size` bytes from 2 * size digits; 0 if one of them is no hex digit. */
static inline int text_read_hex(const uint8_t *digits, size_t size, uint8_t *out)
{
    unsigned seen = 0;
    size_t read = 0;
#if defined(__x86_64__)
    read = text_read_hex_sse2(digits, size, out);
#endif
    for (size_t i = read; i < size; i++) {
        unsigned high = text_hex_value(digits[2 * i]), low = text_hex_value(digits[2 * i + 1]);
        seen |= high | low;
        out[i] = (uint8_t)(high << 4 | (low & 15));
    }
    return seen < 16;
}

/* One field from 1 to 64 digits, as if zeros stood in front of them; 0 if one of them is no hex digit. */
static inline int text_read_padded_hex(const uint8_t *digits, size_t count, uint8_t *field)
{
    uint8_t padded[TEXT_FIELD_HEX_DIGITS];
    memset(padded, '0', TEXT_FIELD_HEX_DIGITS - count);
    memcpy(padded + TEXT_FIELD_HEX_DIGITS - count, digits, count);
    return text_read_hex(padded, TEXT_FIELD_BYTES, field);
}

static inline int text_is_hex(const uint8_t *digits, size_t count)
{
    unsigned seen = 0;
    for (size_t i = 0; i < count; i++)
        seen |= text_hex_value(digits[i]);
    return seen < 16;
}

/* ---- decimal -------------------------------------------------------------------------------- */

#define TEXT_CHUNK_DIGITS 18
#define TEXT_CHUNK 1000000000000000000ULL /* 10^18 */

static inline void text_load_words(const uint8_t *field, uint64_t words[4])
{
    for (int i = 0; i < 4; i++) {
        words[i] = 0;
        for (int j = 0; j < 8; j++)
            words[i] = words[i] << 8 | field[8 * i + j];
    }
}

/* Digits of 32 bytes to `out` of TEXT_DECIMAL_DIGITS_MAX characters; their number. */
static inline size_t text_write_decimal(const uint8_t *field, uint8_t *out)
{
    uint8_t reversed[5 * TEXT_CHUNK_DIGITS];
    uint64_t words[4]; /* most significant first */
    text_load_words(field, words);
    size_t written = 0, significant = 1;
    while (written < sizeof reversed) {
        uint64_t rest = 0;
        for (int i = 0; i < 4; i++) {
            unsigned __int128 part = (unsigned __int128)rest << 64 | words[i];
            words[i] = (uint64_t)(part / TEXT_CHUNK);
            rest = (uint64_t)(part % TEXT_CHUNK);
        }
        for (int i = 0; i < TEXT_CHUNK_DIGITS; i++) {
            if (rest % 10)
                significant = written + 1;
            reversed[written++] = (uint8_t)('0' + rest % 10);
            rest /= 10;
        }
    }
    for (size_t i = 0; i < significant; i++)
        out[i] = reversed[significant - 1 - i];
    return significant;
}

/* 32 bytes of the number that `count` <= 77 decimal digits are; the caller looked at the digits. */
static inline void text_read_decimal(const uint8_t *digits, size_t count, uint8_t *out)
{
    uint64_t words[4] = {0, 0, 0, 0}; /* most significant first */
    for (size_t done = 0; done < count;) {
        uint64_t chunk = 0, factor = 1;
        for (int i = 0; i < TEXT_CHUNK_DIGITS && done < count; i++) {
            chunk = 10 * chunk + (digits[done++] - '0');
            factor *= 10;
        }
        for (int i = 3; i >= 0; i--) {
            unsigned __int128 product = (unsigned __int128)words[i] * factor + chunk;
            words[i] = (uint64_t)product;
            chunk = (uint64_t)(product >> 64);
        }
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 8; j++)
            out[8 * i + j] = (uint8_t)(words[i] >> (56 - 8 * j));
}

#define TEXT_NUMBER_DIGITS_MAX 20 /* of 2^64 - 1 */

/* ---- one behind the other ------------------------------------------------------------------- */

/* Each returns the place behind what it has written. */

static inline uint8_t *text_put(uint8_t *out, const void *text, size_t length)
{
    memcpy(out, text, length);
    return out + length;
}

/* A literal: its length is known when this is compiled. */
static inline uint8_t *text_put_literal(uint8_t *out, const char *text)
{
    return text_put(out, text, strlen(text));
}

static inline uint8_t *text_put_hex(uint8_t *out, const uint8_t *data, size_t size)
{
    text_write_hex(data, size, out);
    return out + 2 * size;
}

/* Decimal. */
static inline uint8_t *text_put_number(uint8_t *out, uint64_t number)
{
    uint8_t digits[TEXT_NUMBER_DIGITS_MAX];
    size_t first = TEXT_NUMBER_DIGITS_MAX;
    do {
        digits[--first] = (uint8_t)('0' + number % 10);
        number /= 10;
    } while (number);
    return text_put(out, digits + first, TEXT_NUMBER_DIGITS_MAX - first);
}

#endif
