/* A driver that does nothing: every function of symbols.def answers success at once (lib_null_rest.c). What is measured
 * against it is the cost of the library alone. Only what the library needs to know is answered: devices, a context, and
 * addresses that differ. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbols.h"

#define NVS_NULL(symbol, params) NVS_EXPORT CUresult symbol params;
#define NVS_USED(symbol, params) NVS_NULL(symbol, params)
#include "symbols.def"

#pragma GCC diagnostic ignored "-Wunused-parameter"

static __thread uintptr_t current = 64; /* contexts are device number * 64 + 64 */
static _Atomic CUdeviceptr next_address = UINT64_C(0x7f0000000000);

static int devices(void)
{
    const char *text = getenv("NVS_NULL_GPUS");
    return text ? atoi(text) : 1;
}

CUresult cuInit(unsigned flags) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int *version) { return *version = 13000, CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int *count) { return *count = devices(), CUDA_SUCCESS; }
CUresult cuDeviceGetName(char *name, int n, CUdevice dev) { return strncpy(name, "null", (size_t)n), CUDA_SUCCESS; }
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev) { return memset(uuid, 0x40 + dev, sizeof *uuid), CUDA_SUCCESS; }
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev) { return cuDeviceGetUuid(uuid, dev); }
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice dev) { return *value = 1, CUDA_SUCCESS; }
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev) { return *bytes = (size_t)64 << 30, CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned *flags, int *active) { return *flags = 0, *active = 1, CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice dev) { return *c = (CUcontext)(uintptr_t)(dev * 64 + 64), CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) { return CUDA_SUCCESS; }
CUresult cuCtxCreate_v2(CUcontext *c, unsigned flags, CUdevice dev)
{
    current = (uintptr_t)dev * 64 + 64;
    return *c = (CUcontext)current, CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext *c) { return *c = (CUcontext)current, CUDA_SUCCESS; }
CUresult cuCtxGetDevice(CUdevice *dev) { return *dev = (CUdevice)(current / 64 - 1), CUDA_SUCCESS; }
CUresult cuCtxPushCurrent_v2(CUcontext c) { return CUDA_SUCCESS; }
CUresult cuCtxPopCurrent_v2(CUcontext *c) { return *c = (CUcontext)current, CUDA_SUCCESS; }
CUresult cuStreamGetCtx(CUstream st, CUcontext *c) { return *c = (CUcontext)current, CUDA_SUCCESS; }
CUresult cuStreamIsCapturing(CUstream st, CUstreamCaptureStatus *status) { return *status = CU_STREAM_CAPTURE_STATUS_NONE, CUDA_SUCCESS; }
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) { return CUDA_SUCCESS; }
CUresult cuEventCreate(CUevent *e, unsigned flags) { return *e = (CUevent)64, CUDA_SUCCESS; }
CUresult cuEventRecord(CUevent e, CUstream st) { return CUDA_SUCCESS; }
CUresult cuEventQuery(CUevent e) { return CUDA_SUCCESS; }
CUresult cuEventDestroy_v2(CUevent e) { return CUDA_SUCCESS; }
CUresult cuMemAlloc_v2(CUdeviceptr *d, size_t n) { return *d = atomic_fetch_add(&next_address, (n + 511) & ~(size_t)511), CUDA_SUCCESS; }
CUresult cuMemAllocManaged(CUdeviceptr *d, size_t n, unsigned flags) { return cuMemAlloc_v2(d, n); }
CUresult cuMemFree_v2(CUdeviceptr d) { return CUDA_SUCCESS; }
CUresult cuMemGetInfo_v2(size_t *f, size_t *t) { return *f = *t = (size_t)64 << 30, CUDA_SUCCESS; }

/* What only programs call. */
#define NVS_EXTRA(symbol, params) NVS_EXPORT CUresult symbol params; CUresult symbol params
NVS_EXTRA(cuCtxSetCurrent, (CUcontext c)) { return current = (uintptr_t)c, CUDA_SUCCESS; }
NVS_EXTRA(cuCtxSynchronize, (void)) { return CUDA_SUCCESS; }
NVS_EXTRA(cuModuleLoadData, (CUmodule *m, const void *image)) { return *m = (CUmodule)64, CUDA_SUCCESS; }
NVS_EXTRA(cuModuleGetFunction, (CUfunction *f, CUmodule m, const char *name)) { return *f = (CUfunction)64, CUDA_SUCCESS; }
NVS_EXTRA(cuMemAddressReserve, (CUdeviceptr *d, size_t n, size_t a, CUdeviceptr h, unsigned long long f)) { return cuMemAlloc_v2(d, n); }
NVS_EXTRA(cuStreamSynchronize, (CUstream st)) { return CUDA_SUCCESS; }
NVS_EXTRA(cuGraphCreate, (CUgraph *g, unsigned flags)) { return *g = (CUgraph)64, CUDA_SUCCESS; }
NVS_EXTRA(cuGraphAddMemAllocNode, (CUgraphNode *n, CUgraph g, const CUgraphNode *d, size_t c, CUDA_MEM_ALLOC_NODE_PARAMS *p)) { return *n = (CUgraphNode)64, CUDA_SUCCESS; }
NVS_EXTRA(cuGraphDestroy, (CUgraph g)) { return CUDA_SUCCESS; }

