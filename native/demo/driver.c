#include "driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCKS 256u
#define THREADS 256u

/* for (round = rounds; round; round--) for (i = thread; i < words; i += threads) data[i] += 1; */
static const char pass_ptx[] =
    ".version 6.0\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".visible .entry nvshare_demo_pass(.param .u64 p_data, .param .u64 p_words, .param .u32 p_rounds)\n"
    "{\n"
    "  .reg .pred %p<3>;\n"
    "  .reg .b32 %r<8>;\n"
    "  .reg .b64 %d<9>;\n"
    "  ld.param.u64 %d1, [p_data];\n"
    "  ld.param.u64 %d2, [p_words];\n"
    "  ld.param.u32 %r1, [p_rounds];\n"
    "  cvta.to.global.u64 %d1, %d1;\n"
    "  mov.u32 %r2, %ctaid.x;\n"
    "  mov.u32 %r3, %ntid.x;\n"
    "  mov.u32 %r4, %tid.x;\n"
    "  mad.lo.u32 %r5, %r2, %r3, %r4;\n"
    "  cvt.u64.u32 %d3, %r5;\n"
    "  mov.u32 %r6, %nctaid.x;\n"
    "  mul.lo.u32 %r6, %r6, %r3;\n"
    "  cvt.u64.u32 %d4, %r6;\n"
    "ROUND:\n"
    "  setp.eq.u32 %p1, %r1, 0;\n"
    "  @%p1 bra DONE;\n"
    "  sub.u32 %r1, %r1, 1;\n"
    "  mov.u64 %d5, %d3;\n"
    "WORD:\n"
    "  setp.ge.u64 %p2, %d5, %d2;\n"
    "  @%p2 bra ROUND;\n"
    "  shl.b64 %d6, %d5, 2;\n"
    "  add.u64 %d7, %d1, %d6;\n"
    "  ld.global.u32 %r7, [%d7];\n"
    "  add.u32 %r7, %r7, 1;\n"
    "  st.global.u32 [%d7], %r7;\n"
    "  add.u64 %d5, %d5, %d4;\n"
    "  bra WORD;\n"
    "DONE:\n"
    "  ret;\n"
    "}\n";

static CUfunction pass;

const char *demo_error(CUresult result)
{
    const char *name = NULL;
    return cuGetErrorName(result, &name) == CUDA_SUCCESS && name != NULL ? name : "an unknown error";
}

void demo_must(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("failed %s\n", demo_error(result));
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", what, demo_error(result));
    exit(result == CUDA_ERROR_OUT_OF_MEMORY ? 3 : 1);
}

void demo_begin(int index)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    DEMO_MUST(cuInit(0));
    DEMO_MUST(cuDeviceGet(&device, index));
    DEMO_MUST(cuDevicePrimaryCtxRetain(&context, device));
    DEMO_MUST(cuCtxSetCurrent(context));
    DEMO_MUST(cuModuleLoadData(&module, pass_ptx));
    DEMO_MUST(cuModuleGetFunction(&pass, module, "nvshare_demo_pass"));
}

CUresult demo_pass(CUdeviceptr data, uint64_t bytes, uint32_t rounds)
{
    uint64_t words = bytes / 4;
    void *parameters[] = {&data, &words, &rounds};
    return cuLaunchKernel(pass, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, parameters, NULL);
}

double demo_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

uint64_t demo_bytes(const char *text)
{
    static const struct { const char *suffix; uint64_t factor; } units[] = {
        {"", 1}, {"Ki", 1ull << 10}, {"Mi", 1ull << 20}, {"Gi", 1ull << 30},
    };
    char *end;
    uint64_t number = strtoull(text, &end, 10);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (end != text && strcmp(end, units[i].suffix) == 0)
            return number * units[i].factor;
    fprintf(stderr, "%s is not a number of bytes\n", text);
    exit(2);
}
