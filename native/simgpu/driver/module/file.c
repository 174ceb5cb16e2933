/* Images in files. */
#include "driver/driver.h"
#include "driver/module/module.h"

#include <stdio.h>
#include <stdlib.h>

/* Where loading takes time the context is locked until the first byte has come. If the file is a named pipe, a test decides how long
 * that is. */
static FILE *open_image(const char *path, CUcontext context)
{
    bool is_locked = sim.module_load_ns != 0 && context != NULL;
    if (is_locked)
        pthread_mutex_lock(&context->lock);
    FILE *file = fopen(path, "rb");
    if (file != NULL)
        getc(file);
    if (is_locked)
        pthread_mutex_unlock(&context->lock);
    return file;
}

CUresult sim_module_load_file(const char *path, CUcontext context, CUmodule *module)
{
    FILE *file = path != NULL ? open_image(path, context) : NULL;
    if (file == NULL)
        return path == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_FILE_NOT_FOUND;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *image = size > 0 ? calloc(1, (size_t)size + 8) : NULL;
    bool complete = image != NULL && fread(image, 1, (size_t)size, file) == (size_t)size;
    fclose(file);
    CUresult result = complete ? sim_module_load(image, context, module) : CUDA_ERROR_INVALID_IMAGE;
    free(image);
    return result;
}
