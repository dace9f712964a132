/* The logs of a transaction in the JSON of its effect, as archiver/rendering.py writes it, and texts made of them.

Nothing is searched: each member is where the ones before it end, and a field takes as many characters as any other.
Nothing that is read is believed: a text that differs is none. */
#ifndef FASTNODE_EFFECT_LOGS_H
#define FASTNODE_EFFECT_LOGS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "text.h"

enum {
    LOG_PRIVATE,
    LOG_PUBLIC,
    LOG_QUOTED_BYTES = TEXT_FIELD_HEX_DIGITS + 4, /* a field: quotes and 0x */
    LOG_FIELD_BYTES = LOG_QUOTED_BYTES + 1,       /* and the comma or bracket behind it */
};

typedef struct {
    const uint8_t *tx_hash, *first_nullifier; /* quoted; NULL for no nullifier */
    const uint8_t *note_hashes;               /* the array */
    size_t note_hashes_length;
    const uint8_t *logs[2];                   /* the first log of a kind, NULL for none */
    const uint8_t *end;
} effect_text;

typedef struct {
    const uint8_t *contract; /* quoted; of a public log */
    const uint8_t *fields;   /* the first one, quoted */
    size_t all, emitted;     /* numbers of fields */
    const uint8_t *next;     /* the log behind it, NULL for none */
} effect_log;

/* ---- reading ---------------------------------------------------------------------------------- */

static inline int log_skip(const uint8_t **at, const uint8_t *end, const char *literal)
{
    size_t length = strlen(literal);
    if ((size_t)(end - *at) < length || memcmp(*at, literal, length) != 0)
        return 0;
    *at += length;
    return 1;
}

static inline int log_skip_field(const uint8_t **at, const uint8_t *end)
{
    const uint8_t *field = *at;
    if (end - field < LOG_FIELD_BYTES || field[0] != '"' || field[LOG_QUOTED_BYTES - 1] != '"')
        return 0;
    *at += LOG_QUOTED_BYTES;
    return 1;
}

/* Up to a comma: a number, or a text without one. */
static inline int log_skip_value(const uint8_t **at, const uint8_t *end)
{
    const uint8_t *comma = memchr(*at, ',', (size_t)(end - *at));
    if (comma == NULL)
        return 0;
    *at = comma;
    return 1;
}

/* From behind the bracket of an array of fields to behind its other one. */
static inline int log_skip_fields(const uint8_t **at, const uint8_t *end, size_t *count)
{
    *count = 0;
    if (*at < end && **at == ']') {
        (*at)++;
        return 1;
    }
    for (;;) {
        if (!log_skip_field(at, end))
            return 0;
        (*count)++;
        uint8_t after = *(*at)++;
        if (after == ']')
            return 1;
        if (after != ',')
            return 0;
    }
}

/* The log at `at`; moves it behind the log, or behind the bracket of the array for the last one. */
static inline int log_read(int kind, const uint8_t **at, const uint8_t *end, effect_log *log)
{
    if (kind == LOG_PUBLIC) {
        if (!log_skip(at, end, "{\"contractAddress\":"))
            return 0;
        log->contract = *at;
        if (!log_skip_field(at, end) || !log_skip(at, end, ",\"fields\":["))
            return 0;
        log->fields = *at;
        if (!log_skip_fields(at, end, &log->all))
            return 0;
        log->emitted = log->all;
    } else {
        if (!log_skip(at, end, "{\"fields\":["))
            return 0;
        log->contract = NULL;
        log->fields = *at;
        if (!log_skip_fields(at, end, &log->all) || !log_skip(at, end, ",\"emittedLength\":"))
            return 0;
        log->emitted = 0;
        for (; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
            log->emitted = 10 * log->emitted + (size_t)(**at - '0');
            if (log->emitted > log->all)
                return 0;
        }
    }
    if (end - *at < 2 || *(*at)++ != '}')
        return 0;
    uint8_t after = *(*at)++;
    log->next = after == ',' ? *at : NULL;
    return after == ',' || after == ']';
}

