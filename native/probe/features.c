/* Whether the ways in which programs use a GPU work. Each answer is checked by values that went through the GPU. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

#define WORDS 4096u
#define PIECE (4u << 20)

static void expect(CUdeviceptr data, uint32_t value)
{
    static uint32_t words[WORDS];
    PROBE_MUST(cuMemcpyDtoH_v2(words, data, sizeof words));
    for (size_t i = 0; i < WORDS; i++)
        if (words[i] != value) {
            printf("failed word %zu is %u instead of %u\n", i, words[i], value);
            exit(1);
        }
}

/* A captured graph of a memset and a kernel, launched twice. */
void probe_graphs(void)
{
    CUdeviceptr data;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    PROBE_MUST(cuMemAlloc_v2(&data, PIECE));
    PROBE_MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    PROBE_MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    PROBE_MUST(cuMemsetD32Async(data, 7, WORDS, stream));
    PROBE_MUST(probe_nothing(stream));
    PROBE_MUST(cuStreamEndCapture(stream, &graph));
    PROBE_MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 2; i++) {
        PROBE_MUST(cuMemsetD32Async(data, 0, WORDS, stream));
        PROBE_MUST(cuGraphLaunch(exec, stream));
        PROBE_MUST(cuStreamSynchronize(stream));
        expect(data, 7);
    }
    puts("launched 2");
}

void probe_pools(void)
{
    CUdeviceptr data;
    CUstream stream;
    PROBE_MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    PROBE_MUST(cuMemAllocAsync(&data, PIECE, stream));
    PROBE_MUST(cuMemsetD32Async(data, 9, WORDS, stream));
    PROBE_MUST(cuStreamSynchronize(stream));
    expect(data, 9);
    PROBE_MUST(cuMemFreeAsync(data, stream));
    PROBE_MUST(cuStreamSynchronize(stream));
    puts("allocated 1");
}

void probe_virtual_memory(void)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUmemAccessDesc access = {.location.type = CU_MEM_LOCATION_TYPE_DEVICE, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr data;
    size_t grain;
    PROBE_MUST(cuMemGetAllocationGranularity(&grain, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    size_t bytes = (PIECE + grain - 1) / grain * grain;
    PROBE_MUST(cuMemAddressReserve(&data, bytes, 0, 0, 0));
    PROBE_MUST(cuMemCreate(&handle, bytes, &properties, 0));
    PROBE_MUST(cuMemMap(data, bytes, 0, handle, 0));
    PROBE_MUST(cuMemRelease(handle));
    PROBE_MUST(cuMemSetAccess(data, bytes, &access, 1));
    PROBE_MUST(cuMemsetD32Async(data, 11, WORDS, NULL));
    PROBE_MUST(cuCtxSynchronize());
    expect(data, 11);
    PROBE_MUST(cuMemUnmap(data, bytes));
    PROBE_MUST(cuMemAddressFree(data, bytes));
    puts("mapped 1");
}

static void use(void)
{
    CUdeviceptr data;
    probe_begin();
    PROBE_MUST(cuMemAlloc_v2(&data, PIECE));
    PROBE_MUST(cuMemsetD32Async(data, 13, WORDS, NULL));
    PROBE_MUST(cuCtxSynchronize());
    expect(data, 13);
}

static void await_child(pid_t child, const char *what)
{
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        probe_fail(what);
}

/* A child that was forked before CUDA was used uses it beside its parent; one that was forked later only ends. */
void probe_fork(void)
{
    pid_t early = fork();
    use();
    fflush(stdout);
    if (early == 0)
        exit(0);
    await_child(early, "a child that was forked before CUDA was used did not end well");
    pid_t late = fork();
    if (late == 0)
        exit(0);
    await_child(late, "a child that was forked after CUDA was used did not end well");
    puts("children 2");
}

/* Memory from cuMemAlloc must look like device memory. */
void probe_pointers(void)
{
    CUdeviceptr data;
    unsigned managed = 2, type = 0;
    PROBE_MUST(cuMemAlloc_v2(&data, PIECE));
    PROBE_MUST(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, data));
    PROBE_MUST(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, data));
    if (managed != 0 || type != CU_MEMORYTYPE_DEVICE)
        probe_fail("memory from cuMemAlloc does not look like device memory");
    puts("device 1");
}

/* What managed memory cannot do, small memory can: a stream writes a value, and there is an IPC handle. */
void probe_small_memory(void)
{
    CUdeviceptr data;
    CUipcMemHandle handle;
    uint32_t value = 0;
    PROBE_MUST(cuMemAlloc_v2(&data, 4096));
    CUresult written = cuStreamWriteValue32_v2(NULL, data, 17, 0);
    PROBE_MUST(cuCtxSynchronize());
    PROBE_MUST(cuMemcpyDtoH_v2(&value, data, sizeof value));
    printf("stream_value %d\n", written == CUDA_SUCCESS && value == 17);
    printf("ipc_handle %d\n", cuIpcGetMemHandle(&handle, data) == CUDA_SUCCESS);
}

/* The GPU's memory as NVML shows it to this program, beside what CUDA shows. */
void probe_nvml(void)
{
    struct { unsigned long long total, free, used; } memory;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW), *device = NULL;
    if (library == NULL)
        probe_fail("libnvidia-ml.so.1 cannot be loaded");
    int (*init)(void) = (int (*)(void))dlsym(library, "nvmlInit_v2");
    int (*find)(const char *, void **) = (int (*)(const char *, void **))dlsym(library, "nvmlDeviceGetHandleByUUID");
    int (*ask)(void *, void *) = (int (*)(void *, void *))dlsym(library, "nvmlDeviceGetMemoryInfo");
    const char *uuid = getenv("CUDA_VISIBLE_DEVICES");
    if (init == NULL || find == NULL || ask == NULL || uuid == NULL || init() != 0 || find(uuid, &device) != 0)
        probe_fail("NVML does not find the GPU");
    int result = ask(device, &memory);
    size_t available, total;
    PROBE_MUST(cuMemGetInfo_v2(&available, &total));
    printf("cuda_total %zu\nnvml_error %d\n", total, result);
    if (result == 0)
        printf("nvml_total %llu\n", memory.total);
}
