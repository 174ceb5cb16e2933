/* Finding the driver, the way NVIDIA's runtime does from CUDA 12 on: dlopen of libcuda.so.1, dlsym of one function,
 * cuGetProcAddress_v2, and everything else through that function with a version and the default-stream flag. A library
 * between a program and the driver (libnvshare is one) is therefore called exactly as in real programs.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "runtime/runtime.h"

struct rt_driver rt_legacy, rt_per_thread;
CUresult (*rt_get_proc_address)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

enum { STREAM_LEGACY = 0, STREAM_PER_THREAD = 2 };
enum { NOT_LOADED = -1 };

static _Atomic int loaded = NOT_LOADED; /* else the outcome: 0 or an error */
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

/* Stands in for a function the driver does not have; called with whatever arguments that one takes. */
static CUresult missing(void)
{
    return (CUresult)cudaErrorCallRequiresNewerDriver;
}

static void *find(const char *name, int version, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult status;
    void *function = NULL;
    if (rt_get_proc_address(name, &function, version, flags, &status) != CUDA_SUCCESS || function == NULL)
        return (void *)missing;
    return function;
}

static void fill_tables(void)
{
#define RT_DRIVER(field, name, version, type)                                                                          \
    *(void **)&rt_legacy.field = *(void **)&rt_per_thread.field = find(name, version, STREAM_LEGACY);
#define RT_STREAM(field, name, version, version_ptds, type)                                                            \
    *(void **)&rt_legacy.field = find(name, version, STREAM_LEGACY);                                                   \
    *(void **)&rt_per_thread.field = find(name, version_ptds, STREAM_PER_THREAD);
#include "runtime/driver_functions.def"
#undef RT_DRIVER
#undef RT_STREAM
}

static cudaError_t load(void)
{
    int version = 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL)
        return cudaErrorInsufficientDriver;
    *(void **)&rt_get_proc_address = dlsym(driver, "cuGetProcAddress_v2");
    if (rt_get_proc_address == NULL)
        return cudaErrorInsufficientDriver;
    fill_tables();
    cudaError_t error = rt_error(rt_legacy.Init(0));
    if (error)
        return error;
    error = rt_error(rt_legacy.DriverGetVersion(&version));
    if (error)
        return error;
    /* Within one major any driver serves any runtime; an older major does not. */
    return version / 1000 < NVS_CUDART_MAJOR ? cudaErrorInsufficientDriver : cudaSuccess;
}

cudaError_t rt_load(void)
{
    int outcome = atomic_load_explicit(&loaded, memory_order_acquire);
    if (outcome != NOT_LOADED)
        return outcome;
    pthread_mutex_lock(&loading);
    outcome = atomic_load_explicit(&loaded, memory_order_relaxed);
    if (outcome == NOT_LOADED) {
        outcome = load();
        atomic_store_explicit(&loaded, outcome, memory_order_release);
    }
    pthread_mutex_unlock(&loading);
    return outcome;
}

RT_API cudaError_t cudaRuntimeGetVersion(int *version);
RT_API cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (version == NULL)
        return rt_leave(cudaErrorInvalidValue);
    *version = NVS_CUDART_VERSION;
    return cudaSuccess;
}

/* Without a driver the version is 0 and the call succeeds: programs use it to find out. */
RT_API cudaError_t cudaDriverGetVersion(int *version);
RT_API cudaError_t cudaDriverGetVersion(int *version)
{
    if (version == NULL)
        return rt_leave(cudaErrorInvalidValue);
    *version = 0;
    rt_load();
    return rt_legacy.DriverGetVersion ? rt_leave(rt_error(rt_legacy.DriverGetVersion(version))) : cudaSuccess;
}

static cudaError_t entry_point(const char *symbol, void **function, unsigned version, unsigned long long flags, int *status)
{
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (symbol == NULL || function == NULL)
        return cudaErrorInvalidValue;
    *function = NULL;
    CUresult result = rt_get_proc_address(symbol, function, (int)version, flags, &found);
    if (status != NULL) {
        *status = (int)found;
        return result == CUDA_ERROR_NOT_FOUND ? cudaSuccess : rt_error(result);
    }
    return rt_error(result);
}

RT_CALL0(cudaGetDriverEntryPointByVersion,
         (const char *symbol, void **function, unsigned version, unsigned long long flags, int *status),
         ((void)d, entry_point(symbol, function, version, flags, status)))
RT_CALL0(cudaGetDriverEntryPointByVersion_ptsz,
         (const char *symbol, void **function, unsigned version, unsigned long long flags, int *status),
         ((void)d, entry_point(symbol, function, version, flags ? flags : STREAM_PER_THREAD, status)))
RT_CALL0(cudaGetDriverEntryPoint, (const char *symbol, void **function, unsigned long long flags, int *status),
         ((void)d, entry_point(symbol, function, NVS_CUDART_VERSION, flags, status)))
RT_CALL0(cudaGetDriverEntryPoint_ptsz, (const char *symbol, void **function, unsigned long long flags, int *status),
         ((void)d, entry_point(symbol, function, NVS_CUDART_VERSION, flags ? flags : STREAM_PER_THREAD, status)))
RT_CALL(cudaProfilerStart, (void), RT_PASS(ProfilerStart))
RT_CALL(cudaProfilerStop, (void), RT_PASS(ProfilerStop))

/* NVIDIA's private tables: not there, and not imitated. */
RT_API cudaError_t cudaGetExportTable(const void **table, const cudaUUID_t *id);
RT_API cudaError_t cudaGetExportTable(const void **table, const cudaUUID_t *id)
{
    (void)id;
    if (table != NULL)
        *table = NULL;
    return rt_leave(cudaErrorSymbolNotFound);
}
