/* Code loaded at run time, the runtime's face of the driver's libraries; and kernels found that way can be launched. */
#include <stdint.h>
#include <stdlib.h>

#include "runtime/runtime.h"

static cudaError_t global(const struct rt_driver *d, void **pointer, size_t *bytes, cudaLibrary_t library, const char *name, int managed)
{
    CUdeviceptr address = 0;
    size_t size = 0;
    cudaError_t error = rt_error(managed ? d->LibraryGetManaged(&address, &size, library, name)
                                         : d->LibraryGetGlobal(&address, &size, library, name));
    if (!error && pointer != NULL)
        *pointer = (void *)(uintptr_t)address;
    if (!error && bytes != NULL)
        *bytes = size;
    return error;
}

static cudaError_t kernel_named(const struct rt_driver *d, cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
    cudaError_t error = rt_error(d->LibraryGetKernel(kernel, library, name));
    if (!error)
        rt_note_kernel(*kernel);
    return error;
}

static cudaError_t kernels_of(const struct rt_driver *d, cudaKernel_t *kernels, unsigned count, cudaLibrary_t library)
{
    unsigned there = 0;
    cudaError_t error = rt_error(d->LibraryGetKernelCount(&there, library));
    if (!error)
        error = rt_error(d->LibraryEnumerateKernels(kernels, count, library));
    for (unsigned i = 0; !error && i < count && i < there; i++)
        rt_note_kernel(kernels[i]);
    return error;
}

/* The kernels' handles must not be found any more once the library is gone. */
static cudaError_t unload(const struct rt_driver *d, cudaLibrary_t library)
{
    unsigned count = 0;
    CUkernel *kernels = NULL;
    if (d->LibraryGetKernelCount(&count, library) == CUDA_SUCCESS && count > 0 && (kernels = calloc(count, sizeof *kernels)) != NULL &&
        d->LibraryEnumerateKernels(kernels, count, library) == CUDA_SUCCESS)
        for (unsigned i = 0; i < count; i++)
            rt_forget_kernel(kernels[i]);
    free(kernels);
    return rt_error(d->LibraryUnload(library));
}

static cudaError_t name_of(const struct rt_driver *d, const char **name, const void *host)
{
    CUkernel kernel;
    cudaError_t error = name == NULL ? cudaErrorInvalidValue : rt_kernel_of(host, &kernel);
    return error ? error : rt_error(d->KernelGetName(name, kernel));
}

static cudaError_t set_attribute(const struct rt_driver *d, cudaKernel_t kernel, int which, int value, int device)
{
    cudaError_t error = rt_check_device(device);
    return error ? error : rt_error(d->KernelSetAttribute((CUfunction_attribute)which, value, kernel, (CUdevice)device));
}

RT_CALL(cudaLibraryLoadData,
        (cudaLibrary_t * library, const void *code, int *jit, void **jit_values, unsigned jit_count, int *options, void **values,
         unsigned count),
        RT_PASS(LibraryLoadData, library, code, jit, jit_values, jit_count, options, values, count))
RT_CALL(cudaLibraryLoadFromFile,
        (cudaLibrary_t * library, const char *path, int *jit, void **jit_values, unsigned jit_count, int *options, void **values,
         unsigned count),
        RT_PASS(LibraryLoadFromFile, library, path, jit, jit_values, jit_count, options, values, count))
RT_CALL(cudaLibraryUnload, (cudaLibrary_t library), unload(d, library))
RT_CALL(cudaLibraryGetKernel, (cudaKernel_t * kernel, cudaLibrary_t library, const char *name), kernel_named(d, kernel, library, name))
RT_CALL(cudaLibraryGetKernelCount, (unsigned *count, cudaLibrary_t library), RT_PASS(LibraryGetKernelCount, count, library))
RT_CALL(cudaLibraryEnumerateKernels, (cudaKernel_t * kernels, unsigned count, cudaLibrary_t library),
        kernels_of(d, kernels, count, library))
RT_CALL(cudaLibraryGetGlobal, (void **pointer, size_t *bytes, cudaLibrary_t library, const char *name),
        global(d, pointer, bytes, library, name, 0))
RT_CALL(cudaLibraryGetManaged, (void **pointer, size_t *bytes, cudaLibrary_t library, const char *name),
        global(d, pointer, bytes, library, name, 1))
RT_CALL(cudaFuncGetName, (const char **name, const void *function), name_of(d, name, function))
RT_CALL(cudaKernelSetAttributeForDevice, (cudaKernel_t kernel, int which, int value, int device),
        set_attribute(d, kernel, which, value, device))
