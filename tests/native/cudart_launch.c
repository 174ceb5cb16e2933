/* A program as nvcc makes it: registered kernels and variables, <<<>>>, streams, events, callbacks. */
#include <stdatomic.h>
#include <stdint.h>

#include "cudart_check.h"
#include "cudart_nvcc.h"

static void a_launch_goes_through_the_stub(void)
{
    float *data;
    OK(cudaMalloc((void **)&data, 1024));
    LAUNCH(DIM(4), DIM(256), 0, host_scale(data, 2.0f));
    OK(cudaGetLastError());
    OK(cudaDeviceSynchronize());
    LAUNCH(DIM(4), DIM(0), 0, host_scale(data, 2.0f));
    GIVES(cudaErrorInvalidConfiguration, cudaGetLastError());
    LAUNCH(DIM(4), DIM(4096), 0, host_scale(data, 2.0f));
    GIVES(cudaErrorInvalidConfiguration, cudaGetLastError());
    void *args[] = {&data};
    GIVES(cudaErrorInvalidDeviceFunction, cudaLaunchKernel((const void *)0x1000, DIM(1), DIM(1), args, 0, 0));
    GIVES(cudaErrorInvalidDeviceFunction, cudaGetLastError());
    dim3 a, b;
    size_t shared;
    cudaStream_t stream;
    GIVES(cudaErrorMissingConfiguration, __cudaPopCallConfiguration(&a, &b, &shared, &stream));
    GIVES(cudaErrorMissingConfiguration, cudaGetLastError());
    CHECK(__cudaInitModule(fat_binary) == 1);
    cudaKernel_t kernel = NULL;
    OK(__cudaGetKernel(&kernel, (const void *)host_scale));
    CHECK(kernel != NULL);
    OK(__cudaLaunchKernel(kernel, DIM(1), DIM(32), args, 0, 0));
    OK(__cudaLaunchKernel_ptsz(kernel, DIM(1), DIM(32), args, 0, 0));
    GIVES(cudaErrorInvalidDeviceFunction, __cudaLaunchKernel(NULL, DIM(1), DIM(32), args, 0, 0));
    GIVES(cudaErrorInvalidDeviceFunction, cudaGetLastError());
    OK(cudaDeviceSynchronize());
    OK(cudaFree(data));
}

static void other_ways_to_launch(void)
{
    unsigned long long us = 10;
    void *args[] = {&us};
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    cudaLaunchConfig_t config = {.gridDim = {1, 1, 1}, .blockDim = {32, 1, 1}, .stream = stream};
    OK(cudaLaunchKernelExC(&config, (const void *)host_spin, args));
    GIVES(cudaErrorInvalidValue, cudaLaunchKernelExC(NULL, (const void *)host_spin, args));
    OK(cudaLaunchCooperativeKernel((const void *)host_spin, DIM(1), DIM(32), args, 0, stream));
    OK(cudaLaunchKernel_ptsz((const void *)host_spin, DIM(1), DIM(32), args, 0, 0));
    OK(cudaStreamSynchronize(stream));
    OK(cudaDeviceSynchronize());
    OK(cudaStreamDestroy(stream));
}

static void what_is_known_of_a_kernel(void)
{
    struct cudaFuncAttributes what;
    cudaFunction_t function = NULL;
    cudaKernel_t kernel = NULL;
    int blocks = 0;
    size_t bytes = 0;
    OK(cudaFuncGetAttributes(&what, (const void *)host_scale));
    CHECK(what.maxThreadsPerBlock == 1024 && what.numRegs > 0);
    OK(cudaFuncSetAttribute((const void *)host_scale, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
    OK(cudaFuncGetAttributes(&what, (const void *)host_scale));
    CHECK(what.maxDynamicSharedSizeBytes == 65536);
    OK(cudaFuncSetCacheConfig((const void *)host_scale, 1));
    OK(cudaGetFuncBySymbol(&function, (const void *)host_scale));
    OK(cudaGetKernel(&kernel, (const void *)host_scale));
    CHECK(function != NULL && kernel != NULL);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)host_scale, 256, 0));
    CHECK(blocks > 0);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, (const void *)host_scale, 1024, 0, 1));
    CHECK(blocks > 0);
    OK(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, (const void *)host_scale, 1, 256));
    CHECK(bytes > 0);
    GIVES(cudaErrorInvalidDeviceFunction, cudaFuncGetAttributes(&what, &what));
}

