/* Libraries (context-independent modules), their kernels, the linker, and what functions say about themselves. A kernel
 * and its function are one object here. */
#include "driver.h"
#include "module.h"

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

/* Images are not read for parameters, so no kernel is known to have any. */
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size)
{
    SIM_TRY(check_function(function));
    (void)index, (void)size;
    return offset == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
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

/* ---- the linker: what was added last is the image ---- */

struct CUlinkState_st { uint32_t kind; void *image; size_t size; };

CUresult cuLinkCreate_v2(unsigned int count, int *options, void **values, CUlinkState *state)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    (void)options, (void)values;
    if (state == NULL || count > 64)
        return CUDA_ERROR_INVALID_VALUE;
    *state = sim_handle_new(SIM_LINK, sizeof **state);
    return *state != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuLinkAddData_v2(CUlinkState state, int type, void *data, size_t size, const char *name, unsigned int count, int *options, void **values)
{
    SIM_ENTER();
    (void)type, (void)name, (void)count, (void)options, (void)values;
    if (!sim_is(state, SIM_LINK) || data == NULL || size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    void *image = calloc(1, size + 8);
    if (image == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(image, data, size);
    free(state->image);
    state->image = image;
    state->size = size;
    return CUDA_SUCCESS;
}

CUresult cuLinkAddFile_v2(CUlinkState state, int type, const char *path, unsigned int count, int *options, void **values)
{
    SIM_ENTER();
    (void)type, (void)count, (void)options, (void)values;
    if (!sim_is(state, SIM_LINK) || path == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_ERROR_FILE_NOT_FOUND; /* only data is linked */
}

CUresult cuLinkComplete(CUlinkState state, void **image, size_t *size)
{
    SIM_ENTER();
    if (!sim_is(state, SIM_LINK) || image == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (state->image == NULL)
        return CUDA_ERROR_INVALID_IMAGE;
    *image = state->image;
    if (size != NULL)
        *size = state->size;
    return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state)
{
    SIM_ENTER();
    if (!sim_is(state, SIM_LINK))
        return CUDA_ERROR_INVALID_HANDLE;
    free(state->image);
    sim_handle_free(state);
    return CUDA_SUCCESS;
}

/* The first versions differ from the second only on 32-bit machines. */
CUresult cuLinkCreate(unsigned int count, int *options, void **values, CUlinkState *state) { return cuLinkCreate_v2(count, options, values, state); }

CUresult cuLinkAddData(CUlinkState state, int type, void *data, size_t size, const char *name, unsigned int count, int *options, void **values)
{
    return cuLinkAddData_v2(state, type, data, size, name, count, options, values);
}

CUresult cuLinkAddFile(CUlinkState state, int type, const char *path, unsigned int count, int *options, void **values)
{
    return cuLinkAddFile_v2(state, type, path, count, options, values);
}
