/* How fast memory moves, and what calls cost. */
#include <stdio.h>
#include <stdlib.h>

#include "probe.h"

#define BATCH 200u
#define SMALL (2u << 20)
#define ROOM (64u << 20) /* the driver rounds */

void probe_identity(void)
{
    static const struct { const char *name; CUdevice_attribute attribute; } table[] = {
        {"managed", CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY},
        {"concurrent", CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS},
        {"pools", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
        {"virtual_memory", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
        {"compute_major", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
        {"compute_minor", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
    };
    int version, value;
    PROBE_MUST(cuDriverGetVersion(&version));
    printf("driver_version %d\n", version);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        printf("%s %d\n", table[i].name, cuDeviceGetAttribute(&value, table[i].attribute, 0) == CUDA_SUCCESS ? value : 0);
}

static double touched(CUdeviceptr data, uint64_t bytes)
{
    probe_start();
    probe_touch(data, bytes);
    return probe_stop();
}

static double prefetched(CUdeviceptr data, uint64_t bytes, CUdevice to)
{
    probe_start();
    PROBE_MUST(cuMemPrefetchAsync(data, bytes, to, NULL));
    return probe_stop();
}

/* Memory that is first touched, moved to the host, moved back by page faults, used where it is, and moved both ways in bulk. */
void probe_moves(uint64_t bytes)
{
    CUdeviceptr data;
    PROBE_MUST(cuMemAllocManaged(&data, bytes, CU_MEM_ATTACH_GLOBAL));
    printf("bytes %llu\n", (unsigned long long)bytes);
    printf("first_touch_s %.6f\n", touched(data, bytes));
    PROBE_MUST(cuMemPrefetchAsync(data, bytes, CU_DEVICE_CPU, NULL));
    PROBE_MUST(cuCtxSynchronize());
    printf("fault_s %.6f\n", touched(data, bytes));
    printf("resident_s %.6f\n", touched(data, bytes));
    printf("out_s %.6f\n", prefetched(data, bytes, CU_DEVICE_CPU));
    printf("in_s %.6f\n", prefetched(data, bytes, 0));
    printf("after_prefetch_s %.6f\n", touched(data, bytes));
}

/* The smallest time of a batch, for one call: what other programs do to the CPU makes a batch longer, never shorter. */
void probe_launches(unsigned count)
{
    double best = 1e9;
    for (unsigned batch = 0; batch < count; batch++) {
        double began = demo_now();
        for (unsigned i = 0; i < BATCH; i++)
            PROBE_MUST(probe_nothing(NULL));
        double took = demo_now() - began;
        best = took < best ? took : best;
        PROBE_MUST(cuCtxSynchronize());
    }
    printf("launch_ns %.1f\n", best / BATCH * 1e9);
}

void probe_allocations(unsigned count)
{
    double allocate = 1e9, give_back = 1e9;
    CUdeviceptr pieces[16];
    for (unsigned batch = 0; batch < count; batch++) {
        double began = demo_now();
        for (size_t i = 0; i < 16; i++)
            PROBE_MUST(cuMemAlloc_v2(&pieces[i], SMALL));
        double middle = demo_now();
        for (size_t i = 0; i < 16; i++)
            PROBE_MUST(cuMemFree_v2(pieces[i]));
        double end = demo_now();
        allocate = middle - began < allocate ? middle - began : allocate;
        give_back = end - middle < give_back ? end - middle : give_back;
    }
    printf("allocate_ns %.1f\nfree_ns %.1f\n", allocate / 16 * 1e9, give_back / 16 * 1e9);
}

/* Works on memory until the time is over. A line for each pass: when it ended, as the whole machine counts time. */
void probe_work(uint64_t bytes, double seconds)
{
    CUdeviceptr data;
    unsigned passes = 0;
    PROBE_MUST(cuMemAlloc_v2(&data, bytes));
    probe_touch(data, bytes);
    PROBE_MUST(cuCtxSynchronize());
    double began = demo_now(), now = began;
    for (; now < began + seconds || passes == 0; passes++) {
        probe_touch(data, bytes);
        PROBE_MUST(cuCtxSynchronize());
        now = demo_now();
        printf("pass %.6f\n", now);
    }
    printf("mean_pass_s %.6f\n", (now - began) / passes);
}

/* The same, on all memory that this program is shown. */
void probe_fill(double seconds)
{
    size_t available, total;
    PROBE_MUST(cuMemGetInfo_v2(&available, &total));
    uint64_t bytes = (available - ROOM) >> 20 << 20;
    printf("bytes %llu\n", (unsigned long long)bytes);
    probe_work(bytes, seconds);
}