static void device_variables(void)
{
    int in[4] = {1, 2, 3, 4}, out[4] = {0};
    void *address = NULL;
    size_t bytes = 0;
    OK(cudaGetSymbolAddress(&address, host_counter));
    OK(cudaGetSymbolSize(&bytes, host_counter));
    CHECK(address != NULL && bytes == sizeof in);
    OK(cudaMemcpyToSymbol(host_counter, in, sizeof in, 0, cudaMemcpyHostToDevice));
    OK(cudaMemcpyFromSymbol(out, host_counter, 8, 8, cudaMemcpyDeviceToHost));
    CHECK(out[0] == 3 && out[1] == 4);
    OK(cudaMemcpyToSymbolAsync(host_counter, &in[3], 4, 0, cudaMemcpyHostToDevice, 0));
    OK(cudaMemcpyFromSymbolAsync(out, host_counter, 4, 0, cudaMemcpyDeviceToHost, 0));
    OK(cudaDeviceSynchronize());
    CHECK(out[0] == 4);
    GIVES(cudaErrorInvalidValue, cudaMemcpyToSymbol(host_counter, in, sizeof in, 4, cudaMemcpyHostToDevice));
    GIVES(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&address, &in));
    /* A managed variable is the host's as well: its pointer is set when the module is initialised. */
    CHECK(__cudaInitModule(fat_binary) == 1);
    CHECK(host_shared != NULL);
    if (host_shared != NULL) {
        *host_shared = 41;
        OK(cudaMemcpyFromSymbol(out, &host_shared, 4, 0, cudaMemcpyDefault));
        CHECK(out[0] == 41);
    }
}

static void code_loaded_at_run_time(void)
{
    cudaLibrary_t library;
    cudaKernel_t kernel = NULL, all[4];
    unsigned count = 0;
    unsigned long long us = 5;
    void *args[] = {&us}, *address = NULL;
    size_t bytes = 0;
    const char *name = NULL;
    OK(cudaLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cudaLibraryGetKernel(&kernel, library, "sim_spin_us"));
    GIVES(cudaErrorSymbolNotFound, cudaLibraryGetKernel(&all[0], library, "absent"));
    OK(cudaLibraryGetKernelCount(&count, library));
    CHECK(count == 4);
    OK(cudaLibraryEnumerateKernels(all, 4, library));
    CHECK(all[0] == kernel || all[1] == kernel || all[2] == kernel || all[3] == kernel);
    OK(cudaLibraryGetGlobal(&address, &bytes, library, "counter"));
    CHECK(address != NULL && bytes >= 16);
    OK(cudaLibraryGetManaged(&address, &bytes, library, "shared_counter"));
    CHECK(address != NULL && bytes >= 4);
    OK(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 50, 0));
    OK(cudaLaunchKernel((const void *)kernel, DIM(1), DIM(32), args, 0, 0)); /* a handle stands for a host function */
    OK(cudaDeviceSynchronize());
    OK(cudaFuncGetName(&name, (const void *)host_scale));
    CHECK(name != NULL && strcmp(name, "scale") == 0);
    OK(cudaLibraryUnload(library));
    GIVES(cudaErrorInvalidDeviceFunction, cudaLaunchKernel((const void *)kernel, DIM(1), DIM(32), args, 0, 0));
    GIVES(cudaErrorFileNotFound, cudaLibraryLoadFromFile(&library, "/nowhere/code.cubin", NULL, NULL, 0, NULL, NULL, 0));
    GIVES(cudaErrorFileNotFound, cudaGetLastError());
}

