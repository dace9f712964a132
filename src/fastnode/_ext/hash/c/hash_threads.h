/* Threads that hash long runs of field elements.
 *
 * A sponge is one chain of permutations: the hash of a transaction takes milliseconds on any number of cores
 * beside it.  So it is computed by a thread of its own, which never needs the interpreter, and runs that wait for one
 * go together where the kernel has lanes. */
#ifndef FASTNODE_HASH_THREADS_H
#define FASTNODE_HASH_THREADS_H

#include <stddef.h>
#include <stdint.h>

#define HASH_BYTES 32

/* Hash n runs of `arity` elements of 32 bytes; -1 when one is not below the modulus. */
typedef int (*hash_runs_function)(const uint8_t *runs, size_t arity, size_t n, uint8_t *out);
/* How many of so many runs of one length such a function should have at once. */
typedef size_t (*together_function)(size_t waiting);

typedef struct hash_job hash_job;

typedef struct {
    uint64_t runs, batches;
} hash_counts;

/* Before anything else, once.  The threads start with the first job. */
void hash_threads_use(hash_runs_function hash_runs, together_function together, size_t threads);

/* That many threads from now on, at least one: before the first job, in a process that shares the processors. */
void hash_threads_limit(size_t threads);

/* Begin to hash a copy of the elements; NULL without memory or without any thread.  From any thread, as all below. */
hash_job *hash_threads_start(const uint8_t *elements, size_t count);

int hash_threads_is_done(hash_job *job);

/* Wait for the hash, as often as one likes: 0, or -1 when an element is not below the modulus.  Who has a higher priority
 * than the threads hashes itself when they get no processor. */
int hash_threads_wait(hash_job *job, uint8_t hash[HASH_BYTES]);

/* The end of a job.  It may have no waiter; one that has not begun is not hashed any more. */
void hash_threads_drop(hash_job *job);

/* Since the process began. */
hash_counts hash_threads_counts(void);

#endif
