/* A program that works and pauses as it is told: one command per line on stdin, one answer per line on stdout.
 *
 *   alloc BYTES
 *   pulse SECONDS KERNEL_US KERNELS PAUSE_US STREAMS [graph]
 *
 * A pulse launches so many kernels on each stream, waits for them and pauses, for so long. STREAMS 0: the legacy stream.
 * "graph": the kernels of a stream are a graph, captured at the begin. */
#include <stdint.h>
#include <time.h>

#include "lib_check.h"
#include "lib_driver.h"

enum { MOST_STREAMS = 64 };

static CUfunction spin;
static CUstream streams[MOST_STREAMS];
static CUgraphExec graphs[MOST_STREAMS];

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void pause_us(long us)
{
    struct timespec left = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    while (us && nanosleep(&left, &left) != 0)
        ;
}

static void launch(uint64_t us, long kernels, CUstream stream)
{
    void *params[] = {&us};
    for (long i = 0; i < kernels; i++)
        EQUAL(cu.LaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL), 0);
}

static void make_graphs(uint64_t us, long kernels, int count)
{
    for (int i = 0; i < count; i++) {
        CUgraph graph;
        EQUAL(cu.StreamBeginCapture(streams[i], CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
        launch(us, kernels, streams[i]);
        EQUAL(cu.StreamEndCapture(streams[i], &graph), 0);
        EQUAL(cu.GraphInstantiateWithFlags(&graphs[i], graph, 0), 0);
        EQUAL(cu.GraphDestroy(graph), 0);
    }
}

static void pulse(double seconds, uint64_t us, long kernels, long pause, int count, int as_graph)
{
    long pulses = 0;
    for (int i = 0; i < count; i++)
        if (!streams[i])
            EQUAL(cu.StreamCreate(&streams[i], 0), 0);
    if (as_graph)
        make_graphs(us, kernels, count);
    for (double end = now() + seconds; now() < end; pulses++) {
        for (int i = 0; i < (count ? count : 1); i++)
            if (as_graph)
                EQUAL(cu.GraphLaunch(graphs[i], streams[i]), 0);
            else
                launch(us, kernels, count ? streams[i] : NULL);
        EQUAL(cu.CtxSynchronize(), 0);
        pause_us(pause);
    }
    printf("0 %ld\n", pulses);
}

int main(void)
{
    char line[256], how[16];
    CUcontext context;
    CUmodule module;
    CUdeviceptr memory;
    CHECK(lib_driver_find("dlsym") == 0);
    EQUAL(cu.Init(0), 0);
    EQUAL(cu.CtxCreate(&context, 0, 0), 0);
    EQUAL(cu.ModuleLoadData(&module, ""), 0);
    EQUAL(cu.ModuleGetFunction(&spin, module, "sim_spin_us"), 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("ready\n");
    while (fgets(line, sizeof line, stdin)) {
        unsigned long long bytes, us;
        double seconds;
        long kernels, pause;
        int count, code;
        if (sscanf(line, "alloc %llu", &bytes) == 1) {
            printf("%d\n", cu.MemAlloc(&memory, bytes));
        } else if (sscanf(line, "exit %d", &code) == 1) {
            return code;
        } else {
            *how = '\0';
            CHECK(sscanf(line, "pulse %lf %llu %ld %ld %d %15s", &seconds, &us, &kernels, &pause, &count, how) >= 5);
            CHECK(count <= MOST_STREAMS);
            pulse(seconds, us, kernels, pause, count, !strcmp(how, "graph"));
        }
    }
    return 0;
}
