/* The null driver's few answers: devices ($NVS_NULL_GPUS, else one), a context for each, current from the start in every
 * thread, handles that are not NULL, addresses that differ. */
#include "cuda_api.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static _Atomic unsigned long long next_address = 0x7f0000000000ull;
static _Atomic uintptr_t next_stream = 4096;
static char something[64];
static __thread uintptr_t current = 64; /* contexts are device number * 64 + 64 */

static int device_count(void)
{
    const char *text = getenv("NVS_NULL_GPUS");
    return text != NULL ? atoi(text) : 1;
}

static CUdeviceptr address(size_t bytes) { return atomic_fetch_add(&next_address, (bytes + 511) & ~(size_t)511); }
static CUcontext context_of(CUdevice device) { return (CUcontext)(uintptr_t)(device * 64 + 64); }

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define ANSWER(name, params, statement) CUresult name params { statement; return CUDA_SUCCESS; }

ANSWER(cuDriverGetVersion, (int *version), *version = 13000)
ANSWER(cuDeviceGetCount, (int *count), *count = device_count())
ANSWER(cuDeviceGet, (CUdevice *device, int ordinal), *device = ordinal)
ANSWER(cuDeviceGetName, (char *name, int length, CUdevice device), strncpy(name, "Null GPU", (size_t)length))
ANSWER(cuDeviceGetUuid, (CUuuid *uuid, CUdevice device), memset(uuid, 0x40 + device, sizeof *uuid))
ANSWER(cuDeviceGetUuid_v2, (CUuuid *uuid, CUdevice device), memset(uuid, 0x40 + device, sizeof *uuid))
ANSWER(cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device), *bytes = 64ull << 30)
ANSWER(cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device), *value = 1)
ANSWER(cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device), *context = context_of(device))
ANSWER(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned int *flags, int *active), *flags = 0; *active = 1)
ANSWER(cuCtxCreate, (CUcontext *context, unsigned int flags, CUdevice device), *context = context_of(device); current = (uintptr_t)*context)
ANSWER(cuCtxCreate_v2, (CUcontext *context, unsigned int flags, CUdevice device), *context = context_of(device); current = (uintptr_t)*context)
ANSWER(cuCtxSetCurrent, (CUcontext context), current = (uintptr_t)context)
ANSWER(cuCtxPopCurrent_v2, (CUcontext *context), if (context != NULL) *context = (CUcontext)current)
ANSWER(cuCtxGetCurrent, (CUcontext *context), *context = (CUcontext)current)
ANSWER(cuCtxGetDevice, (CUdevice *device), *device = (CUdevice)(current / 64 - 1))
ANSWER(cuStreamCreate, (CUstream *stream, unsigned int flags), *stream = (CUstream)atomic_fetch_add(&next_stream, 256))
ANSWER(cuStreamCreateWithPriority, (CUstream *stream, unsigned int flags, int priority), *stream = (CUstream)atomic_fetch_add(&next_stream, 256))
ANSWER(cuStreamGetCtx, (CUstream stream, CUcontext *context), *context = (CUcontext)current)
ANSWER(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status), *status = CU_STREAM_CAPTURE_STATUS_NONE)
ANSWER(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *mode), )
ANSWER(cuEventCreate, (CUevent *event, unsigned int flags), *event = (CUevent)(void *)something)
ANSWER(cuModuleLoadData, (CUmodule *module, const void *image), *module = (CUmodule)(void *)something)
ANSWER(cuModuleGetFunction, (CUfunction *function, CUmodule module, const char *name), *function = (CUfunction)(void *)something)
ANSWER(cuMemGetInfo_v2, (size_t *available, size_t *total), *available = *total = 64ull << 30)
ANSWER(cuMemAlloc_v2, (CUdeviceptr *pointer, size_t bytes), *pointer = address(bytes))
ANSWER(cuMemAllocManaged, (CUdeviceptr *pointer, size_t bytes, unsigned int flags), *pointer = address(bytes))
ANSWER(cuMemAllocPitch_v2, (CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned int size), *pitch = width; *pointer = address(width * height))
ANSWER(cuMemAllocAsync, (CUdeviceptr *pointer, size_t bytes, CUstream stream), *pointer = address(bytes))
ANSWER(cuMemCreate, (CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *property, unsigned long long flags), *handle = address(bytes))
ANSWER(cuMemAddressReserve, (CUdeviceptr *pointer, size_t bytes, size_t alignment, CUdeviceptr wanted, unsigned long long flags), *pointer = address(bytes))
ANSWER(cuArrayCreate_v2, (CUarray *array, const CUDA_ARRAY_DESCRIPTOR *description), *array = (CUarray)(uintptr_t)address(512))
ANSWER(cuGraphCreate, (CUgraph *graph, unsigned int flags), *graph = (CUgraph)(void *)something)
ANSWER(cuGraphAddMemAllocNode, (CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params), *node = (CUgraphNode)(void *)something)
ANSWER(cuGetErrorName, (CUresult error, const char **text), *text = "error")
ANSWER(cuGetErrorString, (CUresult error, const char **text), *text = "error")

/* Every kernel has one parameter, a pointer. */
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size)
{
    *offset = 0;
    *size = sizeof(CUdeviceptr);
    return index == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
    return cuFuncGetParamInfo((CUfunction)kernel, index, offset, size);
}

CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    (void)id;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

/* ---- lookup, as in driver/lookup.c ---- */

#define FN(symbol, name, since, streams) extern int symbol##_null(void) __asm__(#symbol);
#define NO FN
#include "driver/functions.def"
#undef FN
#undef NO
enum { BOTH, LEGACY, THREAD };
#define FN(symbol, name, since, streams) {#name, (void *)symbol##_null, since, streams},
#define NO FN
static const struct { const char *name; void *function; int since, streams; } entries[] = {
#include "driver/functions.def"
};

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    int unwanted = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ? LEGACY : THREAD, best = -1;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (strcmp(entries[i].name, symbol) == 0 && entries[i].streams != unwanted && entries[i].since <= version
            && (best < 0 || entries[i].since > entries[best].since))
            best = (int)i;
    *function = best >= 0 ? entries[best].function : NULL;
    if (status != NULL)
        *status = best >= 0 ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return best >= 0 || status != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    return cuGetProcAddress_v2(symbol, function, version, flags ? flags : CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, status);
}

CUresult cuGetProcAddress_ptsz(const char *symbol, void **function, int version, cuuint64_t flags)
{
    return cuGetProcAddress_v2_ptsz(symbol, function, version, flags, NULL);
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags)
{
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}
