#include "mover/evidence.h"

#include <string.h>

#include "base/options.h"
#include "base/platform.h"
#include "gate/threads.h"
#include "gpu.h"
#include "lookup/real.h"
#include "memory/memory.h"

enum { MOST_PARAMS = 256, MOST_PARAM_BYTES = 4096, MOST_EXTRAS = 4 };

struct nvs_usage nvs_evidence;

void nvs_evidence_setup(void)
{
    bool any = false;
    for (int i = 0; i < nvs_gpu_count; i++)
        any |= nvs_gpus[i].can_be_managed;
    if (any && nvs_options()->prefetch && !nvs_options()->native_memory)
        nvs_usage_setup(&nvs_evidence);
}

/* A parameter may be a structure that holds pointers: each aligned word of it is looked at. */
static void look_at(const char *param, size_t offset, size_t bytes)
{
    for (size_t at = (8 - offset % 8) % 8; at + 8 <= bytes && at < MOST_PARAM_BYTES; at += 8) {
        uint64_t word;
        memcpy(&word, param + at, sizeof word);
        nvs_usage_pointed(&nvs_evidence, word);
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
static bool look_at_all(CUfunction function, void **params)
{
    size_t end = 0, offset = 0, bytes = 0;
    struct nvs_ledger_entry entry;
    bool is_kernel = nvs_memory_look(NVS_KIND_KERNEL, (uintptr_t)function, &entry);
    for (size_t i = 0; i < MOST_PARAMS; i++) {
        CUresult result = param_info(function, is_kernel, i, &offset, &bytes);
        if (result != CUDA_SUCCESS)
            return result == CUDA_ERROR_INVALID_VALUE;
        if (!params || !bytes || offset < end)
            return false; /* `params` may end here: an answer that makes no sense is the end too */
        end = offset + bytes;
        if (params[i])
            look_at(params[i], offset, bytes);
    }
    return false;
}

/* The buffer that a launch passes all parameters in. False if there is none. */
static bool look_at_buffer(void **extra)
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
        look_at(buffer, 0, bytes);
    return buffer != NULL;
}

void nvs_evidence_launch(CUfunction function, void **params, void **extra)
{
    struct nvs_sampling *sampling = &nvs_thread_self->sampling;
    if (!nvs_evidence.marks) {
        sampling->left = UINT32_MAX; /* nothing is marked in this process */
        return;
    }
    if (!params && extra ? !look_at_buffer(extra) : !look_at_all(function, params))
        nvs_usage_blind(&nvs_evidence);
    nvs_sampling_looked(sampling, nvs_now_ns());
}

bool nvs_evidence_sees_launches(void)
{
    return nvs_evidence.marks && nvs_real_has((const void *const *)&nvs_real.cuFuncGetParamInfo);
}

/* ---- copies of other shapes ---- */

/* One side of a copy: `rows` of `width` bytes, `pitch` apart. An array or memory of the host is not ours; the marks know. */
static void look_at_side(CUmemorytype type, CUdeviceptr base, size_t skipped, size_t pitch, size_t width, size_t rows)
{
    if ((type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED) && width && rows)
        nvs_usage_copied(&nvs_evidence, base + skipped, (rows - 1) * pitch + width);
}

void nvs_evidence_copy_2d(const CUDA_MEMCPY2D *copy)
{
    if (!copy || !nvs_evidence.marks)
        return;
    look_at_side(copy->srcMemoryType, copy->srcDevice, copy->srcY * copy->srcPitch + copy->srcXInBytes, copy->srcPitch,
                 copy->WidthInBytes, copy->Height);
    look_at_side(copy->dstMemoryType, copy->dstDevice, copy->dstY * copy->dstPitch + copy->dstXInBytes, copy->dstPitch,
                 copy->WidthInBytes, copy->Height);
}

/* The rows of a layer, and then those of the next: the rows between them count as used too. */
void nvs_evidence_copy_3d(const CUDA_MEMCPY3D *copy)
{
    if (!copy || !nvs_evidence.marks || !copy->Depth)
        return;
    size_t from = (copy->srcZ * copy->srcHeight + copy->srcY) * copy->srcPitch + copy->srcXInBytes;
    size_t to = (copy->dstZ * copy->dstHeight + copy->dstY) * copy->dstPitch + copy->dstXInBytes;
    look_at_side(copy->srcMemoryType, copy->srcDevice, from, copy->srcPitch, copy->WidthInBytes,
                 (copy->Depth - 1) * copy->srcHeight + copy->Height);
    look_at_side(copy->dstMemoryType, copy->dstDevice, to, copy->dstPitch, copy->WidthInBytes,
                 (copy->Depth - 1) * copy->dstHeight + copy->Height);
}

void nvs_evidence_copies(const CUdeviceptr *to, const CUdeviceptr *from, const size_t *bytes, size_t count)
{
    for (size_t i = 0; to && from && bytes && nvs_evidence.marks && i < count; i++)
        nvs_evidence_copy(to[i], from[i], bytes[i]);
}

void nvs_evidence_left_alone(const CUdeviceptr *at, const size_t *bytes, size_t count)
{
    for (size_t i = 0; at && bytes && nvs_evidence.marks && i < count; i++)
        nvs_usage_left_alone(&nvs_evidence, at[i], bytes[i]);
}
