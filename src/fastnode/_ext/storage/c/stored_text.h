/* Text with fields and known words in it, packed to be stored (form: fastnode/_twins/stored_text.py).

Nothing that is read is believed: each token is held against the end of what it lies in, and of the text, before it is
used. */
#ifndef FASTNODE_STORED_TEXT_H
#define FASTNODE_STORED_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "text.h"

enum {
    STORED_MARK = 0x81,        /* the first byte of what is packed */
    STORED_FIELD = 0x80,       /* and the number of its bytes that follow, 0 to 32 */
    STORED_FIELD_COMMA = 0xa1, /* the same with a comma behind it */
    STORED_WORD = 0xc2,        /* and the place of the word */
    STORED_MORE = 0xfe,        /* the place of a word follows, counted from STORED_SHORT_WORDS */
    STORED_RUN = 0xff,         /* a number follows, and so many bytes as they are */
    STORED_SHORT_WORDS = STORED_MORE - STORED_WORD,
    STORED_WORDS_MAX = STORED_SHORT_WORDS + 256,
    STORED_RUN_BYTES_MAX = 255,
    STORED_HEAD_BYTES_MAX = 6, /* the mark and a length of seven bits a byte, the lowest first */
    STORED_QUOTED_BYTES = TEXT_FIELD_HEX_DIGITS + 4, /* a field as text: quotes and 0x */
};

#define STORED_TEXT_BYTES_MAX UINT32_MAX

typedef struct {
    const uint8_t *text;
    size_t length;
} stored_word;

typedef struct {
    stored_word word[STORED_WORDS_MAX];
    size_t count;
    /* Places of the words by their first characters, of those that begin alike the longest first. */
    uint16_t order[STORED_WORDS_MAX];
    uint16_t begin[257];
} stored_words;

/* To be called once the words are there. */
static inline void stored_order(stored_words *words)
{
    size_t count = 0;
    for (unsigned first = 0; first < 256; first++) {
        words->begin[first] = (uint16_t)count;
        for (size_t place = 0; place < words->count; place++) {
            const stored_word *word = &words->word[place];
            if (word->text[0] != first)
                continue;
            size_t at = count++;
            for (; at > words->begin[first] && words->word[words->order[at - 1]].length < word->length; at--)
                words->order[at] = words->order[at - 1];
            words->order[at] = (uint16_t)place;
        }
    }
    words->begin[256] = (uint16_t)count;
}

/* ---- packing ---------------------------------------------------------------------------------- */

/* The quoted field at the start of a text, in small digits; its bytes to `field`. */
static inline int stored_read_field(const uint8_t *text, size_t length, uint8_t *field)
{
    uint8_t again[TEXT_FIELD_HEX_DIGITS];
    if (length < STORED_QUOTED_BYTES || text[1] != '0' || text[2] != 'x' || text[STORED_QUOTED_BYTES - 1] != '"')
        return 0;
    if (!text_read_hex(text + 3, TEXT_FIELD_BYTES, field))
        return 0;
    text_write_hex(field, TEXT_FIELD_BYTES, again);
    return memcmp(again, text + 3, sizeof again) == 0;
}

/* The longest word at the start of a text; -1 for none. */
static inline int stored_find_word(const stored_words *words, const uint8_t *text, size_t length)
{
    for (size_t at = words->begin[*text]; at < words->begin[*text + 1]; at++) {
        const stored_word *word = &words->word[words->order[at]];
        if (word->length <= length && memcmp(text, word->text, word->length) == 0)
            return words->order[at];
    }
    return -1;
}

/* Bytes from one that is no ASCII up to where a field or a word may begin. */
static inline size_t stored_run_length(const uint8_t *text, size_t length)
{
    size_t count = 1;
    while (count < length && count < STORED_RUN_BYTES_MAX && text[count] != '"' && text[count] != '{')
        count++;
    return count;
}

static inline uint8_t *stored_put_length(uint8_t *out, size_t length)
{
    for (; length >= 0x80; length >>= 7)
        *out++ = (uint8_t)(length | 0x80);
    *out++ = (uint8_t)length;
    return out;
}

