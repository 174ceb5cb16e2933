#include "mover/arguments.h"

#include <string.h>

#include "memory/entries.h"
#include "memory/memory.h"

enum { MOST_PARAMS = 256, MOST_PARAM_BYTES = 4096, MOST_EXTRAS = 4 };

/* A parameter may be a structure that holds pointers: each aligned word of it is looked at. */
static void look_at(const char *param, size_t offset, size_t bytes, const struct nvs_named *named)
{
    for (size_t at = (8 - offset % 8) % 8; at + 8 <= bytes && at < MOST_PARAM_BYTES; at += 8) {
        uint64_t word;
        memcpy(&word, param + at, sizeof word);
        named->pointer(named->self, word);
    }
}

/* Of a function, or of a kernel, which a launch takes too. Drivers before 12.4 have neither call; then nothing is known of
 * parameters, not even how many there are. */
static CUresult param_info(CUfunction function, bool is_kernel, size_t index, size_t *offset, size_t *bytes)
{
    return is_kernel ? nvs_real.cuKernelGetParamInfo((CUkernel)function, index, offset, bytes)
                     : nvs_real.cuFuncGetParamInfo(function, index, offset, bytes);
}

/* False if it is not known what the launch uses. The driver answers INVALID_VALUE behind the last parameter. */
static bool look_at_all(CUfunction function, void **params, const struct nvs_named *named)
{
    size_t end = 0, offset = 0, bytes = 0;
    struct nvs_ledger_entry entry;
    bool is_kernel = nvs_entries_find(NVS_KIND_KERNEL, (uintptr_t)function, &entry);
    for (size_t i = 0; i < MOST_PARAMS; i++) {
        CUresult result = param_info(function, is_kernel, i, &offset, &bytes);
        if (result != CUDA_SUCCESS)
            return result == CUDA_ERROR_INVALID_VALUE;
        if (!params || !bytes || offset < end)
            return false; /* `params` may end here: an answer that makes no sense is the end too */
        end = offset + bytes;
        if (params[i])
            look_at(params[i], offset, bytes, named);
    }
    return false;
}

/* The buffer that a launch passes all parameters in. False if there is none. */
static bool look_at_buffer(void **extra, const struct nvs_named *named)
{
    const char *buffer = NULL;
    size_t bytes = 0;
    for (int i = 0; i < MOST_EXTRAS && extra[0] != CU_LAUNCH_PARAM_END; i++, extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1])
            memcpy(&bytes, extra[1], sizeof bytes);
    }
    if (buffer)
        look_at(buffer, 0, bytes, named);
    return buffer != NULL;
}

bool nvs_arguments_kernel(CUfunction function, void **params, void **extra, const struct nvs_named *named)
{
    return !params && extra ? look_at_buffer(extra, named) : look_at_all(function, params, named);
}

/* One side of a copy: `rows` of `width` bytes, `pitch` apart. Arrays are skipped; `range` ignores memory that is not ours. */
static void look_at_side(CUmemorytype type, CUdeviceptr base, size_t skipped, size_t pitch, size_t width, size_t rows, const struct nvs_named *named)
{
    if ((type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED) && width && rows)
        named->range(named->self, base + skipped, (rows - 1) * pitch + width);
}

void nvs_arguments_copy_2d(const CUDA_MEMCPY2D *copy, const struct nvs_named *named)
{
    look_at_side(copy->srcMemoryType, copy->srcDevice, copy->srcY * copy->srcPitch + copy->srcXInBytes, copy->srcPitch,
                 copy->WidthInBytes, copy->Height, named);
    look_at_side(copy->dstMemoryType, copy->dstDevice, copy->dstY * copy->dstPitch + copy->dstXInBytes, copy->dstPitch,
                 copy->WidthInBytes, copy->Height, named);
}

/* The rows of a layer, and then those of the next: the rows between them count as used too. */
void nvs_arguments_copy_3d(const CUDA_MEMCPY3D *copy, const struct nvs_named *named)
{
    if (!copy->Depth)
        return;
    size_t from = (copy->srcZ * copy->srcHeight + copy->srcY) * copy->srcPitch + copy->srcXInBytes;
    size_t to = (copy->dstZ * copy->dstHeight + copy->dstY) * copy->dstPitch + copy->dstXInBytes;
    look_at_side(copy->srcMemoryType, copy->srcDevice, from, copy->srcPitch, copy->WidthInBytes,
                 (copy->Depth - 1) * copy->srcHeight + copy->Height, named);
    look_at_side(copy->dstMemoryType, copy->dstDevice, to, copy->dstPitch, copy->WidthInBytes,
                 (copy->Depth - 1) * copy->dstHeight + copy->Height, named);
}
