/* Kernels on two GPUs that wait for each other, as collectives do: lib_collective ROUNDS BYTES.
 * In each round each GPU raises its flag and then waits, in a kernel, for the other's. */
#include <pthread.h>
#include <stdint.h>

#include "lib_check.h"
#include "lib_driver.h"

static CUdeviceptr flags;
static long rounds;
static unsigned long long bytes;
static CUcontext contexts[2];

static CUresult wait_for(CUfunction wait, CUdeviceptr flag, uint64_t value, CUstream stream)
{
    void *params[] = {&flag, &value};
    return cu.LaunchKernel(wait, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static void *rank(void *number)
{
    int me = (int)(uintptr_t)number;
    CUmodule module;
    CUfunction wait;
    CUstream stream;
    CUdeviceptr ballast;
    EQUAL(cu.CtxSetCurrent(contexts[me]), 0);
    EQUAL(cu.ModuleLoadData(&module, ""), 0);
    EQUAL(cu.ModuleGetFunction(&wait, module, "sim_wait_flag"), 0);
    EQUAL(cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0);
    EQUAL(cu.MemAlloc(&ballast, bytes), 0);
    for (long i = 1; i <= rounds; i++) {
        /* One byte per round is enough: the flag is compared as a number and never wraps within the rounds used here. */
        EQUAL(cu.MemsetD8Async(flags + (unsigned)me * 64, (unsigned char)i, 1, stream), 0);
        EQUAL(wait_for(wait, flags + (unsigned)(1 - me) * 64, (uint64_t)i, stream), 0);
        EQUAL(cu.StreamSynchronize(stream), 0);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    if (argc < 3 || lib_driver_find("procaddress") != 0)
        return 2;
    rounds = atol(argv[1]);
    bytes = strtoull(argv[2], NULL, 10);
    CHECK(rounds < 256);
    EQUAL(cu.Init(0), 0);
    for (int i = 0; i < 2; i++)
        EQUAL(cu.CtxCreate(&contexts[i], 0, i), 0);
    EQUAL(cu.MemAllocManaged(&flags, 4096, CU_MEM_ATTACH_GLOBAL), 0);
    memset((void *)(uintptr_t)flags, 0, 4096);
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, rank, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return DONE();
}
