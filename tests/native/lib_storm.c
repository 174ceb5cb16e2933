/* Everything at once: lib_storm THREADS SEED [exit]. Threads launch, copy, set, allocate, make and destroy
 * streams, in an order drawn by lot, until the input ends. With "exit" the program exits while they are at it, and an exit
 * handler waits for them, as the end of a thread pool does. Whether their work ran only when it might is for the card's trace to say. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "lib_check.h"
#include "lib_driver.h"

enum { BYTES = 65536 };

static CUcontext contexts[2];
static CUfunction spin[2];
static _Atomic bool is_over;
static unsigned seed;

struct storm {
    unsigned state;
    int context;
    CUstream stream;
    CUdeviceptr memory;
};

static unsigned lot(struct storm *storm, unsigned most)
{
    storm->state = storm->state * 1664525u + 1013904223u;
    return (storm->state >> 8) % most;
}

static void launch(struct storm *storm, CUstream stream)
{
    uint64_t us = lot(storm, 40000); /* up to 0.4 ms on a card a hundred times faster than life */
    void *params[] = {&us};
    EQUAL(cu.LaunchKernel(spin[storm->context], 1, 1, 1, 1, 1, 1, 0, stream, params, NULL), 0);
}

static void passing_stream(struct storm *storm)
{
    CUstream stream;
    EQUAL(cu.StreamCreate(&stream, lot(storm, 2)), 0);
    launch(storm, stream);
    EQUAL(cu.StreamDestroy(stream), 0); /* with its work under way */
}

static void change_context(struct storm *storm)
{
    storm->context = (int)lot(storm, 2);
    EQUAL(cu.CtxSetCurrent(contexts[storm->context]), 0);
}

static void copy(struct storm *storm)
{
    static char host[BYTES];
    if (lot(storm, 2))
        EQUAL(cu.MemcpyHtoD(storm->memory, host, 4096), 0);
    else
        EQUAL(cu.MemsetD8Async(storm->memory, 1, BYTES, storm->stream), 0);
}

static void allocate(struct storm *storm)
{
    CUdeviceptr d;
    EQUAL(cu.MemAlloc(&d, 1 + lot(storm, 1 << 20)), 0);
    EQUAL(cu.MemFree(d), 0);
}

static void *storming(void *number)
{
    struct storm storm = {.state = seed * 7919u + (unsigned)(uintptr_t)number};
    EQUAL(cu.CtxSetCurrent(contexts[0]), 0);
    EQUAL(cu.StreamCreate(&storm.stream, (unsigned)(uintptr_t)number % 2), 0);
    EQUAL(cu.MemAlloc(&storm.memory, BYTES), 0);
    while (!atomic_load(&is_over)) {
        switch (lot(&storm, 8)) {
        case 0: launch(&storm, NULL); break;
        case 1: passing_stream(&storm); break;
        case 2: change_context(&storm); break;
        case 3: copy(&storm); break;
        case 4: allocate(&storm); break;
        case 5: EQUAL(cu.StreamSynchronize(storm.stream), 0); break;
        default:
            if (storm.context == 0)
                launch(&storm, storm.stream);
            else
                launch(&storm, CU_STREAM_LEGACY);
        }
    }
    EQUAL(cu.CtxSetCurrent(contexts[0]), 0);
    EQUAL(cu.StreamSynchronize(storm.stream), 0);
    return NULL;
}

static pthread_t threads[32];
static int count;

static void wait_for_threads(void)
{
    char nothing;
    while (read(STDIN_FILENO, &nothing, 1) > 0)
        ;
    atomic_store(&is_over, true);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
    bool exits = argc > 3 && !strcmp(argv[3], "exit");
    if (exits)
        atexit(wait_for_threads); /* before the library's own handler is known, so it runs after it */
    if (argc < 3 || lib_driver_find("procaddress") != 0)
        return 2;
    count = atoi(argv[1]);
    seed = (unsigned)atoi(argv[2]);
    EQUAL(cu.Init(0), 0);
    for (int i = 0; i < 2; i++) {
        CUmodule module;
        EQUAL(cu.CtxCreate(&contexts[i], 0, 0), 0);
        EQUAL(cu.ModuleLoadData(&module, ""), 0);
        EQUAL(cu.ModuleGetFunction(&spin[i], module, "sim_spin_us"), 0);
    }
    for (uintptr_t i = 0; i < (uintptr_t)count; i++)
        pthread_create(&threads[i], NULL, storming, (void *)i);
    if (exits)
        exit(DONE());
    wait_for_threads();
    for (int i = 0; i < 2; i++) {
        EQUAL(cu.CtxSetCurrent(contexts[i]), 0);
        EQUAL(cu.CtxSynchronize(), 0);
    }
    return DONE();
}
