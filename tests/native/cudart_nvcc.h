/* What nvcc adds to a .cu file, written by hand: the image, its registration before main, and a host stub per kernel.
 *
 *     __global__ void scale(float *data, float by);           SCALE's stub: host_scale
 *     __global__ void sim_spin_us(unsigned long long us);     a kernel the simulator knows: takes that long
 *     __global__ void sim_wait_flag(unsigned *flag, unsigned value);   one that runs until the flag has the value
 *     __global__ void sim_trap();                             and one that breaks its context
 *     __device__ int counter[4];                              host_counter stands for it
 *     __managed__ int shared_counter;                         host_shared points to it once the module is initialised
 *
 * `kernel<<<grid, block, shared, stream>>>(args)` is: push the configuration, call the stub; the stub pops it and calls
 * cudaLaunchKernel with its own address, or, as of CUDA 13, __cudaLaunchKernel with the handle it asked for once.
 */
#ifndef CUDART_NVCC_H
#define CUDART_NVCC_H

#include <string.h>

#include "cudart_runtime.h"

static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                          ".visible .global .align 4 .b8 counter[16];\n"
                          ".visible .global .attribute(.managed) .align 4 .b8 shared_counter[4];\n"
                          ".visible .entry scale(.param .u64 data, .param .f32 by)\n{\n\tret;\n}\n"
                          ".visible .entry sim_spin_us(.param .u64 us)\n{\n\tret;\n}\n"
                          ".visible .entry sim_wait_flag(.param .u64 flag, .param .u64 value)\n{\n\tret;\n}\n"
                          ".visible .entry sim_trap()\n{\n\ttrap;\n}\n";

/* A fat binary: a header, then one entry of kind 1 (PTX text) after its own header. */
static struct {
    unsigned magic;
    unsigned short version, header_bytes;
    unsigned long long bytes;
    unsigned short kind, entry_version;
    unsigned entry_header_bytes;
    unsigned long long entry_bytes;
    unsigned unused0[2];
    unsigned short minor, major;
    unsigned arch;
    unsigned long long unused1[4];
    char text[sizeof ptx];
} image = {.magic = 0xba55ed50,
           .version = 1,
           .header_bytes = 16,
           .bytes = 64 + sizeof ptx,
           .kind = 1,
           .entry_version = 0x101,
           .entry_header_bytes = 64,
           .entry_bytes = sizeof ptx,
           .arch = 80};

static struct {
    int magic, version;
    const void *data;
    void *more;
} wrapper = {0x466243b1, 1, &image, NULL};

static void **fat_binary;
static int host_counter[4];
static int *host_shared;

#if NVS_CUDART_MAJOR == 12
#define STUB_LAUNCH(stub, args) (void)cudaLaunchKernel((const void *)stub, grid, block, args, shared, stream)
#else
#define STUB_LAUNCH(stub, args)                                                                                        \
    do {                                                                                                               \
        static cudaKernel_t handle;                                                                                    \
        if (handle == NULL)                                                                                            \
            (void)__cudaGetKernel(&handle, (const void *)stub);                                                        \
        (void)__cudaLaunchKernel(handle, grid, block, args, shared, stream);                                           \
    } while (0)
#endif
/* The stub of one kernel: what it does with the configuration and its arguments' addresses. */
#define STUB_BODY(stub, args)                                                                                          \
    dim3 grid, block;                                                                                                  \
    size_t shared;                                                                                                     \
    cudaStream_t stream;                                                                                               \
    if (__cudaPopCallConfiguration(&grid, &block, &shared, &stream) == cudaSuccess)                                    \
    STUB_LAUNCH(stub, args)

static void host_scale(float *data, float by)
{
    void *args[] = {&data, &by};
    STUB_BODY(host_scale, args);
}

static void host_spin(unsigned long long us)
{
    void *args[] = {&us};
    STUB_BODY(host_spin, args);
}

static void host_wait(volatile unsigned *flag, unsigned long long value)
{
    void *args[] = {(void *)&flag, &value};
    STUB_BODY(host_wait, args);
}

static void host_trap(void)
{
    STUB_BODY(host_trap, NULL);
}

/* <<<grid, block, 0, stream>>> */
#define LAUNCH(grid, block, stream, call) (__cudaPushCallConfiguration(grid, block, 0, stream) ? (void)0 : (void)(call))
#define DIM(x) ((dim3){x, 1, 1})

static void __attribute__((destructor)) unregister(void)
{
    __cudaUnregisterFatBinary(fat_binary);
}

static void __attribute__((constructor)) registered(void)
{
    memcpy(image.text, ptx, sizeof ptx);
    fat_binary = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(fat_binary, (const char *)host_scale, (char *)"scale", "scale", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFunction(fat_binary, (const char *)host_spin, (char *)"sim_spin_us", "sim_spin_us", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFunction(fat_binary, (const char *)host_wait, (char *)"sim_wait_flag", "sim_wait_flag", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFunction(fat_binary, (const char *)host_trap, (char *)"sim_trap", "sim_trap", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterVar(fat_binary, (char *)host_counter, (char *)"counter", "counter", 0, sizeof host_counter, 0, 0);
    __cudaRegisterManagedVar(fat_binary, (void **)&host_shared, (char *)"shared_counter", "shared_counter", 0, 4, 0, 0);
    __cudaRegisterFatBinaryEnd(fat_binary);
}

#endif
