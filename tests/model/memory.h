/* Memory as each thread may see it, for explore.c.
 *
 * Every value that became visible at a place is kept with the time at which it did. A load may return the newest one or, if loads are reordered
 * (`is_weak`; ARM, POWER), an older one that was still the newest at some time since
 *
 *     the last value that this thread saw or stored at that place          (coherence)
 *     the last barrier of this thread                                      (fence, membarrier, futex)
 *     the time of the value that its last acquire load returned, or its last read-modify-write found
 *     its last sequentially consistent store, for a sequentially consistent load
 *
 * So a relaxed load may be executed before loads and, on the other side, after stores of other threads that come before it. A load is never
 * executed after a store of its own thread that follows it. */
#ifndef MODEL_MEMORY_H
#define MODEL_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum memory_load { MEMORY_RELAXED, MEMORY_ACQUIRE, MEMORY_SEQ_CST };

void memory_reset(bool is_weak);
uint64_t memory_get(const void *at, size_t size);
/* A store of this thread becomes visible. -1: the set-up of a run. */
void memory_set(int thread, void *at, size_t size, uint64_t value);
/* How many values a load may return; 0 is the newest. */
int memory_choices(int thread, const void *at, enum memory_load order);
uint64_t memory_load(int thread, const void *at, size_t size, enum memory_load order, int choice);
/* The same of a sequentially consistent store, or of a read-modify-write, and what the latter finds before it. */
void memory_set_seq_cst(int thread, void *at, size_t size, uint64_t value);
uint64_t memory_find(int thread, const void *at, size_t size);
/* This thread sees nothing older than what is in memory at that time, which memory_now returned. */
uint64_t memory_now(void);
void memory_refresh(int thread, uint64_t since);

#endif
