/* Everything at once: threads with streams of their own, events between them, allocations, graphs and captures, for a
 * second or as long as $STRESS_SECONDS says. Nothing may fail, hang or be out of order. */
#include "simgpu_check.h"

enum { THREADS = 4 };

static CUcontext context;
static CUevent shared_event;
static double deadline;
static _Atomic unsigned problems;

#define GOOD(call) do { CUresult result_ = (call); if (result_ != CUDA_SUCCESS) { problems++; fprintf(stderr, "line %d: %s gave %d\n", __LINE__, #call, (int)result_); } } while (0)

/* Writes of one stream arrive in order: each step stores its number behind a kernel and reads it back. */
static void ordered_writes(CUstream stream, CUfunction function, CUdeviceptr cell, unsigned step)
{
    unsigned seen = 0;
    GOOD(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    GOOD(cuStreamWriteValue32(stream, cell, step, 0));
    GOOD(cuMemcpyDtoHAsync_v2(&seen, cell, sizeof seen, stream));
    if (seen != step)
        problems++;
}

static void graph_round(CUstream stream, CUfunction function, CUdeviceptr cell)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    GOOD(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < 10; i++)
        GOOD(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    GOOD(cuMemsetD32Async(cell, 0xabcd, 1, stream));
    GOOD(cuStreamEndCapture(stream, &graph));
    GOOD(cuGraphInstantiateWithFlags(&exec, graph, 0));
    GOOD(cuGraphDestroy(graph));
    GOOD(cuGraphLaunch(exec, stream));
    GOOD(cuGraphExecDestroy(exec));
    GOOD(cuStreamSynchronize(stream));
    if (*(volatile unsigned *)(uintptr_t)cell != 0xabcd)
        problems++;
}

static void memory_round(CUstream stream)
{
    CUdeviceptr pieces[20], big = 0, pooled = 0;
    for (int i = 0; i < 20; i++)
        GOOD(cuMemAllocManaged(&pieces[i], 100u << i % 16, CU_MEM_ATTACH_GLOBAL));
    GOOD(cuMemAlloc_v2(&big, 8 << 20));
    GOOD(cuMemAllocAsync(&pooled, 3 << 20, stream));
    GOOD(cuMemsetD8Async(big, 1, 8 << 20, stream));
    GOOD(cuMemFreeAsync(pooled, stream));
    for (int i = 0; i < 20; i++)
        GOOD(cuMemFree_v2(pieces[i]));
    GOOD(cuMemFree_v2(big));
}

static void *work(void *data)
{
    unsigned step = 0, seed = (unsigned)(uintptr_t)data;
    CUdeviceptr cell = 0;
    CUstream stream = NULL;
    GOOD(cuCtxSetCurrent(context));
    GOOD(cuMemAlloc_v2(&cell, 64));
    while (seconds() < deadline) {
        GOOD(cuStreamCreate(&stream, seed % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
        CUfunction function = kernel("stress");
        for (int i = 0; i < 20; i++)
            ordered_writes(stream, function, cell, ++step);
        GOOD(cuEventRecord(shared_event, stream));
        GOOD(cuStreamWaitEvent(stream, shared_event, 0));
        if (seed % 2)
            graph_round(stream, function, cell);
        memory_round(stream);
        GOOD(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, NULL, NULL));
        GOOD(cuStreamSynchronize(CU_STREAM_PER_THREAD));
        GOOD(cuEventSynchronize(shared_event));
        GOOD(cuStreamDestroy_v2(stream));
    }
    GOOD(cuMemFree_v2(cell));
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    const char *length = getenv("STRESS_SECONDS");
    setenv("NVSHARE_SIM_SCALE", "0.1", 0);
    context = start();
    kernel("stress");
    OK(cuEventCreate, &shared_event, CU_EVENT_DISABLE_TIMING);
    deadline = seconds() + (length != NULL ? atof(length) : 1.0);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    OK(cuCtxSynchronize);
    TRUE_(problems == 0);
    return done();
}
