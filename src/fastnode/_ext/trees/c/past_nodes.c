#include "past_nodes.h"

#include <stdlib.h>
#include <string.h>

#include "numbers.h"

#define FREE_SLOT UINT64_MAX
#define FIRST_CAPACITY 1024u

void past_nodes_init(past_nodes *past, uint64_t entries_max)
{
    memset(past, 0, sizeof *past);
    if (entries_max) {
        past->limit = 1;
        while (past->limit <= entries_max / 2)
            past->limit *= 2;
    }
    past->oldest = past->next = 1;
}

void past_nodes_free(past_nodes *past)
{
    free(past->ring);
    free(past->keys);
    free(past->heads);
    memset(past, 0, sizeof *past);
}

static inline past_node *entry_of(const past_nodes *past, uint64_t sequence)
{
    return &past->ring[sequence & (past->capacity - 1)];
}

/* Where `key` is in the table, or would go; there is always a free slot. */
static uint64_t slot_of(const past_nodes *past, uint64_t key)
{
    uint64_t slot = (key * UINT64_C(0x9E3779B97F4A7C15)) >> 20;
    for (;; slot++) {
        slot &= past->slots - 1;
        if (past->keys[slot] == key || past->keys[slot] == FREE_SLOT)
            return slot;
    }
}

static int enlarge_ring(past_nodes *past)
{
    uint64_t capacity = 2 * past->capacity;
    if (capacity < FIRST_CAPACITY)
        capacity = FIRST_CAPACITY;
    if (capacity > past->limit)
        capacity = past->limit;
    past_node *ring = malloc(sizeof *ring * capacity);
    if (ring == NULL)
        return -1;
    for (uint64_t sequence = past->oldest; sequence < past->next; sequence++)
        ring[sequence & (capacity - 1)] = *entry_of(past, sequence);
    free(past->ring);
    past->ring = ring;
    past->capacity = capacity;
    return 0;
}

/* Drops keys whose entries have all been dropped; doubles the table if most are still there. */
static int rebuild_table(past_nodes *past)
{
    uint64_t *old_keys = past->keys, *old_heads = past->heads;
    uint64_t old_slots = past->slots, live = 0, slots = FIRST_CAPACITY;
    for (uint64_t old = 0; old < old_slots; old++)
        live += old_keys[old] != FREE_SLOT && old_heads[old] >= past->oldest;
    while (slots < 3 * (live + 1))
        slots *= 2;
    uint64_t *keys = malloc(sizeof *keys * slots), *heads = malloc(sizeof *heads * slots);
    if (keys == NULL || heads == NULL) {
        free(keys);
        free(heads);
        return -1;
    }
    memset(keys, 0xFF, sizeof *keys * slots); /* FREE_SLOT */
    past->keys = keys;
    past->heads = heads;
    past->slots = slots;
    past->used = live;
    for (uint64_t old = 0; old < old_slots; old++) {
        if (old_keys[old] != FREE_SLOT && old_heads[old] >= past->oldest) {
            uint64_t slot = slot_of(past, old_keys[old]);
            keys[slot] = old_keys[old];
            heads[slot] = old_heads[old];
        }
    }
    free(old_keys);
    free(old_heads);
    return 0;
}

/* Before a push: a larger ring, or the oldest entry dropped; and a table at most half full. */
static int make_room(past_nodes *past)
{
    if (past->next - past->oldest == past->capacity) {
        if (past->capacity == past->limit)
            past->oldest++;
        else if (enlarge_ring(past))
            return -1;
    }
    return 2 * (past->used + 1) > past->slots ? rebuild_table(past) : 0;
}

int past_nodes_push(past_nodes *past, uint64_t key, const stored_node *node, uint32_t block)
{
    if (past->limit == 0)
        return 0;
    if (make_room(past))
        return -1;
    uint64_t slot = slot_of(past, key);
    past_node *entry = entry_of(past, past->next);
    entry->key = key;
    entry->previous = entry->jump = entry->depth = 0;
    entry->changed = (uint32_t)read_number(node->changed, PAST_STAMP_BYTES);
    entry->superseded = block;
    memcpy(entry->hash, node->hash, PAST_HASH_BYTES);
    if (past->keys[slot] == FREE_SLOT) {
        past->keys[slot] = key;
        past->used++;
    } else if (past->heads[slot] >= past->oldest) {
        entry->previous = entry->jump = past->heads[slot];
        const past_node *previous = entry_of(past, entry->previous);
        entry->depth = previous->depth + 1;
        if (previous->jump >= past->oldest) {
            const past_node *jumped = entry_of(past, previous->jump);
            if (jumped->jump >= past->oldest &&
                previous->depth - jumped->depth == jumped->depth - entry_of(past, jumped->jump)->depth)
                entry->jump = jumped->jump;
        }
    }
    past->heads[slot] = past->next++;
    return 0;
}

void past_nodes_pop(past_nodes *past, uint32_t block)
{
    while (past->next > past->oldest) {
        const past_node *entry = entry_of(past, past->next - 1);
        if (entry->superseded != block)
            break;
        past->heads[slot_of(past, entry->key)] = entry->previous;
        past->next--;
    }
}

const uint8_t *past_nodes_value_at(const past_nodes *past, uint64_t key, uint32_t block)
{
    if (past->slots == 0)
        return NULL;
    uint64_t slot = slot_of(past, key);
    if (past->keys[slot] == FREE_SLOT)
        return NULL;
    uint64_t sequence = past->heads[slot];
    while (sequence >= past->oldest) {
        const past_node *entry = entry_of(past, sequence);
        /* A tile may be of an older view, and say of an undone block that it changed the node: only an entry that covers
           the block counts. */
        if (entry->superseded <= block)
            return NULL;
        if (entry->changed <= block)
            return entry->hash;
        /* A jump to an entry that is too new itself leaves nothing out. */
        if (entry->jump >= past->oldest && entry_of(past, entry->jump)->changed > block)
            sequence = entry->jump;
        else
            sequence = entry->previous;
    }
    return NULL;
}
