/* Libraries (context-independent modules), their kernels, and what functions say about themselves. A kernel
 * and its function are one object here. */
#include "driver/driver.h"
#include "driver/module/module.h"

#include <stdlib.h>
#include <string.h>

struct CUlib_st { uint32_t kind; CUmodule module; };

static CUresult make_library(CUlibrary *library, const void *code, const char *path)
{
    if (library == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUmodule module;
    SIM_TRY(path != NULL ? sim_module_load_file(path, NULL, &module) : sim_module_load(code, NULL, &module));
    *library = sim_handle_new(SIM_LIBRARY, sizeof **library);
    if (*library == NULL) {
        sim_module_unload(module);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (*library)->module = module;
    module->library = *library;
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, int *jit, void **jit_values, unsigned int jit_count, int *options, void **values, unsigned int count)
{
    SIM_ENTER();
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    return make_library(library, code, NULL);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, int *jit, void **jit_values, unsigned int jit_count, int *options, void **values, unsigned int count)
{
    SIM_ENTER();
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    return path == NULL ? CUDA_ERROR_INVALID_VALUE : make_library(library, NULL, path);
}

static CUresult check(CUlibrary library)
{
    SIM_ENTER();
    return sim_is(library, SIM_LIBRARY) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLibraryUnload(CUlibrary library)
{
    SIM_TRY(check(library));
    sim_module_unload(library->module);
    sim_handle_free(library);
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    SIM_TRY(check(library));
    return sim_module_function(library->module, name, (CUfunction *)kernel);
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
    SIM_TRY(check(library));
    return cuModuleGetFunctionCount(count, library->module);
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int count, CUlibrary library)
{
    SIM_TRY(check(library));
    return cuModuleEnumerateFunctions((CUfunction *)kernels, count, library->module);
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    CUcontext context;
    SIM_TRY(check(library));
    SIM_TRY(sim_current(&context));
    if (module == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *module = library->module;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *pointer, size_t *bytes, CUlibrary library, const char *name)
{
    CUcontext context;
    SIM_TRY(check(library));
    SIM_TRY(sim_current(&context));
    return sim_module_global(library->module, context, name, SIM_TRACE_DEVICE, pointer, bytes);
}

CUresult cuLibraryGetManaged(CUdeviceptr *pointer, size_t *bytes, CUlibrary library, const char *name)
{
    CUcontext context;
    SIM_TRY(check(library));
    SIM_TRY(sim_current(&context));
    return sim_module_global(library->module, context, name, SIM_TRACE_MANAGED, pointer, bytes);
}

CUresult cuLibraryGetUnifiedFunction(void **pointer, CUlibrary library, const char *name)
{
    SIM_TRY(check(library));
    if (pointer == NULL || name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_ERROR_NOT_FOUND; /* there are no unified function pointers in any image */
}

/* ---- functions and kernels ---- */

static CUresult check_function(const void *function)
{
    SIM_ENTER();
    return sim_is(function, SIM_FUNCTION) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    CUcontext context;
    SIM_TRY(check_function(kernel));
    SIM_TRY(sim_current(&context));
    if (function == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *function = (CUfunction)kernel;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
    SIM_TRY(check_function(kernel));
    if (library == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *library = ((CUfunction)kernel)->library;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
    SIM_TRY(check_function(function));
    if (name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *name = function->name;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUkernel kernel) { return cuFuncGetName(name, (CUfunction)kernel); }

CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
    SIM_TRY(check_function(function));
    if (module == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *module = function->module;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    SIM_TRY(check_function(function));
    if (value == NULL || (unsigned)attribute >= 16)
        return CUDA_ERROR_INVALID_VALUE;
    *value = function->attributes[attribute];
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    SIM_TRY(check_function(function));
    if ((unsigned)attribute < CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || (unsigned)attribute >= 16)
        return CUDA_ERROR_INVALID_VALUE;
    function->attributes[attribute] = value;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device)
{
    unsigned card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    return cuFuncGetAttribute(value, attribute, (CUfunction)kernel);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device)
{
    unsigned card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    return cuFuncSetAttribute((CUfunction)kernel, attribute, value);
}

CUresult cuFuncSetCacheConfig(CUfunction function, int config)
{
    SIM_TRY(check_function(function));
    return config >= 0 && config <= 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, int config, CUdevice device)
{
    unsigned card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    return cuFuncSetCacheConfig((CUfunction)kernel, config);
}

CUresult cuFuncSetSharedMemConfig(CUfunction function, int config)
{
    SIM_TRY(check_function(function));
    return config >= 0 && config <= 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Known for the special kernels, and for those of PTX texts. */
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size)
{
    static const size_t counts[] = {[SIM_SPIN] = 1, [SIM_TOUCH] = 2, [SIM_WAIT_FLAG] = 2, [SIM_TRAP] = 0};
    SIM_TRY(check_function(function));
    if (offset == NULL || size == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    bool is_plain = function->special == SIM_PLAIN;
    if (is_plain && (function->entry == NULL || !function->entry->params_known))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (index >= (is_plain ? function->entry->param_count : counts[function->special]))
        return CUDA_ERROR_INVALID_VALUE;
    *offset = is_plain ? function->entry->params[index].offset : 8 * index;
    *size = is_plain ? function->entry->params[index].bytes : 8;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
    return cuFuncGetParamInfo((CUfunction)kernel, index, offset, size);
}

CUresult cuFuncIsLoaded(int *state, CUfunction function)
{
    SIM_TRY(check_function(function));
    if (state == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *state = 1;
    return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function) { return check_function(function); }
