/* Padded base64.  Apart from text.h: what compilers have to read for the widest vectors is longer than a kernel. */
#ifndef FASTNODE_BASE64_H
#define FASTNODE_BASE64_H

#include <stddef.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static const char TEXT_BASE64_DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static inline size_t text_base64_length(size_t size)
{
    return (size + 2) / 3 * 4;
}

#if defined(__x86_64__)
/* Twelve bytes at a time, as long as sixteen can be read; returns how many it has taken.
 *
 * Three bytes a b c become two words of 16 bits, ab and bc, and the four digits of six bits are
 * ab >> 10, (ab >> 4) & 63, (bc >> 6) & 63 and bc & 63.  A product shifts each word by an amount of its own. */
__attribute__((target("ssse3"))) static inline size_t text_write_base64_ssse3(const uint8_t *data, size_t size,
                                                                              uint8_t *out)
{
    const __m128i spread = _mm_setr_epi8(1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10);
    /* From a digit to its character: A to Z, then a to z, then the ten numerals, + and /. */
    const __m128i steps = _mm_setr_epi8('a' - 26, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52,
                                        '0' - 52, '0' - 52, '0' - 52, '+' - 62, '/' - 63, 'A', 0, 0);
    size_t taken = 0;
    for (; size - taken >= 16; taken += 12, out += 16) {
        __m128i words = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(data + taken)), spread);
        __m128i even = _mm_and_si128(_mm_mulhi_epu16(words, _mm_set1_epi32(1 << 26 | 1 << 6)), _mm_set1_epi16(63));
        __m128i odd = _mm_and_si128(_mm_mullo_epi16(words, _mm_set1_epi32(1 << 24 | 1 << 4)), _mm_set1_epi16(63 << 8));
        __m128i digits = _mm_or_si128(even, odd);
        __m128i kind = _mm_subs_epu8(digits, _mm_set1_epi8(51)); /* 0 for letters, 1 to 12 for the others */
        __m128i is_upper = _mm_cmplt_epi8(digits, _mm_set1_epi8(26));
        kind = _mm_or_si128(kind, _mm_and_si128(is_upper, _mm_set1_epi8(13)));
        _mm_storeu_si128((__m128i *)out, _mm_add_epi8(digits, _mm_shuffle_epi8(steps, kind)));
    }
    return taken;
}

/* All but the last one or two bytes, 48 at a time; returns how many it has taken.  The three bytes a b c become b a c b,
 * out of which each digit is shifted to a byte of its own; the table looks at its lower six bits. */
__attribute__((target("avx512f,avx512bw,avx512vbmi"))) static inline size_t text_write_base64_vbmi(
    const uint8_t *data, size_t size, uint8_t *out)
{
    const __m512i shifts = _mm512_set1_epi64(0x3036242a1016040a), table = _mm512_loadu_si512(TEXT_BASE64_DIGITS);
    const __m512i spread = _mm512_setr_epi32(
        0x01020001, 0x04050304, 0x07080607, 0x0a0b090a, 0x0d0e0c0d, 0x10110f10, 0x13141213, 0x16171516,
        0x191a1819, 0x1c1d1b1c, 0x1f201e1f, 0x22232122, 0x25262425, 0x28292728, 0x2b2c2a2b, 0x2e2f2d2e);
    size_t taken = 0;
    while (size - taken >= 3) {
        size_t triples = size - taken >= 48 ? 16 : (size - taken) / 3;
        __m512i bytes = _mm512_maskz_loadu_epi8(((uint64_t)1 << 3 * triples) - 1, data + taken);
        __m512i digits = _mm512_multishift_epi64_epi8(shifts, _mm512_permutexvar_epi8(spread, bytes));
        __m512i characters = _mm512_permutexvar_epi8(digits, table);
        _mm512_mask_storeu_epi8(out + taken / 3 * 4, ~(uint64_t)0 >> (64 - 4 * triples), characters);
        taken += 3 * triples;
    }
    return taken;
}
#endif

/* Padded base64 to `out` of text_base64_length(size) characters, without vectors of 512 bits. */
static inline void text_write_base64_narrow(const uint8_t *data, size_t size, uint8_t *out)
{
#if defined(__x86_64__)
    if (size >= 16 && __builtin_cpu_supports("ssse3")) {
        size_t taken = text_write_base64_ssse3(data, size, out);
        data += taken;
        size -= taken;
        out += taken / 3 * 4;
    }
#endif
    for (; size > 0; out += 4) {
        size_t taken = size < 3 ? size : 3;
        unsigned bits = (unsigned)data[0] << 16 | (taken > 1 ? (unsigned)data[1] << 8 : 0) | (taken > 2 ? data[2] : 0);
        out[0] = (uint8_t)TEXT_BASE64_DIGITS[bits >> 18];
        out[1] = (uint8_t)TEXT_BASE64_DIGITS[bits >> 12 & 63];
        out[2] = (uint8_t)(taken > 1 ? TEXT_BASE64_DIGITS[bits >> 6 & 63] : '=');
        out[3] = (uint8_t)(taken > 2 ? TEXT_BASE64_DIGITS[bits & 63] : '=');
        data += taken;
        size -= taken;
    }
}

