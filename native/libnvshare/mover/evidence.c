#include "mover/evidence.h"

#include "base/cancellation.h"
#include "base/options.h"
#include "base/platform.h"
#include "gate/threads.h"
#include "gpu.h"
#include "lookup/real.h"
#include "mover/arguments.h"

struct nvs_usage nvs_evidence;

void nvs_evidence_setup(void)
{
    bool any = false;
    for (int i = 0; i < nvs_gpu_count; i++)
        any |= nvs_gpus[i].can_be_managed;
    if (any && nvs_options()->prefetch && nvs_options()->memory_mode == NVS_MODE_MANAGED)
        nvs_usage_setup(&nvs_evidence);
}

static void pointed(void *usage, uint64_t address) { nvs_usage_pointed(usage, address); }
static void copied(void *usage, uint64_t address, uint64_t bytes) { nvs_usage_copied(usage, address, bytes); }
static const struct nvs_named used_now = {.pointer = pointed, .range = copied, .self = &nvs_evidence};

void nvs_evidence_launch(CUfunction function, void **params, void **extra)
{
    struct nvs_sampling *sampling = &nvs_thread_self->sampling;
    if (!nvs_evidence.marks) {
        sampling->left = UINT32_MAX; /* nothing is marked in this process */
        return;
    }
    NVS_NO_CANCELLATION; /* the ledger's locks */
    if (!nvs_arguments_kernel(function, params, extra, &used_now))
        nvs_usage_blind(&nvs_evidence);
    nvs_sampling_looked(sampling, nvs_now_ns());
}

bool nvs_evidence_sees_launches(void)
{
    return nvs_evidence.marks && nvs_real_has((const void *const *)&nvs_real.cuFuncGetParamInfo);
}

void nvs_evidence_copy_2d(const CUDA_MEMCPY2D *copy)
{
    if (copy && nvs_evidence.marks)
        nvs_arguments_copy_2d(copy, &used_now);
}

void nvs_evidence_copy_3d(const CUDA_MEMCPY3D *copy)
{
    if (copy && nvs_evidence.marks)
        nvs_arguments_copy_3d(copy, &used_now);
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
