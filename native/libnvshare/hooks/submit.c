/* Every call that submits work enters the gate of the GPU it runs on. Most bodies are generated from symbols.def.
 *
 * Each has three functions with the same arguments, because arguments on the stack are expensive to pass on:
 * - The one that the program calls chooses by nvs_enter_mode and jumps: the arguments stay where they are.
 * - `_fast` calls nothing before the driver, so hardly any register has to be saved.
 * - `_slowly` is the rest. Where there are several GPUs, every launch on a default stream takes it.
 * `_fast` must not jump to `_slowly`: the compiler would give up the stack as the place of arguments, keep all of them in registers
 * and save six registers more for each launch. So something is left to do after that call. */
#include "base/cancellation.h"
#include "gate/contexts.h"
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
        CUresult result = nvs_real.symbol args; \
        if (result == CUDA_SUCCESS) \
            NVS_READS(symbol); \
        if (entered && !NVS_LOOK_IS_DUE(symbol)) \
            NVS_PASS(symbol); \
        else if (entered && result == CUDA_SUCCESS) \
            NVS_LOOK(symbol); \
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
        if (result == CUDA_SUCCESS) \
            NVS_READS(symbol); \
        nvs_leave(self); \
        return result; \
    } \
    CUresult symbol params { return NVS_UNLIKELY(nvs_enter_mode_is_special()) ? symbol##_slowly args : symbol##_fast args; }
#define NVS_SYNC(name, symbol, since, variant, params, args) \
    NVS_STREAM(name, symbol, since, variant, (CUstream)NULL, params, args)
#include "lookup/symbols.def"

static uint64_t bit_of(const struct nvs_gpu *gpu) { return gpu ? UINT64_C(1) << gpu->index : 0; }

/* One side of a copy. The driver ignores the context of an array and of host memory: it may have any value, and counts only if it is known. */
static uint64_t bit_of_side(CUmemorytype type, CUcontext context)
{
    bool is_ignored = type == CU_MEMORYTYPE_ARRAY || type == CU_MEMORYTYPE_HOST;
    return bit_of(is_ignored ? nvs_context_known_gpu(context) : nvs_context_gpu(context));
}

static bool enter_both(CUcontext one, CUcontext other, uintptr_t stream)
{
    NVS_NO_CANCELLATION;
    return nvs_process_ready() && nvs_enter_several(bit_of(nvs_context_gpu(one)) | bit_of(nvs_context_gpu(other)), stream);
}

static bool enter_shaped(const CUDA_MEMCPY3D_PEER *c, uintptr_t stream)
{
    NVS_NO_CANCELLATION;
    return nvs_process_ready() && c
           && nvs_enter_several(bit_of_side(c->dstMemoryType, c->dstContext) | bit_of_side(c->srcMemoryType, c->srcContext), stream);
}

#define PEER(symbol, enters, params, args) \
    CUresult symbol params \
    { \
        bool entered = enters; \
        NVS_USES(symbol); \
        CUresult result = nvs_real.symbol args; \
        if (result == CUDA_SUCCESS) \
            NVS_READS(symbol); \
        if (entered) \
            nvs_leave(nvs_thread_self); \
        return result; \
    }

PEER(cuMemcpyPeer, enter_both(dc, sc, nvs_stream_handle(NULL, NVS_LEGACY)), (CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n), (d, dc, s, sc, n))
PEER(cuMemcpyPeer_ptds, enter_both(dc, sc, nvs_stream_handle(NULL, NVS_PTDS)), (CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n), (d, dc, s, sc, n))
PEER(cuMemcpyPeerAsync, enter_both(dc, sc, nvs_stream_handle(st, NVS_LEGACY)), (CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n, CUstream st), (d, dc, s, sc, n, st))
PEER(cuMemcpyPeerAsync_ptsz, enter_both(dc, sc, nvs_stream_handle(st, NVS_PTDS)), (CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n, CUstream st), (d, dc, s, sc, n, st))
PEER(cuMemcpy3DPeer, enter_shaped(c, nvs_stream_handle(NULL, NVS_LEGACY)), (const CUDA_MEMCPY3D_PEER *c), (c))
PEER(cuMemcpy3DPeer_ptds, enter_shaped(c, nvs_stream_handle(NULL, NVS_PTDS)), (const CUDA_MEMCPY3D_PEER *c), (c))
PEER(cuMemcpy3DPeerAsync, enter_shaped(c, nvs_stream_handle(st, NVS_LEGACY)), (const CUDA_MEMCPY3D_PEER *c, CUstream st), (c, st))
PEER(cuMemcpy3DPeerAsync_ptsz, enter_shaped(c, nvs_stream_handle(st, NVS_PTDS)), (const CUDA_MEMCPY3D_PEER *c, CUstream st), (c, st))

CUresult cuLaunchCooperativeKernelMultiDevice(struct nvs_launch_params *list, unsigned count, unsigned flags)
{
    uint64_t mask = 0;
    bool entered = false;
    struct nvs_stream_use uses[NVS_MAX_GPUS];
    unsigned used = 0;
    if (nvs_process_ready() && list && count && count <= NVS_MAX_GPUS) {
        NVS_NO_CANCELLATION;
        for (unsigned i = 1; i < count; i++) /* outside the gates: it may wait for the stream's pacing */
            used += nvs_stream_use((uintptr_t)list[i].stream, 1, &uses[used]);
        for (unsigned i = 0; i < used; i++)
            mask |= UINT64_C(1) << uses[i].gpu->index; /* nvs_enter_several adds that of the first stream */
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