/* `out` has room for STORED_HEAD_BYTES_MAX and three times the text; returns the bytes written. */
static inline size_t stored_pack(const stored_words *words, const uint8_t *text, size_t length, uint8_t *out)
{
    const uint8_t *end = text + length, *begun = out;
    uint8_t field[TEXT_FIELD_BYTES];
    *out++ = STORED_MARK;
    out = stored_put_length(out, length);
    while (text < end) {
        size_t left = (size_t)(end - text);
        int place;
        if (*text == '"' && stored_read_field(text, left, field)) {
            size_t zeros = 0;
            while (zeros < TEXT_FIELD_BYTES && field[zeros] == 0)
                zeros++;
            text += STORED_QUOTED_BYTES;
            int has_comma = text < end && *text == ',';
            text += has_comma;
            *out++ = (uint8_t)((has_comma ? STORED_FIELD_COMMA : STORED_FIELD) + TEXT_FIELD_BYTES - zeros);
            out = text_put(out, field + zeros, TEXT_FIELD_BYTES - zeros);
        } else if ((place = stored_find_word(words, text, left)) >= 0) {
            text += words->word[place].length;
            if (place < STORED_SHORT_WORDS) {
                *out++ = (uint8_t)(STORED_WORD + place);
            } else {
                *out++ = STORED_MORE;
                *out++ = (uint8_t)(place - STORED_SHORT_WORDS);
            }
        } else if (*text >= 0x80) {
            size_t count = stored_run_length(text, left);
            *out++ = STORED_RUN;
            *out++ = (uint8_t)count;
            out = text_put(out, text, count);
            text += count;
        } else {
            *out++ = *text++;
        }
    }
    return (size_t)(out - begun);
}

/* ---- unpacking -------------------------------------------------------------------------------- */

/* The length of the text that `*packed` is of; moves it behind its head.  -1 for a head that is none. */
static inline int64_t stored_read_head(const uint8_t **packed, const uint8_t *end)
{
    const uint8_t *at = *packed + 1;
    uint64_t length = 0;
    for (int shift = 0; shift < 7 * (STORED_HEAD_BYTES_MAX - 1); shift += 7) {
        if (at >= end)
            return -1;
        length |= (uint64_t)(*at & 0x7f) << shift;
        if (*at++ < 0x80) {
            *packed = at;
            return length <= STORED_TEXT_BYTES_MAX ? (int64_t)length : -1;
        }
    }
    return -1;
}

/* A quoted field from its last `count` bytes. */
static inline uint8_t *stored_put_field(uint8_t *out, const uint8_t *bytes, size_t count)
{
    uint8_t field[TEXT_FIELD_BYTES];
    out = text_put_literal(out, "\"0x");
    if (count == TEXT_FIELD_BYTES) {
        text_write_hex(bytes, TEXT_FIELD_BYTES, out);
    } else {
        memset(field, 0, sizeof field);
        memcpy(field + TEXT_FIELD_BYTES - count, bytes, count);
        text_write_hex(field, TEXT_FIELD_BYTES, out);
    }
    out[TEXT_FIELD_HEX_DIGITS] = '"';
    return out + TEXT_FIELD_HEX_DIGITS + 1;
}

/* The text to `out` of `length` bytes; 0 if the tokens do not make so many. */
static inline int stored_unpack(
    const stored_words *words, const uint8_t *packed, const uint8_t *end, uint8_t *out, size_t length)
{
    uint8_t *out_end = out + length;
    while (packed < end) {
        uint8_t token = *packed++;
        size_t room = (size_t)(out_end - out), left = (size_t)(end - packed);
        if (token < STORED_FIELD) {
            if (room < 1)
                return 0;
            *out++ = token;
        } else if (token < STORED_WORD) {
            int has_comma = token >= STORED_FIELD_COMMA;
            size_t count = token - (has_comma ? STORED_FIELD_COMMA : STORED_FIELD);
            if (left < count || room < STORED_QUOTED_BYTES + (size_t)has_comma)
                return 0;
            out = stored_put_field(out, packed, count);
            packed += count;
            if (has_comma)
                *out++ = ',';
        } else if (token < STORED_RUN) {
            size_t place = token - STORED_WORD;
            if (token == STORED_MORE) {
                if (left < 1)
                    return 0;
                place = STORED_SHORT_WORDS + (size_t)*packed++;
            }
            if (place >= words->count || room < words->word[place].length)
                return 0;
            out = text_put(out, words->word[place].text, words->word[place].length);
        } else {
            size_t count = left ? *packed++ : 0;
            if (count == 0 || left - 1 < count || room < count)
                return 0;
            out = text_put(out, packed, count);
            packed += count;
        }
    }
    return out == out_end;
}

#endif
