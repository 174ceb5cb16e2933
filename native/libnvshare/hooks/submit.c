/* Every call that submits work enters the gate of the GPU it runs on. Most bodies are generated from symbols.def. */
#include "base/cancellation.h"
#include "gate/enter.h"
#include "gate/streams.h"
#include "gpu.h"
#include "hooks/uses.h"
#include "process.h"

#define NVS_STREAM(name, symbol, since, variant, stream, params, args) \
    CUresult symbol params \
    { \
        bool entered = nvs_enter(nvs_stream_handle(stream, variant)); \
        NVS_USES(symbol); \
        CUresult result = nvs_real.symbol args; \
        nvs_leave(entered); \
        return result; \
    }
#define NVS_SYNC(name, symbol, since, variant, params, args) \
    NVS_STREAM(name, symbol, since, variant, (CUstream)NULL, params, args)
#include "lookup/symbols.def"

/* The GPU of a context, as a bit; 0 if it is not known. */
static uint64_t bit_of(CUcontext context)
{
    CUcontext popped;
    CUdevice device = -1;
    if (!context || nvs_real.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return 0;
    CUresult result = nvs_real.cuCtxGetDevice(&device);
    nvs_real.cuCtxPopCurrent_v2(&popped);
    return result == CUDA_SUCCESS && device >= 0 && device < nvs_gpu_count ? UINT64_C(1) << device : 0;
}

static bool enter_both(CUcontext one, CUcontext other, uintptr_t stream)
{
    return nvs_process_ready() && nvs_enter_several(bit_of(one) | bit_of(other), stream);
}

#define PEER(symbol, variant, one, other, stream, params, args) \
    CUresult symbol params \
    { \
        bool entered = enter_both(one, other, nvs_stream_handle(stream, variant)); \
        NVS_USES(symbol); \
        CUresult result = nvs_real.symbol args; \
        nvs_leave(entered); \
        return result; \
    }

PEER(cuMemcpyPeer, NVS_LEGACY, dc, sc, (CUstream)NULL, (CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n), (d, dc, s, sc, n))
PEER(cuMemcpyPeer_ptds, NVS_PTDS, dc, sc, (CUstream)NULL, (CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n), (d, dc, s, sc, n))
PEER(cuMemcpyPeerAsync, NVS_LEGACY, dc, sc, st, (CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n, CUstream st), (d, dc, s, sc, n, st))
PEER(cuMemcpyPeerAsync_ptsz, NVS_PTDS, dc, sc, st, (CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n, CUstream st), (d, dc, s, sc, n, st))
PEER(cuMemcpy3DPeer, NVS_LEGACY, c ? c->dstContext : NULL, c ? c->srcContext : NULL, (CUstream)NULL, (const CUDA_MEMCPY3D_PEER *c), (c))
PEER(cuMemcpy3DPeer_ptds, NVS_PTDS, c ? c->dstContext : NULL, c ? c->srcContext : NULL, (CUstream)NULL, (const CUDA_MEMCPY3D_PEER *c), (c))
PEER(cuMemcpy3DPeerAsync, NVS_LEGACY, c ? c->dstContext : NULL, c ? c->srcContext : NULL, st, (const CUDA_MEMCPY3D_PEER *c, CUstream st), (c, st))
PEER(cuMemcpy3DPeerAsync_ptsz, NVS_PTDS, c ? c->dstContext : NULL, c ? c->srcContext : NULL, st, (const CUDA_MEMCPY3D_PEER *c, CUstream st), (c, st))

CUresult cuLaunchCooperativeKernelMultiDevice(struct nvs_launch_params *list, unsigned count, unsigned flags)
{
    uint64_t mask = 0;
    bool entered = false;
    if (nvs_process_ready() && list && count && count <= NVS_MAX_GPUS) {
        NVS_NO_CANCELLATION;
        for (unsigned i = 0; i < count; i++) {
            CUcontext context = NULL;
            if (nvs_real.cuStreamGetCtx(list[i].stream, &context) == CUDA_SUCCESS)
                mask |= bit_of(context);
        }
        for (unsigned i = 1; i < count; i++) { /* all of these streams must be drained, not only the first */
            struct nvs_stream_use use;
            if (nvs_stream_use((uintptr_t)list[i].stream, 1, &use))
                nvs_stream_note(&use);
        }
        entered = nvs_enter_several(mask, (uintptr_t)list[0].stream);
    }
    CUresult result = nvs_real.cuLaunchCooperativeKernelMultiDevice(list, count, flags);
    nvs_leave(entered);
    return result;
}