static inline int log_skip_writes(const uint8_t **at, const uint8_t *end)
{
    if (*at < end && **at == ']') {
        (*at)++;
        return 1;
    }
    for (;;) {
        if (!log_skip(at, end, "{\"leafSlot\":") || !log_skip_field(at, end) || !log_skip(at, end, ",\"value\":") ||
            !log_skip_field(at, end) || end - *at < 2 || *(*at)++ != '}')
            return 0;
        uint8_t after = *(*at)++;
        if (after == ']')
            return 1;
        if (after != ',')
            return 0;
    }
}

static inline int effect_read(const uint8_t *text, size_t length, effect_text *effect)
{
    const uint8_t *at = text, *end = text + length;
    effect_log log;
    size_t count;
    effect->end = end;
    if (!log_skip(&at, end, "{\"revertCode\":") || !log_skip_value(&at, end) || !log_skip(&at, end, ",\"txHash\":"))
        return 0;
    effect->tx_hash = at;
    if (!log_skip_field(&at, end) || !log_skip(&at, end, ",\"transactionFee\":") || !log_skip_value(&at, end) ||
        !log_skip(&at, end, ",\"noteHashes\":["))
        return 0;
    effect->note_hashes = at - 1;
    if (!log_skip_fields(&at, end, &count))
        return 0;
    effect->note_hashes_length = (size_t)(at - effect->note_hashes);
    if (!log_skip(&at, end, ",\"nullifiers\":["))
        return 0;
    effect->first_nullifier = at;
    if (!log_skip_fields(&at, end, &count))
        return 0;
    if (count == 0)
        effect->first_nullifier = NULL;
    if (!log_skip(&at, end, ",\"l2ToL1Msgs\":[") || !log_skip_fields(&at, end, &count) ||
        !log_skip(&at, end, ",\"publicDataWrites\":[") || !log_skip_writes(&at, end) ||
        !log_skip(&at, end, ",\"privateLogs\":["))
        return 0;
    if (at < end && *at == ']') {
        effect->logs[LOG_PRIVATE] = NULL;
        at++;
    } else {
        effect->logs[LOG_PRIVATE] = at;
        do {
            if (!log_read(LOG_PRIVATE, &at, end, &log))
                return 0;
        } while (log.next != NULL);
    }
    if (!log_skip(&at, end, ",\"publicLogs\":["))
        return 0;
    effect->logs[LOG_PUBLIC] = at < end && *at == ']' ? NULL : at;
    return 1;
}

/* A place among the logs of a kind, so that those of one transaction are read once when they are asked for in order. */
typedef struct {
    int kind;
    size_t index; /* of the log at `at` */
    const uint8_t *at;
} log_cursor;

static inline void log_begin(log_cursor *cursor, const effect_text *effect, int kind)
{
    cursor->kind = kind;
    cursor->index = 0;
    cursor->at = effect->logs[kind];
}

/* The log of a kind with this index; 0 if there is none. */
static inline int log_find(log_cursor *cursor, const effect_text *effect, int kind, size_t index, effect_log *log)
{
    if (cursor->kind != kind || cursor->index > index)
        log_begin(cursor, effect, kind);
    while (cursor->at != NULL) {
        const uint8_t *at = cursor->at;
        if (!log_read(kind, &at, effect->end, log))
            return 0;
        if (cursor->index == index)
            return 1;
        cursor->at = log->next;
        cursor->index++;
    }
    log_begin(cursor, effect, kind);
    return 0;
}

/* ---- writing ---------------------------------------------------------------------------------- */

#define LOG_SCOPED_LITERALS \
    "{\"txHash\":" ",\"blockNumber\":" ",\"blockTimestamp\":\"" "\",\"logData\":" ",\"noteHashes\":" ",\"firstNullifier\":" "}"
