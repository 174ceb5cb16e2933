/* The linker. Nothing is linked: what was added last is the image. */
#include "driver/driver.h"

#include <stdlib.h>
#include <string.h>

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
