/* The newest values of tree nodes that later blocks replaced, the oldest dropped first.

   A ring holds the entries, a hash table finds the newest entry of a node.  From there `previous` leads to the value before,
   and `jump` to a still older one: as in a skew-binary list, jumps find the value at a block in about log2(changes) steps.
   Sequence numbers count from 1; 0 means none.  Not safe for threads: the owner holds the GIL. */
#ifndef FASTNODE_PAST_NODES_H
#define FASTNODE_PAST_NODES_H

#include <stdint.h>

enum { PAST_HASH_BYTES = 32, PAST_STAMP_BYTES = 4 };

/* A node as it is stored: hash | block that set it, u32 BE. */
typedef struct {
    uint8_t hash[PAST_HASH_BYTES];
    uint8_t changed[PAST_STAMP_BYTES];
} stored_node;

typedef struct {
    uint64_t key;
    uint64_t previous;
    uint64_t jump;
    uint32_t depth;      /* entries before this one of the same node */
    uint32_t changed;    /* block that had set the value */
    uint32_t superseded; /* block that replaced it */
    uint8_t hash[PAST_HASH_BYTES];
} past_node;

typedef struct {
    past_node *ring; /* entry of sequence number s at s & (capacity - 1); owned */
    uint64_t capacity; /* power of two */
    uint64_t limit;    /* power of two, or 0: nothing is kept */
    uint64_t oldest;   /* sequence numbers oldest <= s < next are there */
    uint64_t next;
    uint64_t *keys;  /* open addressing: key of a node -> its newest entry; owned */
    uint64_t *heads; /* owned */
    uint64_t slots;  /* power of two */
    uint64_t used;
} past_nodes;

/* For at most `entries_max` entries, rounded down to a power of two.  Nothing is allocated yet. */
void past_nodes_init(past_nodes *past, uint64_t entries_max);
void past_nodes_free(past_nodes *past);

/* `block` replaced `node` at `key`; blocks come in ascending order.  -1: no memory, and nothing is changed. */
int past_nodes_push(past_nodes *past, uint64_t key, const stored_node *node, uint32_t block);

/* Forgets the values that `block` replaced, which must be the newest. */
void past_nodes_pop(past_nodes *past, uint32_t block);

/* The value that a node had after `block`, or NULL when it is not here. */
const uint8_t *past_nodes_value_at(const past_nodes *past, uint64_t key, uint32_t block);

#endif
