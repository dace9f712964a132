#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "avm_memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

/* The first chunk is enough for most calls and comes from malloc, and so do small tables of slots.  The others are the
 * system's own, because malloc would keep them for each thread that ever needed much. */
#define FIRST_CHUNK_PAGES 256
#define CHUNK_PAGES 4096
/* Of each pool with a shared limit, 16 MiB: no other execution can take them. */
#define OWN_PAGES 65536
#define SLOTS_AT_FIRST 16
#define SLOTS_OF_MALLOC 4096

struct chunk {
    struct chunk *next;
    size_t mapped; /* bytes that are the system's own; 0: malloc's */
    cell cells[];
};

/* ---- pool ------------------------------------------------------------------------------------ */

/* Pages that all pools with a shared limit have reserved. */
static _Atomic int64_t shared_pages;

static page_grant pool_reserve(page_pool *pool)
{
    if (atomic_fetch_add(&shared_pages, CHUNK_PAGES) + CHUNK_PAGES > pool->shared_limit) {
        atomic_fetch_sub(&shared_pages, CHUNK_PAGES);
        return PAGES_NONE_LEFT;
    }
    pool->reserved += CHUNK_PAGES;
    return PAGES_GRANTED;
}

page_grant pool_take(page_pool *pool, int64_t pages)
{
    pool->used += pages;
    if (pool->used > pool->limit)
        return PAGES_LIMIT;
    while (pool->shared_limit && pool->used > pool->reserved + OWN_PAGES)
        if (pool_reserve(pool) != PAGES_GRANTED)
            return PAGES_NONE_LEFT;
    return PAGES_GRANTED;
}

void pool_give_back(page_pool *pool, int64_t pages)
{
    pool->used -= pages;
}

void pool_clear(page_pool *pool)
{
    while (pool->chunks) {
        struct chunk *chunk = pool->chunks;
        pool->chunks = chunk->next;
        if (chunk->mapped)
            munmap(chunk, chunk->mapped);
        else
            free(chunk);
    }
    pool->free_pages = NULL;
    pool->chunk_left = 0;
    pool->used = 0;
    atomic_fetch_sub(&shared_pages, pool->reserved);
    pool->reserved = 0;
}

/* Zeros of the system; NULL when it has none left. */
static void *map_zeros(size_t bytes)
{
    void *zeros = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return zeros == MAP_FAILED ? NULL : zeros;
}

static struct chunk *map_chunk(size_t bytes)
{
    struct chunk *chunk = map_zeros(bytes);
    if (chunk)
        chunk->mapped = bytes;
    return chunk;
}

static int add_chunk(page_pool *pool)
{
    size_t pages = pool->chunks ? CHUNK_PAGES : FIRST_CHUNK_PAGES;
    size_t bytes = sizeof(struct chunk) + pages * PAGE_BYTES;
    struct chunk *chunk = pool->chunks ? map_chunk(bytes) : calloc(1, bytes);
    if (!chunk)
        return 0;
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    pool->chunk_left = pages;
    return 1;
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
    if (!pool->chunk_left && !add_chunk(pool))
        return NULL;
    return pool->chunks->cells + --pool->chunk_left * PAGE_CELLS;
}

static void pool_keep(page_pool *pool, cell *page)
{
    memcpy(page, &pool->free_pages, sizeof pool->free_pages);
    pool->free_pages = page;
}

/* ---- tables of slots ------------------------------------------------------------------------- */

static page_slot *slots_new(size_t count)
{
    return count > SLOTS_OF_MALLOC ? map_zeros(count * sizeof(page_slot)) : calloc(count, sizeof(page_slot));
}

static void slots_free(page_slot *slots, size_t count)
{
    if (count > SLOTS_OF_MALLOC)
        munmap(slots, count * sizeof *slots);
    else
        free(slots);
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
    slots_free(memory->slots, memory->slot_count);
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
    page_slot *slots = slots_new(count);
    if (!slots)
        return 0;
    page_slot *before = memory->slots;
    size_t count_before = memory->slot_count;
    memory->slots = slots;
    memory->slot_count = count;
    for (size_t i = 0; i < count_before; i++)
        if (before[i].page)
            *slot_of(memory, before[i].number) = before[i];
    slots_free(before, count_before);
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
