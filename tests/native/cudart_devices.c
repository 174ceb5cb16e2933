/* The runtime's devices and errors, on a node of two cards. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cudart_check.h"
#include "cudart_runtime.h"

static void versions_and_lookup(void)
{
    int version = 0, status = -1;
    void *function = NULL;
    const void *table = &version;
    OK(cudaRuntimeGetVersion(&version));
    CHECK(version == NVS_CUDART_VERSION);
    OK(cudaDriverGetVersion(&version));
    CHECK(version >= NVS_CUDART_MAJOR * 1000);
    GIVES(cudaErrorInvalidValue, cudaRuntimeGetVersion(NULL));
    OK(cudaGetDriverEntryPoint("cuMemAlloc", &function, cudaEnableDefault, &status));
    CHECK(function != NULL && status == cudaDriverEntryPointSuccess);
    OK(cudaGetDriverEntryPoint("cuNoSuchThing", &function, cudaEnableDefault, &status));
    CHECK(function == NULL && status == cudaDriverEntryPointSymbolNotFound);
    OK(cudaGetDriverEntryPointByVersion("cuStreamQuery", &function, 12000, cudaEnablePerThreadDefaultStream, &status));
    void *legacy = NULL;
    OK(cudaGetDriverEntryPointByVersion("cuStreamQuery", &legacy, 12000, cudaEnableLegacyStream, &status));
    CHECK(function != NULL && legacy != NULL && function != legacy);
    GIVES(cudaErrorSymbolNotFound, cudaGetExportTable(&table, NULL));
    CHECK(table == NULL);
    OK(cudaProfilerStart());
    OK(cudaProfilerStop());
}

static void properties(void)
{
    struct cudaDeviceProp a, b;
    int count = 0, value = 0;
    char bus[32];
    OK(cudaGetDeviceCount(&count));
    CHECK(count == 2);
    OK(cudaGetDeviceProperties(&a, 0));
    OK(cudaGetDeviceProperties(&b, 1));
    CHECK(strlen(a.name) > 0 && memcmp(&a.uuid, &b.uuid, sizeof a.uuid) != 0);
    CHECK(a.warpSize == 32 && a.maxThreadsPerBlock == 1024 && a.maxThreadsDim[2] == 64 && a.maxGridSize[0] == 0x7fffffff);
    CHECK(a.multiProcessorCount > 0 && a.major >= 3 && a.managedMemory == 1 && a.totalGlobalMem > 1 << 20);
    CHECK(a.unifiedAddressing == 1 && a.memoryPoolsSupported == 1 && a.sharedMemPerBlock >= 48 << 10);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
    CHECK(value == a.multiProcessorCount);
    OK(cudaDeviceGetPCIBusId(bus, sizeof bus, 1));
    OK(cudaDeviceGetByPCIBusId(&value, bus));
    CHECK(value == 1 && a.pciBusID != b.pciBusID);
    GIVES(cudaErrorInvalidDevice, cudaGetDeviceProperties(&a, 2));
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, -1));
    GIVES(cudaErrorInvalidValue, cudaDeviceGetAttribute(NULL, cudaDevAttrWarpSize, 0));
}

static void *device_of_new_thread(void *out)
{
    OK(cudaGetDevice(out));
    return NULL;
}

static void the_current_device(void)
{
    int device = -1;
    unsigned flags = 99;
    size_t before, after, total;
    pthread_t thread;
    OK(cudaSetDevice(1));
    OK(cudaGetDevice(&device));
    CHECK(device == 1);
    /* A new thread starts on device 0, whatever the others do. */
    pthread_create(&thread, NULL, device_of_new_thread, &device);
    pthread_join(thread, NULL);
    CHECK(device == 0);
    GIVES(cudaErrorInvalidDevice, cudaSetDevice(7));
    OK(cudaGetDevice(&device));
    CHECK(device == 1);
    OK(cudaMemGetInfo(&before, &total));
    void *memory = NULL;
    OK(cudaMalloc(&memory, 64 << 20));
    OK(cudaMemGetInfo(&after, &total));
    CHECK(before - after >= 64 << 20);
    OK(cudaSetDevice(0));
    OK(cudaMemGetInfo(&after, &total));
    CHECK(after != before - (64 << 20)); /* the other card */
    OK(cudaSetDevice(1));
    OK(cudaFree(memory));
    OK(cudaGetDeviceFlags(&flags));
    CHECK(flags != 99);
    OK(cudaInitDevice(0, 0, 0));
    OK(cudaSetDeviceFlags(4));
    OK(cudaGetDeviceFlags(&flags));
    CHECK((flags & 7) == 4);
}

