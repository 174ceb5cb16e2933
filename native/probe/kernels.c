/* The kernels of the probes. The first has the name and the parameters of a special kernel of the simulated GPU
 * (docs/simulated-gpu.md), so that the same program asks for the same work on both. */
#include <stdio.h>
#include <stdlib.h>

#include "probe.h"

#define BLOCKS 1024u
#define THREADS 256u

static const char ptx[] =
    ".version 6.0\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".visible .entry sim_touch(.param .u64 p_data, .param .u64 p_bytes)\n"
    "{\n"
    "  .reg .pred %p<2>;\n"
    "  .reg .b32 %r<7>;\n"
    "  .reg .b64 %d<6>;\n"
    "  ld.param.u64 %d1, [p_data];\n"
    "  ld.param.u64 %d2, [p_bytes];\n"
    "  cvta.to.global.u64 %d1, %d1;\n"
    "  mov.u32 %r1, %ctaid.x;\n"
    "  mov.u32 %r2, %ntid.x;\n"
    "  mov.u32 %r3, %tid.x;\n"
    "  mad.lo.u32 %r4, %r1, %r2, %r3;\n"
    "  mul.wide.u32 %d3, %r4, 4;\n"
    "  mov.u32 %r5, %nctaid.x;\n"
    "  mul.lo.u32 %r5, %r5, %r2;\n"
    "  mul.wide.u32 %d4, %r5, 4;\n"
    "WORD:\n"
    "  setp.ge.u64 %p1, %d3, %d2;\n"
    "  @%p1 bra DONE;\n"
    "  add.u64 %d5, %d1, %d3;\n"
    "  ld.global.u32 %r6, [%d5];\n"
    "  add.u32 %r6, %r6, 1;\n"
    "  st.global.u32 [%d5], %r6;\n"
    "  add.u64 %d3, %d3, %d4;\n"
    "  bra WORD;\n"
    "DONE:\n"
    "  ret;\n"
    "}\n"
    ".visible .entry nvshare_probe_nothing()\n"
    "{\n"
    "  ret;\n"
    "}\n";

static CUfunction touch, nothing;
static CUevent begin, end;

void probe_must(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("failed %s: %s\n", what, demo_error(result));
    exit(1);
}

void probe_fail(const char *what)
{
    printf("failed %s\n", what);
    exit(1);
}

void probe_begin(void)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction special;
    PROBE_MUST(cuInit(0));
    PROBE_MUST(cuDeviceGet(&device, 0));
    PROBE_MUST(cuDevicePrimaryCtxRetain(&context, device));
    PROBE_MUST(cuCtxSetCurrent(context));
    PROBE_MUST(cuModuleLoadData(&module, ptx));
    PROBE_MUST(cuModuleGetFunction(&touch, module, "sim_touch"));
    PROBE_MUST(cuModuleGetFunction(&nothing, module, "nvshare_probe_nothing"));
    PROBE_MUST(cuEventCreate(&begin, CU_EVENT_DEFAULT));
    PROBE_MUST(cuEventCreate(&end, CU_EVENT_DEFAULT));
    /* Only the simulated driver finds a kernel that the module does not have. */
    printf("simulated %d\n", cuModuleGetFunction(&special, module, "sim_spin_us") == CUDA_SUCCESS);
}

void probe_touch(CUdeviceptr data, uint64_t bytes)
{
    void *parameters[] = {&data, &bytes};
    PROBE_MUST(cuLaunchKernel(touch, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, parameters, NULL));
}

CUresult probe_nothing(CUstream stream)
{
    return cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

void probe_start(void) { PROBE_MUST(cuEventRecord(begin, NULL)); }

double probe_stop(void)
{
    float ms;
    PROBE_MUST(cuEventRecord(end, NULL));
    PROBE_MUST(cuEventSynchronize(end));
    PROBE_MUST(cuEventElapsedTime(&ms, begin, end));
    return ms / 1e3;
}
