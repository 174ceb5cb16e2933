/* Start, devices, contexts, lookup of functions, errors, and all functions that are not simulated. */
#include "simgpu_check.h"

static void before_init(void)
{
    int count;
    void *function = NULL;
    CUdriverProcAddressQueryResult status;
    IS(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount, &count);
    IS(BAD_VALUE, cuInit, 1);
    OK(cuDriverGetVersion, &count);
    TRUE_(count >= 12000);
    OK(cuGetProcAddress_v2, "cuInit", &function, 12000, 0, &status); /* works before cuInit */
    TRUE_(function == (void *)cuInit && status == CU_GET_PROC_ADDRESS_SUCCESS);
}

static void lookup(void)
{
    void *a = NULL, *b = NULL;
    CUdriverProcAddressQueryResult status;
    OK(cuGetProcAddress, "cuMemcpy", &a, 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
    OK(cuGetProcAddress, "cuMemcpy", &b, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    TRUE_(a == (void *)cuMemcpy && b == (void *)cuMemcpy_ptds);
    OK(cuGetProcAddress_ptsz, "cuMemcpy", &a, 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
    OK(cuGetProcAddress_v2_ptsz, "cuMemcpy", &b, 12000, 0, &status);
    TRUE_(a == (void *)cuMemcpy && b == (void *)cuMemcpy_ptds);
    OK(cuGetProcAddress_v2, "cuStreamGetCaptureInfo", &a, 11030, 0, &status);
    OK(cuGetProcAddress_v2, "cuStreamGetCaptureInfo", &b, 12030, 0, &status);
    TRUE_(a == (void *)cuStreamGetCaptureInfo_v2 && b == (void *)cuStreamGetCaptureInfo_v3);
    OK(cuGetProcAddress_v2, "cuGraphInstantiate", &a, 13000, 0, &status);
    TRUE_(a == (void *)cuGraphInstantiate_v2);
    OK(cuGetProcAddress_v2, "cuMemAlloc", &a, 2000, 0, &status);
    TRUE_(a == NULL && status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    OK(cuGetProcAddress_v2, "cuNoSuchThing", &a, 13000, 0, &status);
    TRUE_(a == NULL && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    IS(CUDA_ERROR_NOT_FOUND, cuGetProcAddress, "cuNoSuchThing", &a, 13000, 0);
    IS(BAD_VALUE, cuGetProcAddress_v2, NULL, &a, 13000, 0, &status);
    const void *table = &table;
    CUuuid id = {{1}};
    IS(CUDA_ERROR_NOT_FOUND, cuGetExportTable, &table, &id);
    TRUE_(table == NULL);
}

static void errors(void)
{
    const char *text = NULL;
    OK(cuGetErrorName, CUDA_ERROR_OUT_OF_MEMORY, &text);
    TRUE_(strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY") == 0);
    OK(cuGetErrorString, CUDA_ERROR_OUT_OF_MEMORY, &text);
    TRUE_(strcmp(text, "out of memory") == 0);
    IS(BAD_VALUE, cuGetErrorName, (CUresult)12345, &text);
    IS(BAD_VALUE, cuGetErrorString, (CUresult)12345, &text);
}

static void devices(void)
{
    int count = 0, value = 0, minor = 0, properties[14];
    CUdevice device = -1;
    char name[64] = "", bus[32] = "";
    CUuuid a, b;
    size_t bytes = 0;
    OK(cuDeviceGetCount, &count);
    TRUE_(count == 2);
    OK(cuDeviceGet, &device, 1);
    TRUE_(device == 1);
    IS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet, &device, 2);
    OK(cuDeviceGetName, name, sizeof name, 0);
    TRUE_(strcmp(name, "Check GPU") == 0);
    OK(cuDeviceGetUuid, &a, 0);
    OK(cuDeviceGetUuid_v2, &b, 0);
    TRUE_(memcmp(&a, &b, sizeof a) == 0);
    OK(cuDeviceGetUuid_v2, &b, 1);
    TRUE_(memcmp(&a, &b, sizeof a) != 0);
    IS(CUDA_ERROR_NOT_SUPPORTED, cuDeviceGetLuid, name, NULL, 0);
    OK(cuDeviceTotalMem_v2, &bytes, 0);
    TRUE_(bytes == 4ull << 30);
    OK(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
    OK(cuDeviceComputeCapability, &count, &minor, 0);
    TRUE_(value == 9 && count == 9 && minor == 0);
    OK(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0);
    TRUE_(value == 1);
    IS(BAD_VALUE, cuDeviceGetAttribute, &value, (CUdevice_attribute)0, 0);
    OK(cuDeviceGetProperties, properties, 0);
    TRUE_(properties[0] == 1024);
    OK(cuDeviceGetPCIBusId, bus, sizeof bus, 1);
    OK(cuDeviceGetByPCIBusId, &device, bus);
    TRUE_(device == 1);
    OK(cuDeviceGetTexture1DLinearMaxWidth, &bytes, CU_AD_FORMAT_FLOAT, 1, 0);
    TRUE_(bytes > 0);
    OK(cuDeviceGetExecAffinitySupport, &value, 0, 0);
    TRUE_(value == 0);
    OK(cuDeviceCanAccessPeer, &value, 0, 1);
    TRUE_(value == 1);
    OK(cuDeviceGetP2PAttribute, &value, 2, 0, 1);
    TRUE_(value == 1);
    IS(BAD_VALUE, cuDeviceGetP2PAttribute, &value, 2, 0, 0);
}

static void primary_contexts(void)
{
    CUcontext context = NULL, again = NULL, current = (CUcontext)8;
    unsigned flags = 0;
    int active = -1;
    OK(cuDevicePrimaryCtxSetFlags, 0, CU_CTX_SCHED_YIELD);
    OK(cuDevicePrimaryCtxSetFlags_v2, 0, CU_CTX_SCHED_BLOCKING_SYNC);
    OK(cuDevicePrimaryCtxGetState, 0, &flags, &active);
    TRUE_(flags == CU_CTX_SCHED_BLOCKING_SYNC && active == 0);
    IS(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2, 0);
    OK(cuDevicePrimaryCtxRetain, &context, 0);
    OK(cuDevicePrimaryCtxRetain, &again, 0);
    TRUE_(context == again);
    OK(cuDevicePrimaryCtxRelease, 0);
    OK(cuDevicePrimaryCtxGetState, 0, &flags, &active);
    TRUE_(active == 1);
    OK(cuDevicePrimaryCtxRelease_v2, 0);
    OK(cuDevicePrimaryCtxGetState, 0, &flags, &active);
    TRUE_(active == 0);
    OK(cuDevicePrimaryCtxRetain, &context, 1);
    OK(cuDevicePrimaryCtxReset_v2, 1);
    OK(cuDevicePrimaryCtxReset, 1);
    IS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent_v2, context);
    OK(cuCtxGetCurrent, &current);
    TRUE_(current == NULL);
}

static void the_stack(void)
{
    CUcontext a = NULL, b = NULL, c = NULL, seen = NULL;
    CUdevice device = -1;
    CUexecAffinityParam affinity;
    CUctxCreateParams params = {.numExecAffinityParams = 1};
    IS(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetDevice, &device);
    OK(cuCtxCreate_v2, &a, 0, 0);
    OK(cuCtxCreate_v3, &b, NULL, 0, 0, 1);
    IS(CUDA_ERROR_NOT_SUPPORTED, cuCtxCreate_v4, &c, &params, 0, 0);
    OK(cuCtxCreate_v4, &c, NULL, 0, 0);
    OK(cuCtxPopCurrent_v2, &seen);
    TRUE_(seen == c);
    OK(cuCtxGetDevice, &device);
    TRUE_(device == 1);
    OK(cuCtxGetDevice_v2, &device, a);
    TRUE_(device == 0);
    OK(cuCtxPushCurrent_v2, a);
    OK(cuCtxGetCurrent, &seen);
    TRUE_(seen == a);
    OK(cuCtxSetCurrent, c);
    OK(cuCtxGetCurrent, &seen);
    TRUE_(seen == c);
    OK(cuCtxAttach, &seen, 0);
    OK(cuCtxAttach, &seen, 0);
    OK(cuCtxDetach, c);
    IS(CUDA_ERROR_INVALID_VALUE, cuCtxDestroy, c);
    OK(cuCtxDetach, c);
    OK(cuCtxGetExecAffinity, &affinity, 0);
    OK(cuCtxEnablePeerAccess, b, 0);
    IS(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess, b, 0);
    OK(cuCtxDisablePeerAccess, b);
    IS(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess, b);
    OK(cuCtxDestroy_v2, c);
    IS(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2, c);
    OK(cuCtxDestroy_v2, a);
    OK(cuCtxDestroy_v2, b);
}

static void contexts_of_cuda_3(void)
{
    CUcontext made = NULL, current = NULL;
    OK(cuCtxCreate, &made, 0, 0);
    OK(cuCtxDestroy, made);
    OK(cuCtxGetCurrent, &current);
    TRUE_(current == NULL);
    OK(cuCtxCreate, &made, 0, 0);
    OK(cuCtxDetach, made); /* the last use of it */
    OK(cuCtxGetCurrent, &current);
    TRUE_(current == NULL);
    IS(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy, made);
    OK(cuDevicePrimaryCtxRetain, &made, 0);
    IS(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy, made);
    OK(cuDevicePrimaryCtxRelease_v2, 0);
}

static void context_settings(void)
{
    CUcontext context = NULL;
    unsigned number = 0;
    unsigned long long id = 0;
    size_t limit = 0;
    int value = -1, other = -1;
    OK(cuCtxCreate_v2, &context, CU_CTX_SCHED_SPIN, 0);
    OK(cuCtxGetFlags, &number);
    TRUE_(number == CU_CTX_SCHED_SPIN);
    OK(cuCtxSetFlags, CU_CTX_SCHED_YIELD);
    OK(cuCtxGetId, context, &id);
    TRUE_(id != 0);
    OK(cuCtxGetApiVersion, context, &number);
    TRUE_(number == 3020);
    OK(cuCtxSetLimit, CU_LIMIT_STACK_SIZE, 4096);
    IS(CUDA_ERROR_OUT_OF_MEMORY, cuCtxSetLimit, CU_LIMIT_MALLOC_HEAP_SIZE, (size_t)1 << 46); /* it is the card's memory */
    OK(cuCtxGetLimit, &limit, CU_LIMIT_STACK_SIZE);
    TRUE_(limit == 4096);
    IS(CUDA_ERROR_NOT_SUPPORTED, cuCtxGetLimit, &limit, (CUlimit)99);
    OK(cuCtxSetCacheConfig, 1);
    OK(cuCtxGetCacheConfig, &value);
    TRUE_(value == 1);
    OK(cuCtxSetSharedMemConfig, 2);
    OK(cuCtxGetSharedMemConfig, &value);
    TRUE_(value == 2);
    OK(cuCtxGetStreamPriorityRange, &value, &other);
    TRUE_(value == 0 && other < 0);
    OK(cuCtxResetPersistingL2Cache);
    OK(cuCtxSynchronize);
    OK(cuCtxSynchronize_v2, context);
    OK(cuProfilerStart);
    OK(cuProfilerStop);
    IS(CUDA_ERROR_NOT_SUPPORTED, cuProfilerInitialize, "", "", 0);
    OK(cuFlushGPUDirectRDMAWrites, 0, 100);
    OK(cuCtxDestroy_v2, context);
}

/* A kernel that fails makes its context unusable, and only its own. */
static void failing_kernel(void)
{
    CUcontext context = NULL, other = NULL;
    OK(cuCtxCreate_v2, &other, 0, 0);
    OK(cuCtxCreate_v2, &context, 0, 0);
    OK(cuLaunchKernel, kernel("sim_trap"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    IS(CUDA_ERROR_LAUNCH_FAILED, cuCtxSynchronize);
    CUdeviceptr pointer;
    CUcontext current = NULL;
    IS(CUDA_ERROR_LAUNCH_FAILED, cuMemAlloc_v2, &pointer, 16);
    IS(CUDA_ERROR_LAUNCH_FAILED, cuCtxGetCurrent, &current);
    IS(CUDA_ERROR_LAUNCH_FAILED, cuCtxPushCurrent_v2, context);
    OK(cuCtxDestroy_v2, context);
    OK(cuCtxSynchronize);
    OK(cuCtxDestroy_v2, other);
}

static void green_contexts(void)
{
    CUgreenCtx green = NULL, of_stream = NULL;
    CUcontext context = NULL, of_plain = NULL;
    CUstream stream = NULL, plain = NULL;
    IS(BAD_VALUE, cuGreenCtxCreate, &green, NULL, 0, 0);
    OK(cuGreenCtxCreate, &green, NULL, 0, 1);
    OK(cuCtxFromGreenCtx, &context, green);
    IS(BAD_VALUE, cuGreenCtxStreamCreate, &stream, green, CU_STREAM_DEFAULT, 0);
    OK(cuGreenCtxStreamCreate, &stream, green, CU_STREAM_NON_BLOCKING, 0);
    IS(CUDA_ERROR_NOT_SUPPORTED, cuStreamGetCtx, stream, &of_plain);
    OK(cuStreamGetGreenCtx, stream, &of_stream);
    TRUE_(of_stream == green);
    OK(cuCtxPushCurrent_v2, context);
    OK(cuStreamSynchronize, stream);
    OK(cuCtxPopCurrent_v2, &context);
    OK(cuGreenCtxDestroy, green);
    IS(BAD_HANDLE, cuGreenCtxDestroy, green);
    OK(cuCtxCreate_v2, &context, 0, 0);
    OK(cuStreamCreate, &plain, CU_STREAM_DEFAULT);
    OK(cuStreamGetGreenCtx, plain, &of_stream);
    TRUE_(of_stream == NULL);
    OK(cuCtxDestroy_v2, context);
}

static void not_simulated(void)
{
#define FN(symbol, name, since, streams)
#define NO(symbol, name, since, streams) { CUresult symbol(void); IS(CUDA_ERROR_NOT_SUPPORTED, symbol); }
#include "driver/functions.def"
}

int main(void)
{
    setenv("NVSHARE_SIM_GPUS", "2", 1);
    setenv("NVSHARE_SIM_MEMORY", "4Gi", 1);
    setenv("NVSHARE_SIM_NAME", "Check GPU", 1);
    setenv("NVSHARE_SIM_COMPUTE_CAPABILITY", "9.0", 1);
    before_init();
    OK(cuInit, 0);
    lookup();
    errors();
    devices();
    primary_contexts();
    contexts_of_cuda_3();
    the_stack();
    context_settings();
    failing_kernel();
    green_contexts();
    not_simulated();
    return done();
}