CUresult cuCtxDestroy_v2(CUcontext c) { return CUDA_SUCCESS; }
CUresult cuStreamDestroy_v2(CUstream st) { return CUDA_SUCCESS; }
CUresult cuStreamWaitEvent(CUstream st, CUevent e, unsigned flags) { return CUDA_SUCCESS; }
CUresult cuStreamCreate(CUstream *st, unsigned flags)
{
    static _Atomic uintptr_t last = 4096;
    return *st = (CUstream)atomic_fetch_add(&last, 256), CUDA_SUCCESS;
}
CUresult cuMemAllocPitch_v2(CUdeviceptr *d, size_t *pitch, size_t w, size_t h, unsigned e) { return *pitch = w, cuMemAlloc_v2(d, w * h); }
CUresult cuMemAllocAsync(CUdeviceptr *d, size_t n, CUstream st) { return cuMemAlloc_v2(d, n); }
CUresult cuMemFreeAsync(CUdeviceptr d, CUstream st) { return CUDA_SUCCESS; }
CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t n, const CUmemAllocationProp *p, unsigned long long f) { return cuMemAlloc_v2(h, n); }
CUresult cuMemRelease(CUmemGenericAllocationHandle h) { return CUDA_SUCCESS; }
CUresult cuMemMap(CUdeviceptr d, size_t n, size_t off, CUmemGenericAllocationHandle h, unsigned long long f) { return CUDA_SUCCESS; }
CUresult cuMemUnmap(CUdeviceptr d, size_t n) { return CUDA_SUCCESS; }
CUresult cuArrayCreate_v2(CUarray *a, const CUDA_ARRAY_DESCRIPTOR *desc)
{
    CUdeviceptr d;
    cuMemAlloc_v2(&d, 512);
    return *a = (CUarray)(uintptr_t)d, CUDA_SUCCESS;
}
CUresult cuArrayDestroy(CUarray a) { return CUDA_SUCCESS; }

/* Names by the rule that real drivers document: the newest signature not above the version asked for. */
static const struct { const char *name; int since; enum nvs_variant variant; void *function; } table[] = {
#define ROW(name, symbol, since, variant) {#name, since, variant, (void *)symbol},
#define NVS_STREAM(name, symbol, since, variant, stream, params, args) ROW(name, symbol, since, variant)
#define NVS_SYNC(name, symbol, since, variant, params, args) ROW(name, symbol, since, variant)
#define NVS_HOOK(name, symbol, since, variant, params) ROW(name, symbol, since, variant)
#define NVS_USED(symbol, params) ROW(symbol, symbol, 2000, NVS_ANY)
#include "symbols.def"
    ROW(cuCtxSetCurrent, cuCtxSetCurrent, 4000, NVS_ANY)
    ROW(cuCtxSynchronize, cuCtxSynchronize, 2000, NVS_ANY)
    ROW(cuModuleLoadData, cuModuleLoadData, 2000, NVS_ANY)
    ROW(cuModuleGetFunction, cuModuleGetFunction, 2000, NVS_ANY)
    ROW(cuMemAddressReserve, cuMemAddressReserve, 10020, NVS_ANY)
    ROW(cuStreamSynchronize, cuStreamSynchronize, 2000, NVS_ANY)
    ROW(cuGraphCreate, cuGraphCreate, 10000, NVS_ANY)
    ROW(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, 11040, NVS_ANY)
    ROW(cuGraphDestroy, cuGraphDestroy, 10000, NVS_ANY)
    ROW(cuEventDestroy, cuEventDestroy_v2, 4000, NVS_ANY)
};

CUresult cuGetProcAddress_v2(const char *name, void **fn, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    enum nvs_variant wanted = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ? NVS_PTDS : NVS_LEGACY;
    int best = 0;
    *fn = NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].function && !strcmp(table[i].name, name) && table[i].since <= version && table[i].since > best &&
            (table[i].variant == NVS_ANY || table[i].variant == wanted)) {
            *fn = table[i].function;
            best = table[i].since;
        }
    if (status)
        *status = *fn ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *fn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuGetProcAddress(const char *name, void **fn, int version, cuuint64_t flags) { return cuGetProcAddress_v2(name, fn, version, flags, NULL); }
