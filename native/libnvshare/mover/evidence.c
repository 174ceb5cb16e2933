#include "mover/evidence.h"

#include <string.h>

#include "base/options.h"
#include "gpu.h"

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

/* Drivers before 12.4 have neither call; then nothing is known of parameters, not even how many there are. */
static CUresult param_info(CUfunction function, size_t index, size_t *offset, size_t *bytes)
{
    CUresult result = nvs_real.cuFuncGetParamInfo(function, index, offset, bytes);
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_FOUND)
        return result;
    return nvs_real.cuKernelGetParamInfo((CUkernel)function, index, offset, bytes); /* a launch takes kernels too */
}

void nvs_evidence_launch(CUfunction function, void **params)
{
    size_t end = 0;
    if (!nvs_evidence.marks || !params)
        return;
    for (size_t i = 0; i < MOST_PARAMS; i++) {
        size_t offset = 0, bytes = 0;
        if (param_info(function, i, &offset, &bytes) != CUDA_SUCCESS || !bytes || offset < end)
            return; /* `params` may end here: an answer that makes no sense is the end too */
        end = offset + bytes;
        if (params[i])
            look_at(params[i], offset, bytes);
    }
}
