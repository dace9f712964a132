/* Threads that hash long runs of field elements.  The header says what for. */
#define _GNU_SOURCE
#include "hash_threads.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/resource.h>
#endif

#define ELEMENT_BYTES 32
/* More runs than this at a time make each of them wait without getting cheaper. */
#define BATCH_MAX 16
/* Fewer than this are cheaper in pairs than in a batch that is mostly empty. */
#define BATCH_MIN 5
#define PAIR 2
/* What the threads leave to the one that answers requests, as by nice(1). */
#define NICENESS 10

typedef enum { WAITING, RUNNING, DONE } job_state;

struct hash_job {
    hash_job *next;
    uint8_t *elements; /* owned, until they are hashed */
    size_t count;
    job_state state;
    int is_wanted;
    int outcome;
    uint8_t hash[HASH_BYTES];
    pthread_cond_t done;
};

/* All that follows is under the lock, but what a thread does with jobs that are RUNNING. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static hash_job *first, *last;
static size_t threads_running, threads_wanted, threads_idle;
static hash_runs_function hash_runs;
static lanes_function lanes;
static hash_counts counts;

/* ---- the queue ------------------------------------------------------------------------------- */

static void append(hash_job *job)
{
    if (last)
        last->next = job;
    else
        first = job;
    last = job;
}

/* Take out what follows `before`, or the first. */
static hash_job *take_after(hash_job *before)
{
    hash_job *job = before ? before->next : first;
    if (before)
        before->next = job->next;
    else
        first = job->next;
    if (last == job)
        last = before;
    job->next = NULL;
    return job;
}

static void forget(hash_job *job)
{
    pthread_cond_destroy(&job->done);
    free(job->elements);
    free(job);
}

static size_t waiting_of(size_t count)
{
    size_t n = 0;
    for (const hash_job *job = first; job; job = job->next)
        n += job->count == count;
    return n;
}

/* How many of those that wait this thread takes: its part, if others have nothing to do. */
static size_t share_of(size_t waiting)
{
    if (lanes() == 1)
        return 1;
    size_t part = (waiting + threads_idle) / (1 + threads_idle);
    if (part < BATCH_MIN)
        return part < PAIR ? part : PAIR;
    return part < BATCH_MAX ? part : BATCH_MAX;
}

/* Take the first and others of its length; there is one. */
static size_t take_batch(hash_job *batch[BATCH_MAX])
{
    size_t count = first->count, n = 0;
    size_t share = share_of(waiting_of(count));
    hash_job *before = NULL;
    for (hash_job *job = first; job && n < share; job = before ? before->next : first) {
        if (job->count == count) {
            batch[n] = take_after(before);
            batch[n++]->state = RUNNING;
        } else {
            before = job;
        }
    }
    return n;
}

/* ---- the threads ----------------------------------------------------------------------------- */

static void hash_alone(hash_job *job)
{
    job->outcome = hash_runs(job->elements, job->count, 1, job->hash);
}

/* Several together; -1 when there is no memory or one of them is wrong. */
static int hash_together(hash_job *const batch[], size_t n)
{
    size_t size = batch[0]->count * ELEMENT_BYTES;
    uint8_t hashes[BATCH_MAX * HASH_BYTES];
    uint8_t *elements = malloc(n * size);
    if (!elements)
        return -1;
    for (size_t i = 0; i < n; i++)
        memcpy(elements + i * size, batch[i]->elements, size);
    int outcome = hash_runs(elements, batch[0]->count, n, hashes);
    free(elements);
    if (outcome == 0) {
        for (size_t i = 0; i < n; i++) {
            batch[i]->outcome = 0;
            memcpy(batch[i]->hash, hashes + i * HASH_BYTES, HASH_BYTES);
        }
    }
    return outcome;
}

