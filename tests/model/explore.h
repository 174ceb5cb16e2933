/* Explores how threads may interleave, and when their stores may become visible to the others.
 *
 * Each thread is a coroutine. Before every atomic operation the explorer chooses which one goes on: the same thread, another one, or a
 * store that leaves its thread's buffer. Choices other than "the same thread goes on" are counted, and all runs with at most
 * `most` of them are tried.
 *
 * Memory: a store that is not sequentially consistent waits in the buffer of its thread. Stores to different places may leave the
 * buffer in any order, except that a release store leaves after all stores before it (partial store order with release). A
 * read-modify-write, a sequentially consistent store and a fence empty the buffer of the thread first; explore_barrier empties all of them
 * (membarrier). With `reorders_loads` a load may return an older value where memory.h allows it; an older one is a choice too. */
#ifndef EXPLORE_H
#define EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t explore_load(void *at, size_t size, int order, const char *name); /* order: of enum memory_load */
void explore_store(void *at, size_t size, uint64_t value, bool is_release, bool is_seq_cst, const char *name);
uint64_t explore_change(void *at, size_t size, char how, uint64_t operand, const char *name);
bool explore_swap(void *at, size_t size, void *expected, uint64_t value, const char *name);
void explore_fence(void);
void explore_barrier(void);
/* A lock is taken that was given back at that time (explore_now), or a system call with a barrier is made: later loads see what was visible then. */
uint64_t explore_now(void);
void explore_acquire(uint64_t since);

/* The thread does not go on while the condition is false. It is asked again whenever memory has changed. */
void explore_await(bool (*is_true)(const void *argument), const void *argument, const char *name);
/* A step of the model that others may come before. */
void explore_step(const char *name);
/* What must hold; ends the exploration with the run that violates it. */
void explore_require(bool holds, const char *what);
/* The value in memory, without the thread's own buffer; no step. */
uint64_t explore_peek(const void *at, size_t size);

struct explore_plan {
    void (*reset)(void);         /* everything as at the start of a run */
    void (*thread)(int number);  /* what each thread does; they are numbered from 0 */
    void (*switched)(int from, int to);
    void (*ended)(void);         /* after each run */
    bool (*is_constant)(const void *at); /* nobody stores there: a load needs no choice */
    bool reorders_loads;
    int threads;
    int most;                    /* choices other than going on; negative: any number */
    uint64_t most_runs;
};

/* The number of runs. */
uint64_t explore(const struct explore_plan *plan);

#endif
