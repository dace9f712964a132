/* Memory of the public virtual machine: 2^32 cells for each call, each a tag and a value.
 *
 * A cell is 32 bytes.  A field element has the tag FF and is below the modulus, so that the top bit of its last limb is
 * clear.  An integer is in the lower two limbs, the third is zero, and the last is TAGGED with the tag in its low bits.
 * All zero bytes are the field element zero, which is what a cell is before it is written.
 *
 * Cells live in pages, made when they are first written; programs use low addresses, whose pages are found in a table,
 * the others by hashing.  Pages come from chunks of the machine and go back to it when a call's memory is released.
 *
 * A page is small, because a program chooses where it writes: no instruction makes one for less than 12 gas, so that what
 * the gas of a transaction in a block can buy stays far below the limit, and nodes do not differ in what they can run. */
#ifndef FASTNODE_AVM_MEMORY_H
#define FASTNODE_AVM_MEMORY_H

#include "avm_field.h"

typedef element cell;

enum { TAG_FF, TAG_U1, TAG_U8, TAG_U16, TAG_U32, TAG_U64, TAG_U128 };

#define TAGGED ((uint64_t)1 << 63)
#define TAG_BITS 7

#define MEMORY_CELLS ((uint64_t)1 << 32)
#define PAGE_CELLS 8
#define PAGE_BYTES (PAGE_CELLS * sizeof(cell))
/* What every open call counts before it has written anything: its table of low pages, and what else it takes. */
#define CALL_PAGES 264
#define LOW_PAGES (65536 / PAGE_CELLS)

/* ---- cells ----------------------------------------------------------------------------------- */

INLINE int cell_tag(cell c)
{
    return c.limb[3] & TAGGED ? (int)(c.limb[3] & TAG_BITS) : TAG_FF;
}

INLINE cell cell_integer(int tag, wide value)
{
    return (cell){{(uint64_t)value, (uint64_t)(value >> 64), 0, TAGGED | (uint64_t)tag}};
}

/* The value of a cell that is not FF. */
INLINE wide cell_wide(cell c)
{
    return (wide)c.limb[1] << 64 | c.limb[0];
}

/* The value of any cell, as an element. */
INLINE element cell_value(cell c)
{
    if (c.limb[3] & TAGGED)
        c.limb[3] = 0;
    return c;
}

INLINE int cell_is_field(cell c)
{
    return !(c.limb[3] & TAGGED);
}

/* Two cells with the same word have the same tag. */
INLINE uint64_t cell_tag_word(cell c)
{
    return c.limb[3] & TAGGED ? c.limb[3] : 0;
}

/* ---- pages ----------------------------------------------------------------------------------- */

/* What all open calls have together.  Zeroed is empty. */
typedef struct {
    int64_t limit; /* in pages */
    int64_t used;
    int64_t shared_limit; /* of what all pools with one have together beyond their first pages; 0: no such limit */
    int64_t reserved;     /* of that, for this pool */
    cell *free_pages; /* linked through their first bytes */
    struct chunk *chunks;
    size_t chunk_left; /* pages of the first chunk that were never handed out */
} page_pool;

typedef enum { PAGES_GRANTED, PAGES_LIMIT, PAGES_NONE_LEFT } page_grant;

/* Count pages against the limits. */
page_grant pool_take(page_pool *pool, int64_t pages);
void pool_give_back(page_pool *pool, int64_t pages);
/* Frees every page ever handed out. */
void pool_clear(page_pool *pool);

typedef struct {
    uint32_t number;
    cell *page; /* NULL: free slot */
} page_slot;

typedef struct {
    page_pool *pool;
    cell *low[LOW_PAGES];
    page_slot *slots; /* open addressing; a power of two of them */
    size_t slot_count, slots_used;
    uint32_t low_used; /* all pages used below LOW_PAGES are below this */
    page_slot last;    /* the slot found last */
    page_grant refusal; /* why a cell could not be written */
} avm_memory;

_Static_assert(sizeof(avm_memory) < CALL_PAGES * PAGE_BYTES, "a call counts what its memory takes");

/* NULL when the system has no memory left. */
avm_memory *memory_new(page_pool *pool);
/* Gives back its pages and what a call counts. */
void memory_free(avm_memory *memory);

const cell *memory_find(avm_memory *memory, uint32_t page_number);
/* NULL with a refusal. */
cell *memory_make(avm_memory *memory, uint32_t page_number);

INLINE cell memory_read(avm_memory *memory, uint32_t address)
{
    uint32_t number = address / PAGE_CELLS;
    const cell *page = number < LOW_PAGES ? memory->low[number] : memory_find(memory, number);
    return page ? page[address % PAGE_CELLS] : (cell){{0, 0, 0, 0}};
}

/* Where to write a cell; NULL with a refusal. */
INLINE cell *memory_at(avm_memory *memory, uint32_t address)
{
    uint32_t number = address / PAGE_CELLS;
    cell *page = number < LOW_PAGES ? memory->low[number] : NULL;
    if (!page)
        page = memory_make(memory, number);
    return page ? page + address % PAGE_CELLS : NULL;
}

#endif