static void hash_batch(hash_job *const batch[], size_t n)
{
    if (n > 1 && hash_together(batch, n) == 0)
        return;
    for (size_t i = 0; i < n; i++)
        hash_alone(batch[i]); /* each owner learns of its own fault */
}

static void finish(hash_job *job)
{
    free(job->elements);
    job->elements = NULL;
    job->state = DONE;
    if (job->is_wanted)
        pthread_cond_broadcast(&job->done);
    else
        forget(job);
}

/* Linux alone has a priority for each thread; elsewhere it would be the whole process. */
static void step_back(void)
{
#if defined(__linux__)
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICENESS);
#endif
}

static void *work(void *unused)
{
    (void)unused;
    step_back();
    hash_job *batch[BATCH_MAX];
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!first) {
            threads_idle++;
            pthread_cond_wait(&arrived, &lock);
            threads_idle--;
        }
        size_t n = take_batch(batch);
        pthread_mutex_unlock(&lock);
        hash_batch(batch, n);
        pthread_mutex_lock(&lock);
        counts.batches++;
        counts.runs += n;
        for (size_t i = 0; i < n; i++)
            finish(batch[i]);
    }
    return NULL;
}

/* Signals stay with the threads that expect them. */
static int start_thread(void)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, work, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error ? error : pthread_detach(thread);
}

static void start_threads(void)
{
    while (threads_running < threads_wanted && start_thread() == 0)
        threads_running++;
}

/* ---- forks ----------------------------------------------------------------------------------- */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/* A child has none of the threads, and none of the jobs are its own. */
static void after_fork_in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&arrived, NULL);
    first = last = NULL;
    threads_running = threads_idle = 0;
}

/* ---- calls ----------------------------------------------------------------------------------- */

void hash_threads_use(hash_runs_function run, lanes_function ask, size_t threads)
{
    hash_runs = run;
    lanes = ask;
    threads_wanted = threads;
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

void hash_threads_limit(size_t threads)
{
    pthread_mutex_lock(&lock);
    threads_wanted = threads;
    pthread_mutex_unlock(&lock);
}

hash_job *hash_threads_start(const uint8_t *elements, size_t count)
{
    hash_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->elements = malloc(count ? count * ELEMENT_BYTES : 1);
    if (!job->elements) {
        free(job);
        return NULL;
    }
    memcpy(job->elements, elements, count * ELEMENT_BYTES);
    job->count = count;
    job->is_wanted = 1;
    pthread_cond_init(&job->done, NULL);

    pthread_mutex_lock(&lock);
    start_threads();
    int is_hopeless = threads_running == 0;
    if (!is_hopeless) {
        append(job);
        pthread_cond_signal(&arrived);
    }
    pthread_mutex_unlock(&lock);
    if (!is_hopeless)
        return job;
    forget(job);
    return NULL;
}

int hash_threads_is_done(hash_job *job)
{
    pthread_mutex_lock(&lock);
    int is_done = job->state == DONE;
    pthread_mutex_unlock(&lock);
    return is_done;
}

int hash_threads_wait(hash_job *job, uint8_t hash[HASH_BYTES])
{
    pthread_mutex_lock(&lock);
    while (job->state != DONE)
        pthread_cond_wait(&job->done, &lock);
    pthread_mutex_unlock(&lock);
    memcpy(hash, job->hash, HASH_BYTES);
    return job->outcome;
}

void hash_threads_drop(hash_job *job)
{
    pthread_mutex_lock(&lock);
    job->is_wanted = 0;
    int is_mine = job->state != RUNNING;
    if (job->state == WAITING) {
        hash_job *before = NULL;
        for (hash_job *other = first; other && other != job; other = other->next)
            before = other;
        take_after(before);
    }
    pthread_mutex_unlock(&lock);
    if (is_mine)
        forget(job);
}

hash_counts hash_threads_counts(void)
{
    pthread_mutex_lock(&lock);
    hash_counts now = counts;
    pthread_mutex_unlock(&lock);
    return now;
}
