#include "avm_memory.h"

#include <stdlib.h>

#define CHUNK_PAGES 64
#define SLOTS_AT_FIRST 16

struct chunk {
    struct chunk *next;
    cell pages[CHUNK_PAGES][PAGE_CELLS];
};

/* ---- pool ------------------------------------------------------------------------------------ */

page_grant pool_take(page_pool *pool, int64_t pages)
{
    pool->used += pages;
    return pool->used > pool->limit ? PAGES_LIMIT : PAGES_GRANTED;
}

void pool_give_back(page_pool *pool, int64_t pages)
{
    pool->used -= pages;
}

void pool_clear(page_pool *pool)
{
    while (pool->chunks) {
        struct chunk *next = pool->chunks->next;
        free(pool->chunks);
        pool->chunks = next;
    }
    pool->free_pages = NULL;
    pool->chunk_left = 0;
    pool->used = 0;
}

/* A page of zeros. */
static cell *pool_page(page_pool *pool)
{
    cell *page = pool->free_pages;
    if (page) {
        memcpy(&pool->free_pages, page, sizeof pool->free_pages);
        memset(page, 0, PAGE_BYTES);
        return page;
    }
    if (!pool->chunk_left) {
        struct chunk *chunk = calloc(1, sizeof *chunk);
        if (!chunk)
            return NULL;
        chunk->next = pool->chunks;
        pool->chunks = chunk;
        pool->chunk_left = CHUNK_PAGES;
    }
    return pool->chunks->pages[--pool->chunk_left];
}

static void pool_keep(page_pool *pool, cell *page)
{
    memcpy(page, &pool->free_pages, sizeof pool->free_pages);
    pool->free_pages = page;
}

/* ---- memory ---------------------------------------------------------------------------------- */

avm_memory *memory_new(page_pool *pool)
{
    avm_memory *memory = calloc(1, sizeof *memory);
    if (memory)
        memory->pool = pool;
    return memory;
}

void memory_free(avm_memory *memory)
{
    page_pool *pool = memory->pool;
    int64_t pages = CALL_PAGES;
    for (uint32_t number = 0; number < memory->low_used; number++)
        if (memory->low[number]) {
            pool_keep(pool, memory->low[number]);
            pages++;
        }
    for (size_t i = 0; i < memory->slot_count; i++)
        if (memory->slots[i].page) {
            pool_keep(pool, memory->slots[i].page);
            pages++;
        }
    pool_give_back(pool, pages);
    free(memory->slots);
    free(memory);
}

/* The slot of a page, or the free one where it belongs; there is always a free one. */
static page_slot *slot_of(const avm_memory *memory, uint32_t number)
{
    size_t mask = memory->slot_count - 1;
    size_t i = (number * UINT64_C(0x9E3779B97F4A7C15) >> 32) & mask;
    while (memory->slots[i].page && memory->slots[i].number != number)
        i = (i + 1) & mask;
    return memory->slots + i;
}

const cell *memory_find(avm_memory *memory, uint32_t number)
{
    if (!memory->slot_count)
        return NULL;
    if (!memory->last.page || memory->last.number != number)
        memory->last = *slot_of(memory, number);
    return memory->last.page;
}

/* At most half of the slots are used. */
static int grow_slots(avm_memory *memory)
{
    if (2 * (memory->slots_used + 1) <= memory->slot_count)
        return 1;
    size_t count = memory->slot_count ? 2 * memory->slot_count : SLOTS_AT_FIRST;
    page_slot *slots = calloc(count, sizeof *slots);
    if (!slots)
        return 0;
    page_slot *before = memory->slots;
    size_t count_before = memory->slot_count;
    memory->slots = slots;
    memory->slot_count = count;
    for (size_t i = 0; i < count_before; i++)
        if (before[i].page)
            *slot_of(memory, before[i].number) = before[i];
    free(before);
    return 1;
}

cell *memory_make(avm_memory *memory, uint32_t number)
{
    int is_low = number < LOW_PAGES;
    if (!is_low && memory_find(memory, number))
        return memory->last.page;
    memory->refusal = pool_take(memory->pool, 1);
    if (memory->refusal != PAGES_GRANTED)
        return NULL;
    memory->refusal = PAGES_NONE_LEFT;
    if (!is_low && !grow_slots(memory))
        return NULL;
    cell *page = pool_page(memory->pool);
    if (!page)
        return NULL;
    if (is_low) {
        memory->low[number] = page;
        if (number >= memory->low_used)
            memory->low_used = number + 1;
    } else {
        memory->last = (page_slot){number, page};
        *slot_of(memory, number) = memory->last;
        memory->slots_used++;
    }
    memory->refusal = PAGES_GRANTED;
    return page;
}