static void peers_and_limits(void)
{
    int can = -1, value = -1, config = -1, least, greatest;
    size_t limit = 0;
    cudaMemPool_t first, second;
    OK(cudaDeviceCanAccessPeer(&can, 0, 1));
    CHECK(can == 0 || can == 1);
    OK(cudaDeviceGetP2PAttribute(&value, 2 /* access supported */, 0, 1));
    CHECK(value == can);
    OK(cudaSetDevice(0));
    if (can) {
        OK(cudaDeviceEnablePeerAccess(1, 0));
        GIVES(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(1, 0));
        OK(cudaDeviceDisablePeerAccess(1));
        GIVES(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(1));
    } else {
        GIVES(cudaErrorPeerAccessUnsupported, cudaDeviceEnablePeerAccess(1, 0));
        GIVES(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(1));
    }
    OK(cudaDeviceSetLimit(2 /* malloc heap */, 16 << 20));
    OK(cudaDeviceGetLimit(&limit, 2));
    CHECK(limit == 16 << 20);
    OK(cudaDeviceSetCacheConfig(1));
    OK(cudaDeviceGetCacheConfig(&config));
    CHECK(config == 1);
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(least >= greatest && greatest < 0);
    OK(cudaDeviceGetDefaultMemPool(&first, 0));
    OK(cudaDeviceGetMemPool(&second, 0));
    CHECK(first == second && first != NULL);
    OK(cudaDeviceSetMemPool(0, first));
    OK(cudaDeviceGraphMemTrim(0));
}

static void *clean_thread(void *out)
{
    *(cudaError_t *)out = cudaPeekAtLastError();
    return NULL;
}

static void last_errors(void)
{
    void *memory = NULL;
    cudaError_t other = -1;
    pthread_t thread;
    while (cudaGetLastError() != cudaSuccess)
        continue;
    GIVES(cudaErrorMemoryAllocation, cudaMalloc(&memory, (size_t)1 << 50));
    GIVES(cudaErrorMemoryAllocation, cudaPeekAtLastError());
    OK(cudaDeviceSynchronize()); /* a call that succeeds does not clear it */
    pthread_create(&thread, NULL, clean_thread, &other);
    pthread_join(thread, NULL);
    CHECK(other == cudaSuccess); /* it is this thread's */
    GIVES(cudaErrorMemoryAllocation, cudaGetLastError());
    GIVES(cudaSuccess, cudaGetLastError());
    CHECK(strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation") == 0);
    CHECK(strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);
    CHECK(strcmp(cudaGetErrorName(12345), "unrecognized error code") == 0);
}

static void after_a_reset_the_device_is_empty(void)
{
    size_t before, after, total;
    void *memory = NULL;
    OK(cudaSetDevice(0));
    OK(cudaMemGetInfo(&before, &total));
    OK(cudaMalloc(&memory, 128 << 20));
    OK(cudaDeviceReset());
    OK(cudaMemGetInfo(&after, &total));
    CHECK(after >= before);
    OK(cudaMalloc(&memory, 1 << 20));
    OK(cudaFree(memory));
}

int main(void)
{
    versions_and_lookup();
    properties();
    the_current_device();
    peers_and_limits();
    last_errors();
    after_a_reset_the_device_is_empty();
    return failures != 0;
}
