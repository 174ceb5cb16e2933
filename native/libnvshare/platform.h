/* The wall around the operating system: clock, futex, barrier, owned descriptors, memory that does not survive a fork. */
#ifndef NVS_PLATFORM_H
#define NVS_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NVS_LIKELY(x) __builtin_expect(!!(x), 1)
#define NVS_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define NVS_MS INT64_C(1000000)

int64_t nvs_now_ns(void);
void nvs_sleep_ns(int64_t ns);

/* Waits while *word == expected, at most timeout_ns. Not a cancellation point. */
void nvs_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);
void nvs_futex_wake_all(_Atomic uint32_t *word);

/* A lock of our own: pthread_mutex_lock is no cancellation point either, but this one can be put back by storing zero. */
struct nvs_lock { _Atomic uint32_t word; };
void nvs_lock_take_slow(struct nvs_lock *lock);
void nvs_lock_take(struct nvs_lock *lock);
bool nvs_lock_try(struct nvs_lock *lock);
void nvs_lock_give(struct nvs_lock *lock);

/* True if nvs_barrier() orders other threads' plain stores and loads; false: they must fence themselves. */
bool nvs_barrier_setup(void);
void nvs_barrier(void);

/* A descriptor that is ours only while it still leads to the same socket. */
struct nvs_owned_fd { int fd; dev_t dev; ino_t ino; };
#define NVS_NO_FD ((struct nvs_owned_fd){.fd = -1})
/* Takes over `fd`: close-on-exec, moved to a high number where programs do not expect their own. */
struct nvs_owned_fd nvs_own_fd(int fd);
bool nvs_fd_is_ours(const struct nvs_owned_fd *owned);
void nvs_fd_close(struct nvs_owned_fd *owned);

/* Zeroed pages, read as zero in a forked child where the kernel can do that. NULL if there is no memory. */
void *nvs_pages(size_t bytes);
void *nvs_pages_wiped_on_fork(size_t bytes);
void nvs_pages_free(void *pages, size_t bytes);

/* A thread with all signals blocked. 0 or an errno. */
int nvs_thread_start(void *(*body)(void *), void *argument);

/* Calls `child` in every child made by fork(); returns -1 where the C library has no such thing. */
int nvs_at_fork_child(void (*child)(void));

#endif
