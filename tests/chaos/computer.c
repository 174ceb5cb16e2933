/* A program whose result is right or wrong: a table on the GPU is read back, checked, changed and written again, with
 * kernels in between, round after round. One kernel of each round touches a large allocation, so that it moves at a switch;
 * from time to time it is freed and allocated again, whether it is under way or not.
 *
 *   computer MEMORY_MIB ROUNDS KERNEL_US SEED
 *
 * Says `ready`, and at last `right` (exit 0) or `wrong ...` (exit 1). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib_driver.h"

enum { WORDS = 1024, KERNELS = 4, ROUNDS_OF_AN_ALLOCATION = 16 };

static uint32_t expected[WORDS], found[WORDS];

static void must(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("wrong: %s gave %d\n", what, (int)result);
    exit(1);
}

static void compute(CUfunction kernel, uint64_t us)
{
    void *parameters[] = {&us};
    for (int i = 0; i < KERNELS; i++)
        must(cu.LaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), "a launch");
    must(cu.CtxSynchronize(), "waiting for the kernels");
}

static void touch(CUfunction kernel, CUdeviceptr memory, size_t bytes)
{
    void *parameters[] = {&memory, &bytes};
    must(cu.LaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), "a launch that touches memory");
}

static void check(CUdeviceptr table)
{
    must(cu.MemcpyDtoH(found, table, sizeof found), "reading back");
    if (memcmp(found, expected, sizeof found) != 0) {
        printf("wrong: what was read is not what was written\n");
        exit(1);
    }
}

int main(int count, char **words)
{
    CUcontext context;
    CUmodule module;
    CUfunction kernel, toucher;
    CUdeviceptr memory, table;
    if (count != 5 || lib_driver_find("dlsym") != 0)
        return 2;
    size_t bytes = strtoull(words[1], NULL, 10) << 20;
    unsigned rounds = (unsigned)strtoul(words[2], NULL, 10);
    uint64_t us = strtoull(words[3], NULL, 10);
    uint32_t seed = (uint32_t)strtoul(words[4], NULL, 10);
    must(cu.Init(0), "cuInit");
    must(cu.CtxCreate(&context, 0, 0), "a context");
    must(cu.ModuleLoadData(&module, ""), "a module");
    must(cu.ModuleGetFunction(&kernel, module, "sim_spin_us"), "a kernel");
    must(cu.ModuleGetFunction(&toucher, module, "sim_touch"), "a kernel");
    must(cu.MemAlloc(&memory, bytes), "memory");
    must(cu.MemAlloc(&table, sizeof expected), "memory");
    for (int i = 0; i < WORDS; i++)
        expected[i] = seed * 2654435761u + (uint32_t)i;
    must(cu.MemcpyHtoD(table, expected, sizeof expected), "writing");
    printf("ready\n");
    fflush(stdout);
    for (unsigned round = 0; round < rounds; round++) {
        if (round % ROUNDS_OF_AN_ALLOCATION == ROUNDS_OF_AN_ALLOCATION - 1) {
            must(cu.MemFree(memory), "freeing");
            must(cu.MemAlloc(&memory, bytes), "memory");
        }
        touch(toucher, memory, bytes);
        compute(kernel, us);
        check(table);
        for (int i = 0; i < WORDS; i++)
            expected[i] = expected[i] * 1664525u + round;
        must(cu.MemcpyHtoD(table, expected, sizeof expected), "writing");
    }
    check(table);
    must(cu.MemFree(memory), "freeing");
    printf("right\n");
    return 0;
}
