/* Threads that are cancelled in the middle of CUDA calls: lib_cancel deferred|asynchronous. Each thread allocates, frees,
 * launches and creates streams until it is cancelled; another one takes its place, until the input ends. Then the first thread must be able
 * to do the same: no lock is left behind. After deferred cancellation, which a thread meets only between two rounds, no memory may
 * be counted either. */
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "lib_check.h"
#include "lib_driver.h"

enum { THREADS = 4, BYTES = 1 << 20 };

static CUcontext context;
static CUfunction spin;
static int type;

static int64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void work_once(void)
{
    uint64_t us = 1;
    void *params[] = {&us};
    CUdeviceptr plain, pooled;
    CUstream stream;
    EQUAL(cu.MemAlloc(&plain, BYTES), 0);
    EQUAL(cu.MemAllocAsync(&pooled, BYTES, NULL), 0);
    EQUAL(cu.LaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), 0);
    EQUAL(cu.StreamCreate(&stream, 0), 0);
    EQUAL(cu.LaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL), 0);
    EQUAL(cu.StreamDestroy(stream), 0);
    EQUAL(cu.MemFreeAsync(pooled, NULL), 0);
    EQUAL(cu.MemFree(plain), 0);
}

static void *work_until_cancelled(void *nothing)
{
    (void)nothing;
    int before;
    EQUAL(cu.CtxSetCurrent(context), 0);
    pthread_setcanceltype(type, &before);
    for (;;) {
        work_once();
        /* A cancellation that our calls left for later is met here, and only here. */
        if (type == PTHREAD_CANCEL_DEFERRED)
            pthread_testcancel();
    }
}

/* Between nothing and a few rounds of work, never the same. */
static void wait_a_moment(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    int64_t end = now_ns() + (*state >> 8) % 300000;
    while (now_ns() < end)
        ;
}

static bool input_has_ended(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

static void cancel_until_input_ends(void)
{
    pthread_t threads[THREADS];
    unsigned state = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work_until_cancelled, NULL);
    for (int i = 0; !input_has_ended(); i = (i + 1) % THREADS) {
        wait_a_moment(&state);
        EQUAL(pthread_cancel(threads[i]), 0);
        EQUAL(pthread_join(threads[i], NULL), 0);
        EQUAL(pthread_create(&threads[i], NULL, work_until_cancelled, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_cancel(threads[i]);
        pthread_join(threads[i], NULL);
    }
}

int main(int argc, char **argv)
{
    CUmodule module;
    size_t free_bytes = 0, total = 0;
    if (argc < 2 || lib_driver_find("dlsym") != 0)
        return 2;
    type = !strcmp(argv[1], "asynchronous") ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED;
    EQUAL(cu.Init(0), 0);
    EQUAL(cu.CtxCreate(&context, 0, 0), 0);
    EQUAL(cu.ModuleLoadData(&module, ""), 0);
    EQUAL(cu.ModuleGetFunction(&spin, module, "sim_spin_us"), 0);
    cancel_until_input_ends();
    work_once();
    EQUAL(cu.MemGetInfo(&free_bytes, &total), 0);
    if (type == PTHREAD_CANCEL_DEFERRED)
        EQUAL(free_bytes, total);
    return DONE();
}
