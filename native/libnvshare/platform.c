#include "platform.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum { MEMBARRIER_PRIVATE_EXPEDITED = 1 << 3, MEMBARRIER_REGISTER_PRIVATE_EXPEDITED = 1 << 4 };
enum { HIGH_DESCRIPTOR = 960, HELPER_STACK_BYTES = 512 << 10, HUGE_PAGE_BYTES = 2 << 20 };

int64_t nvs_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void nvs_sleep_ns(int64_t ns)
{
    /* A futex nobody wakes: nanosleep would be a cancellation point inside a CUDA call. */
    _Atomic uint32_t nobody = 0;
    if (ns > 0)
        nvs_futex_wait(&nobody, 0, ns);
}

void nvs_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    int saved = errno;
    struct timespec ts = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout_ns < 0 ? NULL : &ts, NULL, 0);
    errno = saved;
}

void nvs_futex_wake_all(_Atomic uint32_t *word)
{
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    errno = saved;
}

/* 0 free, 1 taken, 2 taken and somebody may sleep. */
void nvs_lock_take_slow(struct nvs_lock *lock)
{
    while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
        nvs_futex_wait(&lock->word, 2, -1);
}

bool nvs_lock_try(struct nvs_lock *lock)
{
    uint32_t zero = 0;
    return atomic_compare_exchange_strong_explicit(&lock->word, &zero, 1, memory_order_acquire, memory_order_relaxed);
}

void nvs_lock_take(struct nvs_lock *lock)
{
    if (!nvs_lock_try(lock))
        nvs_lock_take_slow(lock);
}

void nvs_lock_give(struct nvs_lock *lock)
{
    if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2) {
        int saved = errno;
        syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        errno = saved;
    }
}

#if defined(__SANITIZE_THREAD__) || defined(NVS_NO_MEMBARRIER)
bool nvs_barrier_setup(void) { return false; }
#else
bool nvs_barrier_setup(void)
{
    int saved = errno;
    bool works = syscall(SYS_membarrier, MEMBARRIER_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 &&
                 syscall(SYS_membarrier, MEMBARRIER_PRIVATE_EXPEDITED, 0, 0) == 0;
    errno = saved;
    return works;
}
#endif

void nvs_barrier(void)
{
    int saved = errno;
    atomic_thread_fence(memory_order_seq_cst);
    syscall(SYS_membarrier, MEMBARRIER_PRIVATE_EXPEDITED, 0, 0);
    errno = saved;
}

static int high_number(int fd)
{
    struct rlimit limit;
    int floor = HIGH_DESCRIPTOR;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur <= HIGH_DESCRIPTOR + 8)
        floor = limit.rlim_cur > 16 ? (int)limit.rlim_cur - 8 : 0;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, floor);
    if (high < 0)
        return fd;
    close(fd);
    return high;
}

struct nvs_owned_fd nvs_own_fd(int fd)
{
    struct nvs_owned_fd owned = {.fd = high_number(fd)};
    struct stat st;
    fcntl(owned.fd, F_SETFD, FD_CLOEXEC);
    if (fstat(owned.fd, &st) != 0) {
        close(owned.fd);
        return NVS_NO_FD;
    }
    owned.dev = st.st_dev;
    owned.ino = st.st_ino;
    return owned;
}

bool nvs_fd_is_ours(const struct nvs_owned_fd *owned)
{
    struct stat st;
    return owned->fd >= 0 && fstat(owned->fd, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_dev == owned->dev &&
           st.st_ino == owned->ino;
}

void nvs_fd_close(struct nvs_owned_fd *owned)
{
    if (nvs_fd_is_ours(owned))
        close(owned->fd);
    *owned = NVS_NO_FD;
}

static void *map(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

void *nvs_pages(size_t bytes)
{
    if (bytes < HUGE_PAGE_BYTES)
        return map(bytes);
    /* Large tables are read at random: huge pages halve what that costs, but only where they are aligned. */
    char *pages = map(bytes + HUGE_PAGE_BYTES);
    if (!pages)
        return NULL;
    size_t before = (size_t)(-(uintptr_t)pages % HUGE_PAGE_BYTES);
    if (before)
        munmap(pages, before);
    if (before < HUGE_PAGE_BYTES)
        munmap(pages + before + bytes, HUGE_PAGE_BYTES - before);
    madvise(pages + before, bytes, MADV_HUGEPAGE);
    return pages + before;
}

void *nvs_pages_wiped_on_fork(size_t bytes)
{
    void *pages = nvs_pages(bytes);
    if (pages)
        madvise(pages, bytes, MADV_WIPEONFORK);
    return pages;
}

void nvs_pages_free(void *pages, size_t bytes)
{
    if (pages)
        munmap(pages, bytes);
}

int nvs_thread_start(void *(*body)(void *), void *argument)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, HELPER_STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attr, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return error;
}

/* glibc's pthread_atfork is linked in statically and calls this one, which musl lacks: a weak reference, or musl
 * programs do not start. */
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *) __attribute__((weak));

int nvs_at_fork_child(void (*child)(void))
{
    return __register_atfork ? __register_atfork(NULL, NULL, child, NULL) : -1;
}
