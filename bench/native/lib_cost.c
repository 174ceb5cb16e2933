/* What one call costs, in nanoseconds, through whatever LD_PRELOAD put in front of the driver.
 *
 *   lib_cost launch THREADS COUNT       launches on the default stream, per call, all threads at once
 *   lib_cost fenced THREADS COUNT       the same, with a full fence before each launch
 *   lib_cost alloc LIVE COUNT           allocate and free COUNT times while LIVE allocations are alive
 *   lib_cost start                      from before cuInit to after the first launch
 * Prints one number; alloc prints two (allocate, free). */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda_types.h"

static CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **);
static CUresult (*allocate)(CUdeviceptr *, size_t);
static CUresult (*release)(CUdeviceptr);
static long count;
static int has_fence;
static pthread_barrier_t barrier;

static double clock_ns(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* The thread's own time: other programs on the machine are not the library's fault. */
static double now_ns(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

/* With a parameter that points to memory: the library reads it for some launches. */
static void *launcher(void *result)
{
    CUdeviceptr memory = 0;
    void *params[] = {&memory};
    allocate(&memory, 64 << 20);
    for (int i = 0; i < 20000; i++)
        launch(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
    pthread_barrier_wait(&barrier);
    double began = now_ns();
    for (long i = 0; i < count && !has_fence; i++)
        launch(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
    for (long i = 0; i < count && has_fence; i++) {
        atomic_thread_fence(memory_order_seq_cst);
        launch(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
    }
    *(double *)result = (now_ns() - began) / (double)count;
    return NULL;
}

static void launches(int threads)
{
    pthread_t ids[64];
    double results[64] = {0}, sum = 0;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, launcher, &results[i]);
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        sum += results[i];
    }
    printf("%.2f\n", sum / threads);
}

/* In batches, so that the number alive stays what was asked for. */
static void allocations(long live)
{
    enum { BATCH = 64 };
    CUdeviceptr *old = calloc((size_t)live, sizeof *old), fresh[BATCH];
    double allocating = 0, freeing = 0;
    for (long i = 0; i < live; i++)
        allocate(&old[i], 512);
    for (long done = 0; done < count; done += BATCH) {
        double began = now_ns();
        for (int i = 0; i < BATCH; i++)
            allocate(&fresh[i], 512);
        double between = now_ns();
        for (int i = 0; i < BATCH; i++)
            release(fresh[i]);
        allocating += between - began;
        freeing += now_ns() - between;
    }
    printf("%.1f %.1f\n", allocating / (double)count, freeing / (double)count);
}

int main(int argc, char **argv)
{
    double began = clock_ns(CLOCK_MONOTONIC);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver || argc < 2)
        return 2;
    CUresult (*init)(unsigned) = (CUresult(*)(unsigned))dlsym(driver, "cuInit");
    CUresult (*context)(CUcontext *, unsigned, CUdevice) = (CUresult(*)(CUcontext *, unsigned, CUdevice))dlsym(driver, "cuCtxCreate_v2");
    *(void **)&launch = dlsym(driver, "cuLaunchKernel");
    *(void **)&allocate = dlsym(driver, "cuMemAlloc_v2");
    *(void **)&release = dlsym(driver, "cuMemFree_v2");
    CUcontext made;
    if (init(0) || context(&made, 0, 0))
        return 1;
    count = argc > 3 ? atol(argv[3]) : 0;
    has_fence = !strcmp(argv[1], "fenced");
    if (has_fence || !strcmp(argv[1], "launch"))
        launches(atoi(argv[2]));
    else if (!strcmp(argv[1], "alloc"))
        allocations(atol(argv[2]));
    else {
        launch(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
        printf("%.0f\n", clock_ns(CLOCK_MONOTONIC) - began);
    }
    return 0;
}
