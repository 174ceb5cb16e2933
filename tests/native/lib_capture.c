/* Captures on two threads in all three modes, each checked against the first: lib_capture TIMES BYTES threads|legacy.
 * They end after so many captures each, but not before the input ends.
 * "legacy": on one thread, with work on the legacy stream under way while a stream that waits for it captures.
 * Whatever a library in front of the driver does meanwhile, no capture may fail and no graph may differ. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "lib_check.h"
#include "lib_driver.h"

enum { MAX_NODES = 64, KERNELS = 20 };

static CUcontext context;
static CUfunction spin;
static CUdeviceptr memory;
static long times;
static int uses_legacy;
static _Atomic int modes_seen[3];
static _Atomic bool input_has_ended;

static void launch(CUstream stream)
{
    uint64_t us = 5000;
    void *params[] = {&us};
    EQUAL(cu.LaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL), 0);
}

/* Two streams joined by events, kernels and a memset. */
static CUgraph capture(CUstream first, CUstream second, CUevent fork, CUevent join, CUstreamCaptureMode mode)
{
    CUgraph graph = NULL;
    EQUAL(cu.StreamBeginCapture(first, mode), 0);
    for (int i = 0; i < KERNELS; i++)
        launch(first);
    nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL); /* a capture takes its time: the library must meet some open ones */
    EQUAL(cu.EventRecord(fork, first), 0);
    EQUAL(cu.StreamWaitEvent(second, fork, 0), 0);
    launch(second);
    EQUAL(cu.MemsetD8Async(memory, 1, 4096, first), 0);
    EQUAL(cu.EventRecord(join, second), 0);
    EQUAL(cu.StreamWaitEvent(first, join, 0), 0);
    EQUAL(cu.StreamEndCapture(first, &graph), 0);
    CHECK(graph != NULL);
    return graph;
}

static size_t shape(CUgraph graph, int *types)
{
    CUgraphNode nodes[MAX_NODES];
    size_t count = MAX_NODES;
    EQUAL(cu.GraphGetNodes(graph, nodes, &count), 0);
    for (size_t i = 0; i < count; i++) {
        CUgraphNodeType type;
        EQUAL(cu.GraphNodeGetType(nodes[i], &type), 0);
        types[i] = type;
    }
    return count;
}

static void wait_for_input_to_end(void)
{
    char nothing;
    while (read(STDIN_FILENO, &nothing, 1) > 0)
        ;
    atomic_store(&input_has_ended, true);
}

static void *captures(void *flags)
{
    CUstream first, second;
    CUevent fork, join;
    int expected[MAX_NODES] = {0};
    size_t expected_count = 0;
    EQUAL(cu.CtxSetCurrent(context), 0);
    EQUAL(cu.StreamCreate(&first, (unsigned)(uintptr_t)flags), 0);
    EQUAL(cu.StreamCreate(&second, (unsigned)(uintptr_t)flags), 0);
    EQUAL(cu.EventCreate(&fork, CU_EVENT_DISABLE_TIMING), 0);
    EQUAL(cu.EventCreate(&join, CU_EVENT_DISABLE_TIMING), 0);
    for (long i = 0; i < times || !atomic_load(&input_has_ended); i++) {
        int types[MAX_NODES] = {0};
        CUgraphExec exec;
        launch(first); /* work under way on a stream that begins to capture */
        launch(second);
        if (uses_legacy)
            launch(CU_STREAM_LEGACY);
        CUgraph graph = capture(first, second, fork, join, (CUstreamCaptureMode)(i % 3));
        size_t count = shape(graph, types);
        if (i == 0) {
            memcpy(expected, types, sizeof types);
            expected_count = count;
        }
        EQUAL(count, expected_count);
        CHECK(memcmp(types, expected, sizeof types) == 0);
        EQUAL(cu.GraphInstantiateWithFlags(&exec, graph, 0), 0);
        EQUAL(cu.GraphLaunch(exec, first), 0);
        EQUAL(cu.GraphDestroy(graph), 0);
        if (i % 8 == 0)
            EQUAL(cu.StreamSynchronize(first), 0);
        EQUAL(cu.GraphExecDestroy(exec), 0);
        modes_seen[i % 3]++;
    }
    EQUAL(cu.StreamSynchronize(first), 0);
    EQUAL(cu.StreamDestroy(second), 0);
    EQUAL(cu.StreamDestroy(first), 0);
    return NULL;
}

int main(int argc, char **argv)
{
    CUmodule module;
    CUdeviceptr ballast;
    pthread_t threads[2];
    if (argc < 4 || lib_driver_find("dlsym") != 0)
        return 2;
    times = atol(argv[1]);
    uses_legacy = !strcmp(argv[3], "legacy");
    int count = uses_legacy ? 1 : 2;
    EQUAL(cu.Init(0), 0);
    EQUAL(cu.CtxCreate(&context, 0, 0), 0);
    EQUAL(cu.ModuleLoadData(&module, ""), 0);
    EQUAL(cu.ModuleGetFunction(&spin, module, "sim_spin_us"), 0);
    EQUAL(cu.MemAlloc(&memory, 4096), 0);
    EQUAL(cu.MemAlloc(&ballast, strtoull(argv[2], NULL, 10)), 0);
    for (uintptr_t i = 0; i < (uintptr_t)count; i++) /* one thread's streams are blocking, the other's not */
        pthread_create(&threads[i], NULL, captures, (void *)(uintptr_t)(i ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    wait_for_input_to_end();
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("captures by mode: %d %d %d\n", modes_seen[0], modes_seen[1], modes_seen[2]);
    return DONE();
}
