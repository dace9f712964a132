/* Threads that hash long runs of field elements.  The header says what for. */
#define _GNU_SOURCE
#include "hash_threads.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__linux__)
#include <sys/resource.h>
#include <unistd.h>
#endif

#define ELEMENT_BYTES 32
/* No kernel wants more runs than this at a time. */
#define BATCH_MAX 16
/* What the threads leave to the one that answers requests, as by nice(1). */
#define NICENESS 10
/* Threads that have finished nothing for so long get no processor: others of the machine have a higher priority. */
#define PATIENCE_NS 20000000
#define SECOND_NS 1000000000

typedef enum { WAITING, RUNNING, DONE } job_state;

struct hash_job {
    hash_job *next;
    uint8_t *elements; /* owned, until they are hashed */
    size_t count;
    job_state state;
    int is_wanted;
    int outcome;
    int64_t since; /* when it was started */
    uint8_t hash[HASH_BYTES];
    pthread_cond_t done;
};

/* All that follows is under the lock, but what a thread does with jobs that are RUNNING. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static hash_job *first, *last;
static size_t threads_running, threads_wanted, threads_idle;
static hash_runs_function hash_runs;
static together_function together;
static hash_counts counts;
/* When a thread has last finished something, and what they leave to others. */
static int64_t finished_at;
static int niceness;

/* ---- time and priorities --------------------------------------------------------------------- */

#if defined(__linux__)
#define CLOCK CLOCK_MONOTONIC
#else
#define CLOCK CLOCK_REALTIME /* the only one of its conditions */
#endif

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK, &now);
    return (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
}

static void start_condition(pthread_cond_t *condition)
{
#if defined(__linux__)
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
#else
    pthread_cond_init(condition, NULL);
#endif
}

/* Whether the calling thread is one that should not wait for threads of a lower priority. */
static int comes_before_threads(void)
{
#if defined(__linux__)
    return getpriority(PRIO_PROCESS, 0) < niceness;
#else
    return 0;
#endif
}

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

/* 0 when it is not there. */
static int take_out(const hash_job *job)
{
    hash_job *before = NULL, *other = first;
    for (; other && other != job; other = other->next)
        before = other;
    if (other)
        take_after(before);
    return other != NULL;
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
    size_t share = together((waiting + threads_idle) / (1 + threads_idle));
    return share < BATCH_MAX ? share : BATCH_MAX;
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

/* Linux alone has a priority for each thread; elsewhere it would be the whole process.  A thread has that of the one that
 * began it, which may have stepped back itself: what counts is that of the process. */
static void step_back(void)
{
#if defined(__linux__)
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, (id_t)getpid()) + NICENESS);
    niceness = getpriority(PRIO_PROCESS, 0);
#endif
}

static void *work(void *unused)
{
    (void)unused;
    hash_job *batch[BATCH_MAX];
    pthread_mutex_lock(&lock);
    step_back();
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
        finished_at = now_ns();
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

void hash_threads_use(hash_runs_function run, together_function ask, size_t threads)
{
    hash_runs = run;
    together = ask;
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
    start_condition(&job->done);
    job->since = now_ns();

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

/* The caller hashes a job that no thread gets to; 0 without memory.  Under the lock, which it leaves meanwhile. */
static int hash_here(hash_job *job, uint8_t hash[HASH_BYTES], int *outcome)
{
    if (job->state == WAITING && take_out(job)) {
        job->state = RUNNING;
        pthread_mutex_unlock(&lock);
        hash_alone(job);
        pthread_mutex_lock(&lock);
        counts.batches++;
        counts.runs++;
        finish(job);
        return 1;
    }
    /* A thread has begun it, and may have lost its processor: it finishes it some day. */
    size_t size = job->count * ELEMENT_BYTES;
    uint8_t *elements = malloc(size);
    if (!elements)
        return 0;
    memcpy(elements, job->elements, size);
    pthread_mutex_unlock(&lock);
    *outcome = hash_runs(elements, job->count, 1, hash);
    free(elements);
    pthread_mutex_lock(&lock);
    return 1;
}

static void wait_until(pthread_cond_t *condition, int64_t due)
{
    struct timespec time = {.tv_sec = (time_t)(due / SECOND_NS), .tv_nsec = (long)(due % SECOND_NS)};
    pthread_cond_timedwait(condition, &lock, &time);
}

int hash_threads_wait(hash_job *job, uint8_t hash[HASH_BYTES])
{
    int outcome = 0, is_here = 0; /* hashed by the caller */
    int waits = 0;                /* as long as it takes */
    pthread_mutex_lock(&lock);
    while (job->state != DONE && !is_here) {
        int64_t due = (job->since > finished_at ? job->since : finished_at) + PATIENCE_NS;
        if (waits)
            pthread_cond_wait(&job->done, &lock);
        else if (now_ns() < due)
            wait_until(&job->done, due);
        else if (!comes_before_threads() || !hash_here(job, hash, &outcome))
            waits = 1;
        else
            is_here = 1;
    }
    int is_done = job->state == DONE;
    pthread_mutex_unlock(&lock);
    if (!is_done)
        return outcome;
    memcpy(hash, job->hash, HASH_BYTES);
    return job->outcome;
}

void hash_threads_drop(hash_job *job)
{
    pthread_mutex_lock(&lock);
    job->is_wanted = 0;
    int is_mine = job->state != RUNNING;
    if (job->state == WAITING)
        take_out(job);
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
