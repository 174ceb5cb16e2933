/* What we use of the operating system: clock, futex, membarrier, pages, threads, fork. */
#ifndef NVS_PLATFORM_H
#define NVS_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NVS_LIKELY(x) __builtin_expect(!!(x), 1)
#define NVS_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define NVS_MS INT64_C(1000000)

int64_t nvs_now_ns(void);
void nvs_sleep_ns(int64_t ns);

/* Waits while *word == expected, at most timeout_ns. Not a cancellation point. */
void nvs_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);
void nvs_futex_wake_one(_Atomic uint32_t *word);
void nvs_futex_wake_all(_Atomic uint32_t *word);

/* True if nvs_barrier works here. If not, threads that rely on it must execute a fence themselves. */
bool nvs_barrier_setup(void);
/* A full memory barrier on every thread of the process, paid by the caller alone (membarrier). False if the kernel refuses it: a sandbox
 * that the process has entered since may forbid it. */
bool nvs_barrier(void);
/* The same once, slowly, after it was refused. */
void nvs_barrier_once(void);

/* Zeroed pages. NULL if there is no memory. */
void *nvs_pages(size_t bytes);
/* The same; they read as zero in a child, also in one made by a bare clone (Linux 4.14 and later). */
void *nvs_pages_wiped_on_fork(size_t bytes);
/* Address space that costs memory only where it is written. It reads as zero in a child. */
void *nvs_pages_sparse(size_t bytes);
void nvs_pages_free(void *pages, size_t bytes);

/* A thread with all signals blocked. 0 or an errno. */
int nvs_thread_start(void *(*body)(void *), void *argument);
/* Names the calling thread, for tools that list the threads of a process. At most 15 characters. */
void nvs_thread_name(const char *name);

/* Calls `child` in every child made by fork(); returns -1 where the C library has no such thing. */
int nvs_at_fork_child(void (*child)(void));

#endif
