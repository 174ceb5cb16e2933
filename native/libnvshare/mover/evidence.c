#include "mover/evidence.h"

#include <string.h>

#include "base/options.h"
#include "base/platform.h"
#include "gate/threads.h"
#include "gpu.h"
#include "lookup/real.h"

enum { MOST_PARAMS = 256, MOST_PARAM_BYTES = 4096 };

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

/* Drivers before 12.4 have neither call; then nothing is known of parameters, not even how many there are. A launch takes
 * kernels too (`is_kernel`). */
static CUresult param_info(CUfunction function, bool is_kernel, size_t index, size_t *offset, size_t *bytes)
{
    return is_kernel ? nvs_real.cuKernelGetParamInfo((CUkernel)function, index, offset, bytes)
                     : nvs_real.cuFuncGetParamInfo(function, index, offset, bytes);
}

/* False if it is not known what the launch uses. The driver answers INVALID_VALUE behind the last parameter. */
static bool look_at_all(CUfunction function, void **params)
{
    size_t end = 0, offset = 0, bytes = 0;
    CUresult result = param_info(function, false, 0, &offset, &bytes);
    bool is_kernel = result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < MOST_PARAMS; i++) {
        result = param_info(function, is_kernel, i, &offset, &bytes);
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

void nvs_evidence_launch(CUfunction function, void **params, void **extra)
{
    struct nvs_sampling *sampling = &nvs_thread_self->sampling;
    if (!nvs_evidence.marks) {
        sampling->left = UINT32_MAX; /* nobody wants to know */
        return;
    }
    if (extra || !look_at_all(function, params))
        nvs_usage_blind(&nvs_evidence);
    nvs_sampling_looked(sampling, nvs_now_ns());
}

bool nvs_evidence_sees_launches(void)
{
    return nvs_evidence.marks && nvs_real_has((const void *const *)&nvs_real.cuFuncGetParamInfo);
}
