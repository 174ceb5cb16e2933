/* A driver that does nothing: every function of symbols.def answers success at once. What is measured against it is the cost of
 * the library alone. Only what the library needs to know is answered: devices, a context, and addresses that differ. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbols.h"

#define NVS_NULL(symbol, params) NVS_EXPORT __attribute__((weak)) CUresult symbol params;
#define NVS_STREAM(name, symbol, since, variant, stream, params, args) NVS_NULL(symbol, params)
#define NVS_SYNC(name, symbol, since, variant, params, args) NVS_NULL(symbol, params)
#define NVS_HOOK(name, symbol, since, variant, params) NVS_NULL(symbol, params)
#define NVS_USED(symbol, params) NVS_NULL(symbol, params)
#include "symbols.def"

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NVS_STREAM(name, symbol, since, variant, stream, params, args) CUresult symbol params { return CUDA_SUCCESS; }
#define NVS_SYNC(name, symbol, since, variant, params, args) CUresult symbol params { return CUDA_SUCCESS; }
#include "symbols.def"

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
