/* The null driver's few answers: one device, one context, handles that are not NULL, addresses that differ. */
#include "cuda_api.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

static _Atomic unsigned long long next_address = 0x7f0000000000ull;
static char something[64];
static __thread CUcontext current;

#define ANSWER(name, params, statement) CUresult name params { statement; return CUDA_SUCCESS; }

ANSWER(cuDriverGetVersion, (int *version), *version = 13000)
ANSWER(cuDeviceGetCount, (int *count), *count = 1)
ANSWER(cuDeviceGet, (CUdevice *device, int ordinal), *device = ordinal)
ANSWER(cuDeviceGetName, (char *name, int length, CUdevice device), (void)device; strncpy(name, "Null GPU", (size_t)length))
ANSWER(cuDeviceGetUuid, (CUuuid *uuid, CUdevice device), (void)device; memset(uuid, 0x4e, sizeof *uuid))
ANSWER(cuDeviceGetUuid_v2, (CUuuid *uuid, CUdevice device), (void)device; memset(uuid, 0x4e, sizeof *uuid))
ANSWER(cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device), (void)device; *bytes = 16ull << 30)
ANSWER(cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device), (void)attribute; (void)device; *value = 1)
ANSWER(cuMemGetInfo_v2, (size_t *available, size_t *total), *available = *total = 16ull << 30)
ANSWER(cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device), (void)device; *context = (CUcontext)(void *)something)
ANSWER(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned int *flags, int *active), (void)device; *flags = 0; *active = 1)
ANSWER(cuCtxCreate_v2, (CUcontext *context, unsigned int flags, CUdevice device), (void)flags; (void)device; current = *context = (CUcontext)(void *)something)
ANSWER(cuCtxSetCurrent, (CUcontext context), current = context)
ANSWER(cuCtxPushCurrent_v2, (CUcontext context), current = context)
ANSWER(cuCtxPopCurrent_v2, (CUcontext *context), if (context != NULL) *context = current)
ANSWER(cuCtxGetCurrent, (CUcontext *context), *context = current)
ANSWER(cuCtxGetDevice, (CUdevice *device), *device = 0)
ANSWER(cuStreamCreate, (CUstream *stream, unsigned int flags), (void)flags; *stream = (CUstream)(void *)something)
ANSWER(cuStreamCreateWithPriority, (CUstream *stream, unsigned int flags, int priority), (void)flags; (void)priority; *stream = (CUstream)(void *)something)
ANSWER(cuStreamGetCtx, (CUstream stream, CUcontext *context), (void)stream; *context = (CUcontext)(void *)something)
ANSWER(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status), (void)stream; *status = CU_STREAM_CAPTURE_STATUS_NONE)
ANSWER(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *mode), (void)mode)
ANSWER(cuEventCreate, (CUevent *event, unsigned int flags), (void)flags; *event = (CUevent)(void *)something)
ANSWER(cuModuleLoadData, (CUmodule *module, const void *image), (void)image; *module = (CUmodule)(void *)something)
ANSWER(cuModuleGetFunction, (CUfunction *function, CUmodule module, const char *name), (void)module; (void)name; *function = (CUfunction)(void *)something)
ANSWER(cuMemAlloc_v2, (CUdeviceptr *pointer, size_t bytes), *pointer = atomic_fetch_add(&next_address, (bytes + 511) & ~(size_t)511))
ANSWER(cuMemAllocManaged, (CUdeviceptr *pointer, size_t bytes, unsigned int flags), (void)flags; *pointer = atomic_fetch_add(&next_address, (bytes + 511) & ~(size_t)511))
ANSWER(cuMemAllocAsync, (CUdeviceptr *pointer, size_t bytes, CUstream stream), (void)stream; *pointer = atomic_fetch_add(&next_address, (bytes + 511) & ~(size_t)511))
ANSWER(cuGetErrorName, (CUresult error, const char **text), (void)error; *text = "error")
ANSWER(cuGetErrorString, (CUresult error, const char **text), (void)error; *text = "error")

CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    (void)id;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

/* ---- lookup, as in entry.c ---- */

#define FN(symbol, name, since, streams) extern int symbol##_null(void) __asm__(#symbol);
#define NO FN
#define ALIAS(symbol, name, since, streams)
#include "functions.def"
#undef FN
#undef NO
#undef ALIAS
enum { BOTH, LEGACY, THREAD };
#define FN(symbol, name, since, streams) {#name, (void *)symbol##_null, since, streams},
#define NO FN
#define ALIAS FN
static const struct { const char *name; void *function; int since, streams; } entries[] = {
#include "functions.def"
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

CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags)
{
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}