static void count_call(void *counter)
{
    atomic_fetch_add((_Atomic int *)counter, 1);
}

static void count_callback(cudaStream_t stream, cudaError_t status, void *counter)
{
    (void)stream;
    atomic_fetch_add((_Atomic int *)counter, status == cudaSuccess ? 10 : 1000);
}

static void streams_and_events(void)
{
    _Atomic int counter = 0;
    volatile unsigned *flag;
    int priority = 99;
    unsigned flags = 0;
    unsigned long long id = 0, own = 0;
    float ms = -1;
    cudaStream_t stream, other;
    cudaEvent_t start, stop, plain;
    OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -1));
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    OK(cudaStreamGetPriority(stream, &priority));
    OK(cudaStreamGetFlags(stream, &flags));
    OK(cudaStreamGetId(stream, &id));
    OK(cudaStreamGetId_ptsz(0, &own));
    CHECK(priority == -1 && flags == cudaStreamNonBlocking && id != own);
    OK(cudaEventCreate(&start));
    OK(cudaEventCreateWithFlags(&stop, 0));
    OK(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
    OK(cudaMallocHost((void **)&flag, sizeof *flag));
    *flag = 0;
    OK(cudaEventRecord(start, stream));
    LAUNCH(DIM(1), DIM(32), stream, host_spin(20000));
    LAUNCH(DIM(1), DIM(32), stream, host_wait(flag, 1));
    OK(cudaEventRecordWithFlags(stop, stream, 0));
    GIVES(cudaErrorNotReady, cudaStreamQuery(stream));
    GIVES(cudaErrorNotReady, cudaEventQuery(stop));
    GIVES(cudaSuccess, cudaPeekAtLastError()); /* "not ready" is an answer */
    OK(cudaStreamWaitEvent(other, stop, 0));
    OK(cudaLaunchHostFunc(other, count_call, &counter));
    OK(cudaStreamAddCallback(other, count_callback, &counter, 0));
    CHECK(atomic_load(&counter) == 0);
    *flag = 1;
    OK(cudaEventSynchronize(stop));
    OK(cudaStreamSynchronize(other));
    CHECK(atomic_load(&counter) == 11);
    OK(cudaEventElapsedTime(&ms, start, stop));
    CHECK(ms >= 19.0f);
    OK(cudaFreeHost((void *)flag));
    OK(cudaStreamQuery(stream));
    OK(cudaStreamQuery_ptsz(0));
    char value[64] = {0}, other_value[64] = {0};
    *(int *)value = 2; /* synchronisation policy: yield */
    OK(cudaStreamSetAttribute(stream, 3, value));
    OK(cudaStreamCopyAttributes(other, stream));
    OK(cudaStreamGetAttribute(other, 3, other_value));
    CHECK(*(int *)other_value == 2);
    OK(cudaCtxResetPersistingL2Cache());
#if NVS_CUDART_MAJOR == 12
    OK(cudaThreadSynchronize());
#endif
    OK(cudaEventRecord(plain, stream));
    OK(cudaEventSynchronize(plain));
    CHECK(cudaEventElapsedTime(&ms, start, plain) == cudaErrorInvalidResourceHandle);
    cudaGetLastError();
    OK(cudaEventDestroy(start));
    OK(cudaEventDestroy(stop));
    OK(cudaEventDestroy(plain));
    OK(cudaStreamDestroy(stream));
    OK(cudaStreamDestroy(other));
}

int main(void)
{
    a_launch_goes_through_the_stub();
    other_ways_to_launch();
    what_is_known_of_a_kernel();
    device_variables();
    code_loaded_at_run_time();
    streams_and_events();
    return failures != 0;
}
