#include "base/platform.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum { MEMBARRIER_GLOBAL = 1 << 0, MEMBARRIER_PRIVATE_EXPEDITED = 1 << 3, MEMBARRIER_REGISTER_PRIVATE_EXPEDITED = 1 << 4 };
#define SURELY_VISIBLE_NS (10 * NVS_MS)
enum { STACK_BYTES = 512 << 10, MOST_STACK_BYTES = 1 << 30, HUGE_PAGE_BYTES = 2 << 20 };

int64_t nvs_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void nvs_sleep_ns(int64_t ns)
{
    /* A futex that is never woken. nanosleep would be a cancellation point inside a CUDA call. */
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

static void futex_wake(_Atomic uint32_t *word, int threads)
{
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
    errno = saved;
}

void nvs_futex_wake_one(_Atomic uint32_t *word) { futex_wake(word, 1); }

void nvs_futex_wake_all(_Atomic uint32_t *word) { futex_wake(word, INT_MAX); }

#if defined(__SANITIZE_THREAD__) || defined(NVS_NO_MEMBARRIER)
bool nvs_barrier_setup(void) { return false; } /* ThreadSanitizer does not know membarrier */
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

/* The fence orders the caller's own accesses; the kernel makes every other running thread of the process execute one before
 * the call returns. A thread that is not running executes one when it is scheduled. */
bool nvs_barrier(void)
{
    int saved = errno;
    atomic_thread_fence(memory_order_seq_cst);
    bool works = syscall(SYS_membarrier, MEMBARRIER_PRIVATE_EXPEDITED, 0, 0) == 0;
    errno = saved;
    return works;
}

/* By the command that needs no registration. If that is forbidden too, by time: a thread that does not run has executed a barrier, and
 * the stores of one that runs become visible within microseconds. */
void nvs_barrier_once(void)
{
    int saved = errno;
    nvs_debug("membarrier does not work any more: each thread executes a fence at each submission from now on");
    atomic_thread_fence(memory_order_seq_cst);
    if (syscall(SYS_membarrier, MEMBARRIER_GLOBAL, 0, 0) != 0)
        nvs_sleep_ns(SURELY_VISIBLE_NS);
    errno = saved;
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
    /* Large tables are read in random order. Huge pages halve the cost, but only aligned ones. */
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

void *nvs_pages_sparse(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
        return NULL;
    madvise(pages, bytes, MADV_NOHUGEPAGE);
    madvise(pages, bytes, MADV_DONTDUMP);
    madvise(pages, bytes, MADV_WIPEONFORK);
    return pages;
}

void nvs_pages_free(void *pages, size_t bytes)
{
    if (pages)
        munmap(pages, bytes);
}

static int add_thread_data(struct dl_phdr_info *object, size_t size, void *sum)
{
    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_TLS)
            *(size_t *)sum += object->dlpi_phdr[i].p_memsz + object->dlpi_phdr[i].p_align;
    return 0;
}

static int start(void *(*body)(void *), void *argument, size_t stack_bytes)
{
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, stack_bytes);
    int error = pthread_create(&thread, &attr, body, argument);
    pthread_attr_destroy(&attr);
    return error;
}

/* glibc puts the thread-local data of the objects that were there from the start (`__thread`) on the stack, and answers EINVAL if it does
 * not fit. Then the stack gets room for this data too. It need not be all: GLIBC_TUNABLES may reserve more, so the stack is doubled
 * while it does not suffice. The default size is no help: glibc raises it to the thread-local data and 2 KiB. */
int nvs_thread_start(void *(*body)(void *), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = start(body, argument, STACK_BYTES);
    if (error == EINVAL) {
        size_t bytes = STACK_BYTES;
        dl_iterate_phdr(add_thread_data, &bytes);
        for (; error == EINVAL && bytes <= MOST_STACK_BYTES; bytes *= 2)
            error = start(body, argument, bytes);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

void nvs_thread_name(const char *name) { prctl(PR_SET_NAME, name); }

/* glibc's pthread_atfork is linked statically and calls this function, which musl does not have. The reference is weak, because
 * otherwise musl programs would not start. */
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *) __attribute__((weak));

int nvs_at_fork_child(void (*child)(void))
{
    return __register_atfork ? __register_atfork(NULL, NULL, child, NULL) : -1;
}