#define LOG_PUBLIC_LITERALS \
    "{\"id\":{\"blockNumber\":" ",\"blockHash\":\"0x" "\",\"txHash\":" ",\"txIndex\":" ",\"logIndex\":" \
    "},\"log\":{\"contractAddress\":" ",\"fields\":" "}}"

static inline size_t log_number_length(uint64_t number)
{
    size_t length = 1;
    for (; number >= 10; number /= 10)
        length++;
    return length;
}

static inline size_t log_fields_length(const effect_log *log)
{
    return log->emitted ? 1 + LOG_FIELD_BYTES * log->emitted : 2;
}

static inline uint8_t *log_put_fields(uint8_t *out, const effect_log *log)
{
    *out++ = '[';
    if (log->emitted)
        out = text_put(out, log->fields, LOG_FIELD_BYTES * log->emitted - 1);
    *out++ = ']';
    return out;
}

static inline size_t log_scoped_length(const effect_text *effect, const effect_log *log, uint64_t block, uint64_t timestamp)
{
    return sizeof LOG_SCOPED_LITERALS - 1 + 2 * LOG_QUOTED_BYTES + log_number_length(block) +
           log_number_length(timestamp) + log_fields_length(log) + effect->note_hashes_length;
}

/* TxScopedL2Log. */
static inline uint8_t *log_put_scoped(
    uint8_t *out, const effect_text *effect, const effect_log *log, uint64_t block, uint64_t timestamp)
{
    static const char NO_NULLIFIER[] = "\"0x0000000000000000000000000000000000000000000000000000000000000000\"";
    out = text_put_literal(out, "{\"txHash\":");
    out = text_put(out, effect->tx_hash, LOG_QUOTED_BYTES);
    out = text_put_literal(out, ",\"blockNumber\":");
    out = text_put_number(out, block);
    out = text_put_literal(out, ",\"blockTimestamp\":\"");
    out = text_put_number(out, timestamp);
    out = text_put_literal(out, "\",\"logData\":");
    out = log_put_fields(out, log);
    out = text_put_literal(out, ",\"noteHashes\":");
    out = text_put(out, effect->note_hashes, effect->note_hashes_length);
    out = text_put_literal(out, ",\"firstNullifier\":");
    if (effect->first_nullifier != NULL)
        out = text_put(out, effect->first_nullifier, LOG_QUOTED_BYTES);
    else
        out = text_put_literal(out, NO_NULLIFIER);
    *out++ = '}';
    return out;
}

static inline size_t log_public_length(const effect_log *log, uint64_t block, uint64_t tx_index, uint64_t log_index)
{
    return sizeof LOG_PUBLIC_LITERALS - 1 + 2 * LOG_QUOTED_BYTES + TEXT_FIELD_HEX_DIGITS + log_number_length(block) +
           log_number_length(tx_index) + log_number_length(log_index) + log_fields_length(log);
}

/* A public log with its id. */
static inline uint8_t *log_put_public(
    uint8_t *out, const effect_text *effect, const effect_log *log, const uint8_t *block_hash, uint64_t block,
    uint64_t tx_index, uint64_t log_index)
{
    out = text_put_literal(out, "{\"id\":{\"blockNumber\":");
    out = text_put_number(out, block);
    out = text_put_literal(out, ",\"blockHash\":\"0x");
    out = text_put_hex(out, block_hash, TEXT_FIELD_BYTES);
    out = text_put_literal(out, "\",\"txHash\":");
    out = text_put(out, effect->tx_hash, LOG_QUOTED_BYTES);
    out = text_put_literal(out, ",\"txIndex\":");
    out = text_put_number(out, tx_index);
    out = text_put_literal(out, ",\"logIndex\":");
    out = text_put_number(out, log_index);
    out = text_put_literal(out, "},\"log\":{\"contractAddress\":");
    out = text_put(out, log->contract, LOG_QUOTED_BYTES);
    out = text_put_literal(out, ",\"fields\":");
    out = log_put_fields(out, log);
    return text_put_literal(out, "}}");
}

#endif