/* Padded base64 to `out` of text_base64_length(size) characters. */
static inline void text_write_base64(const uint8_t *data, size_t size, uint8_t *out)
{
    size_t taken = 0;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bw"))
        taken = text_write_base64_vbmi(data, size, out);
#endif
    text_write_base64_narrow(data + taken, size - taken, out + taken / 3 * 4);
}

/* 0 to 63, or 64 for a character that is no digit. */
static inline unsigned text_base64_value(uint8_t character)
{
    unsigned upper = (unsigned)character - 'A', lower = (unsigned)character - 'a', decimal = (unsigned)character - '0';
    return upper < 26 ? upper : lower < 26 ? lower + 26 : decimal < 10 ? decimal + 52
         : character == '+' ? 62 : character == '/' ? 63 : 64;
}

/* Bytes that padded base64 of `count` characters has, or -1 when that is no possible count. */
static inline ptrdiff_t text_base64_size(const uint8_t *text, size_t count)
{
    if (count % 4)
        return -1;
    size_t padding = 0;
    if (count > 0)
        padding = text[count - 1] != '=' ? 0 : text[count - 2] != '=' ? 1 : 2;
    return (ptrdiff_t)(count / 4 * 3 - padding);
}

#if defined(__x86_64__)
/* Of the characters above `before` and below `after`: by how much to move each to its digit; 0 for the others. */
__attribute__((target("ssse3"))) static inline __m128i text_base64_step(__m128i characters, char before, char after,
                                                                        char step)
{
    __m128i above = _mm_cmpgt_epi8(characters, _mm_set1_epi8(before));
    __m128i below = _mm_cmplt_epi8(characters, _mm_set1_epi8(after));
    return _mm_and_si128(_mm_and_si128(above, below), _mm_set1_epi8(step));
}

/* Sixteen characters at a time, as long as sixteen bytes can be written; returns how many bytes it has written,
 * and stops in front of a character that is no digit.  No step is 0, so a character without one is none. */
__attribute__((target("ssse3"))) static inline size_t text_read_base64_ssse3(const uint8_t *text, size_t size,
                                                                             uint8_t *out)
{
    const __m128i order = _mm_setr_epi8(2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, -1, -1, -1, -1);
    size_t written = 0;
    for (; size - written >= 16; text += 16, written += 12) {
        __m128i characters = _mm_loadu_si128((const __m128i *)text);
        __m128i upper = text_base64_step(characters, 'A' - 1, 'Z' + 1, -'A');
        __m128i lower = text_base64_step(characters, 'a' - 1, 'z' + 1, 26 - 'a');
        __m128i decimal = text_base64_step(characters, '0' - 1, '9' + 1, 52 - '0');
        __m128i plus = text_base64_step(characters, '+' - 1, '+' + 1, 62 - '+');
        __m128i slash = text_base64_step(characters, '/' - 1, '/' + 1, 63 - '/');
        __m128i step = _mm_or_si128(_mm_or_si128(upper, lower), _mm_or_si128(decimal, _mm_or_si128(plus, slash)));
        if (_mm_movemask_epi8(_mm_cmpeq_epi8(step, _mm_setzero_si128())))
            break;
        __m128i digits = _mm_add_epi8(characters, step);
        /* Two digits to twelve bits, and two of those to twenty-four. */
        __m128i pairs = _mm_maddubs_epi16(digits, _mm_set1_epi16(1 << 8 | 1 << 6));
        __m128i groups = _mm_madd_epi16(pairs, _mm_set1_epi32(1 << 16 | 1 << 12));
        _mm_storeu_si128((__m128i *)(out + written), _mm_shuffle_epi8(groups, order));
    }
    return written;
}
#endif

/* `size` = text_base64_size bytes of the text; 0 if a character is no digit.  Spare bits are ignored. */
static inline int text_read_base64(const uint8_t *text, size_t size, uint8_t *out)
{
    unsigned seen = 0;
#if defined(__x86_64__)
    if (size >= 16 && __builtin_cpu_supports("ssse3")) {
        size_t written = text_read_base64_ssse3(text, size, out);
        text += written / 3 * 4;
        out += written;
        size -= written;
    }
#endif
    for (; size > 0; text += 4) {
        size_t taken = size < 3 ? size : 3;
        unsigned bits = 0;
        for (size_t i = 0; i < 4; i++) {
            unsigned value = i <= taken ? text_base64_value(text[i]) : 0;
            seen |= value;
            bits = bits << 6 | (value & 63);
        }
        for (size_t i = 0; i < taken; i++)
            out[i] = (uint8_t)(bits >> (16 - 8 * i));
        out += taken;
        size -= taken;
    }
    return seen < 64;
}

#endif
