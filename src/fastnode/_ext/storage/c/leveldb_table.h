/* Checks every checksum of a LevelDB table (layout: fastnode/_twins/leveldb_table.py).

Nothing in the table is believed: each length is held against the end of what it lies in before it is used. */
#ifndef FASTNODE_LEVELDB_TABLE_H
#define FASTNODE_LEVELDB_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    TABLE_WHOLE = 0,
    TABLE_NO_FOOTER = 1,     /* too short, or without the mark at its end */
    TABLE_OUTSIDE = 2,       /* a handle leads out of the file */
    TABLE_CHECKSUM = 3,      /* a block is not what was written */
    TABLE_MALFORMED = 4,     /* an index with a right checksum that is none */
    TABLE_COMPRESSED = 5,    /* an index that is packed */
    TABLE_OVERLAP = 6,       /* a block that begins before the end of the one before it */
};

enum {
    TABLE_FOOTER_BYTES = 48,
    TABLE_TRAILER_BYTES = 5, /* kind u8, masked crc32c u32 */
    TABLE_PACKED = 1,        /* the kind of a block packed with snappy */
};

#define TABLE_MAGIC 0xdb4775248b80fb57ULL
#define CRC32C_POLYNOMIAL 0x82f63b78U
#define CRC32C_MASK 0xa282ead8U

typedef struct {
    const uint8_t *at, *end;
} table_span;

typedef struct {
    uint64_t offset, size;
} table_handle;

/* ---- crc32c ---- */

static uint32_t crc32c_table[8][256];

static void crc32c_prepare(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ CRC32C_POLYNOMIAL : crc >> 1;
        crc32c_table[0][byte] = crc;
    }
    for (uint32_t byte = 0; byte < 256; byte++)
        for (int row = 1; row < 8; row++)
            crc32c_table[row][byte] =
                crc32c_table[row - 1][byte] >> 8 ^ crc32c_table[0][crc32c_table[row - 1][byte] & 0xff];
}

static uint32_t crc32c_little(const uint8_t *data)
{
    return (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
}

/* Eight bytes a step from tables: memory is slower than this where it matters. */
static uint32_t crc32c_portable(const uint8_t *data, size_t length)
{
    uint32_t crc = 0xffffffffU;
    for (; length >= 8; length -= 8, data += 8) {
        uint32_t low = crc ^ crc32c_little(data), high = crc32c_little(data + 4);
        crc = crc32c_table[7][low & 0xff] ^ crc32c_table[6][low >> 8 & 0xff] ^ crc32c_table[5][low >> 16 & 0xff] ^
              crc32c_table[4][low >> 24] ^ crc32c_table[3][high & 0xff] ^ crc32c_table[2][high >> 8 & 0xff] ^
              crc32c_table[1][high >> 16 & 0xff] ^ crc32c_table[0][high >> 24];
    }
    for (; length; length--)
        crc = crc >> 8 ^ crc32c_table[0][(crc ^ *data++) & 0xff];
    return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(const uint8_t *data, size_t length)
{
    uint64_t crc = 0xffffffffU, word;
    for (; length >= 8; length -= 8, data += 8) {
        memcpy(&word, data, 8);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    uint32_t rest = (uint32_t)crc;
    for (; length; length--)
        rest = __builtin_ia32_crc32qi(rest, *data++);
    return ~rest;
}
#endif

static uint32_t crc32c(const uint8_t *data, size_t length)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return crc32c_sse42(data, length);
#endif
    return crc32c_portable(data, length);
}

/* ---- parts of a table ---- */

/* 0 when the number does not end within the span, or is longer than 64 bits. */
static int table_varint(table_span *span, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && span->at < span->end; shift += 7) {
        uint8_t byte = *span->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return 1;
    }
    return 0;
}

static int table_read_handle(table_span *span, table_handle *handle)
{
    return table_varint(span, &handle->offset) && table_varint(span, &handle->size);
}

/* Whether the block of a handle is what was written. */
static int table_check_block(const uint8_t *file, size_t length, table_handle handle)
{
    uint64_t room = length - TABLE_FOOTER_BYTES;
    if (room < TABLE_TRAILER_BYTES || handle.size > room - TABLE_TRAILER_BYTES ||
        handle.offset > room - TABLE_TRAILER_BYTES - handle.size)
        return TABLE_OUTSIDE;
    const uint8_t *block = file + handle.offset;
    uint32_t stored = crc32c_little(block + handle.size + 1) - CRC32C_MASK;
    stored = stored >> 17 | stored << 15;
    return crc32c(block, handle.size + 1) == stored ? TABLE_WHOLE : TABLE_CHECKSUM;
}

/* Checks the block of `handle`, and all blocks that its entries lead to.  These lie one behind the other, as they were
written: with entries that lead to one block again and again a small table would take hours to check, and to read. */
static int table_check_index(const uint8_t *file, size_t length, table_handle handle, uint64_t *where)
{
    *where = handle.offset;
    int fault = table_check_block(file, length, handle);
    if (fault)
        return fault;
    const uint8_t *block = file + handle.offset;
    if (block[handle.size] == TABLE_PACKED)
        return TABLE_COMPRESSED;
    if (handle.size < 4)
        return TABLE_MALFORMED;
    uint64_t restarts = crc32c_little(block + handle.size - 4);
    if (restarts > (handle.size - 4) / 4)
        return TABLE_MALFORMED;
    table_span entries = {block, block + handle.size - 4 - 4 * restarts};
    uint64_t free_from = 0;
    while (entries.at < entries.end) {
        uint64_t shared, unshared, value;
        if (!table_varint(&entries, &shared) || !table_varint(&entries, &unshared) ||
            !table_varint(&entries, &value) || unshared > (uint64_t)(entries.end - entries.at) ||
            value > (uint64_t)(entries.end - entries.at) - unshared)
            return TABLE_MALFORMED;
        table_span content = {entries.at + unshared, entries.at + unshared + value};
        entries.at = content.end;
        table_handle child;
        if (!table_read_handle(&content, &child))
            return TABLE_MALFORMED;
        *where = child.offset;
        if (child.offset < free_from)
            return TABLE_OVERLAP;
        fault = table_check_block(file, length, child);
        if (fault)
            return fault;
        free_from = child.offset + child.size + TABLE_TRAILER_BYTES;
        *where = handle.offset;
    }
    return TABLE_WHOLE;
}

/* TABLE_WHOLE, or what is wrong first and at which byte. */
static int table_check(const uint8_t *file, size_t length, uint64_t *where)
{
    *where = length;
    if (length < TABLE_FOOTER_BYTES)
        return TABLE_NO_FOOTER;
    *where = length - TABLE_FOOTER_BYTES;
    table_span footer = {file + *where, file + length - 8};
    uint64_t magic = (uint64_t)crc32c_little(file + length - 4) << 32 | crc32c_little(file + length - 8);
    table_handle filters, index;
    if (magic != TABLE_MAGIC || !table_read_handle(&footer, &filters) || !table_read_handle(&footer, &index))
        return TABLE_NO_FOOTER;
    int fault = table_check_index(file, length, filters, where);
    return fault ? fault : table_check_index(file, length, index, where);
}

#endif
