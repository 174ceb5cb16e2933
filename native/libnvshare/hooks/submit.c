/* Every call that submits work enters the gate of the GPU it runs on. Most bodies are generated from symbols.def.
 *
 * Each has three functions with the same arguments, because arguments on the stack are expensive to pass on:
 * - The one that the program calls chooses by nvs_enter_mode and jumps: the arguments stay where they are.
 * - `_fast` calls nothing before the driver, so hardly any register has to be saved.
 * - `_slowly` is the rest. Where there are several GPUs, every launch on a default stream takes it.
 * `_fast` must not jump to `_slowly`: the compiler would give up the stack as the place of arguments, keep all of them in registers
 * and save six registers more for each launch. So something is left to do after that call. */
#include "base/cancellation.h"
#include "gate/enter.h"
#include "gate/streams.h"
#include "gpu.h"
#include "hooks/uses.h"
#include "process.h"

/* The compiler must assume that the value changes here. */
#define NVS_NOT_A_JUMP(result) __asm__ volatile("" : "+r"(result))

#define NVS_STREAM(name, symbol, since, variant, stream, params, args) \
    static __attribute__((noinline)) CUresult symbol##_slowly params \
    { \
        bool entered = nvs_enter(nvs_stream_handle(stream, variant)); \
        struct nvs_thread *self = nvs_thread_self; \
        NVS_USES(symbol); \
        if (entered && NVS_LOOK_IS_DUE(symbol)) \
            NVS_LOOK(symbol); \
        else if (entered) \
            NVS_PASS(symbol); \
        CUresult result = nvs_real.symbol args; \
        if (entered) \
            nvs_leave(self); \
        return result; \
    } \
    static __attribute__((noinline)) CUresult symbol##_fast params \
    { \
        CUresult result; \
        struct nvs_thread *self = nvs_thread_self; \
        if (NVS_UNLIKELY(NVS_LOOK_IS_DUE(symbol) || !nvs_enter_fast(self, nvs_stream_handle(stream, variant)))) { \
            result = symbol##_slowly args; \
            NVS_NOT_A_JUMP(result); \
            return result; \
        } \
        NVS_PASS(symbol); \
        NVS_USES(symbol); \
        result = nvs_real.symbol args; \
        nvs_leave(self); \
        return result; \
    } \
    CUresult symbol params { return NVS_UNLIKELY(nvs_enter_mode_is_special()) ? symbol##_slowly args : symbol##_fast args; }
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
        if (entered) \
            nvs_leave(nvs_thread_self); \
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
    struct nvs_stream_use uses[NVS_MAX_GPUS];
    unsigned used = 0;
    if (nvs_process_ready() && list && count && count <= NVS_MAX_GPUS) {
        NVS_NO_CANCELLATION;
        for (unsigned i = 0; i < count; i++) {
            CUcontext context = NULL;
            if (nvs_real.cuStreamGetCtx(list[i].stream, &context) == CUDA_SUCCESS)
                mask |= bit_of(context);
        }
        for (unsigned i = 1; i < count; i++) /* outside the gates: it may wait for the stream's pacing */
            used += nvs_stream_use((uintptr_t)list[i].stream, 1, &uses[used]);
        entered = nvs_enter_several(mask, (uintptr_t)list[0].stream);
        /* All of these streams must be drained, not only the first. They are noted inside: while the thread waits for one gate, another
         * GPU may be drained and its list cleared; while it is inside, no list is cleared. */
        for (unsigned i = 0; entered && i < used; i++)
            nvs_stream_note(&uses[i]);
    }
    CUresult result = nvs_real.cuLaunchCooperativeKernelMultiDevice(list, count, flags);
    if (entered)
        nvs_leave(nvs_thread_self);
    return result;
}
