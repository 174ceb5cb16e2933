/* Inside the stand-in runtime. A call travels: exported function -> rt_enter (driver loaded, a context current) ->
 * the driver through one of two tables (legacy or per-thread default stream) -> rt_leave (the thread's last error).
 */
#ifndef CUDART_H
#define CUDART_H

#include <stdint.h>

#include "runtime/cudart_api.h"

/* A pointer of the runtime is an address to the driver. */
static inline CUdeviceptr rt_address(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

#define RT_API __attribute__((visibility("default")))

/* One pointer per driver function. Where a function depends on the meaning of stream 0 the two tables differ. */
struct rt_driver {
#define RT_DRIVER(field, name, version, type) __typeof__(type) *field;
#define RT_STREAM(field, name, version, version_ptds, type) __typeof__(type) *field;
#include "runtime/driver_functions.def"
#undef RT_DRIVER
#undef RT_STREAM
};

extern struct rt_driver rt_legacy, rt_per_thread;
extern CUresult (*rt_get_proc_address)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

/* Makes the driver usable: 0, or the error every call then returns. Cheap after the first time. */
cudaError_t rt_load(void);
/* rt_load, and a context current on this thread: the one there is, else the primary one of the thread's device. */
cudaError_t rt_enter(void);
/* Remembers a failure as the thread's last error and gives it back. */
cudaError_t rt_leave(cudaError_t error);
/* A driver result as a runtime error. */
cudaError_t rt_error(CUresult result);
void rt_forget_errors(void);

/* The number of the device the thread works on; and a check of a number that a caller gave. */
int rt_current_device(void);
cudaError_t rt_check_device(int device);
cudaError_t rt_primary_context(int device, CUcontext *context);

/* The kernel behind what a launch names: a host function that nvcc registered, or a kernel handle that was noted. */
cudaError_t rt_kernel_of(const void *function, CUkernel *kernel);
cudaError_t rt_symbol_of(const void *symbol, CUdeviceptr *address, size_t *bytes);
/* From now on the kernel's handle may stand where a host function is expected; and no longer. */
void rt_note_kernel(CUkernel kernel);
void rt_forget_kernel(CUkernel kernel);
/* The host function that was registered for a kernel; NULL if it came another way. */
const void *rt_host_of(CUfunction function);
/* A kernel node as the driver wants it. */
cudaError_t rt_kernel_node(CUDA_KERNEL_NODE_PARAMS *out, const struct cudaKernelNodeParams *params);
/* A runtime copy in three dimensions as the driver wants it. */
cudaError_t rt_plan_3d(CUDA_MEMCPY3D *plan, const struct cudaMemcpy3DParms *params);

/* Defines `cudaError_t name params` that enters, runs `body` with `d` bound to a driver table, and leaves. */
#define RT_DEFINE(name, params, table, ready, body)                                                                    \
    RT_API cudaError_t name params;                                                                                    \
    RT_API cudaError_t name params                                                                                     \
    {                                                                                                                  \
        const struct rt_driver *d = &(table);                                                                          \
        cudaError_t error = ready();                                                                                   \
        return rt_leave(error ? error : (body));                                                                       \
    }

/* A call with one form; `body` is an expression of type cudaError_t. RT_CALL0 needs no context. */
#define RT_CALL(name, params, body) RT_DEFINE(name, params, rt_legacy, rt_enter, body)
#define RT_CALL0(name, params, body) RT_DEFINE(name, params, rt_legacy, rt_load, body)
/* A call that exists twice: name, and name_ptsz or name_ptds for programs built for per-thread default streams. */
#define RT_CALL2(name, suffix, params, body)                                                                           \
    RT_DEFINE(name, params, rt_legacy, rt_enter, body)                                                                 \
    RT_DEFINE(name##suffix, params, rt_per_thread, rt_enter, body)
/* The commonest body: the driver function of that name with these arguments. */
#define RT_PASS(field, ...) rt_error(d->field(__VA_ARGS__))

#endif
