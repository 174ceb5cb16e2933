#include "gpu.h"

#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "lookup/symbols.h"

struct nvs_gpu nvs_gpus[NVS_MAX_GPUS];
int nvs_gpu_count;

static uint64_t device_bytes(CUdevice device)
{
    size_t bytes = 0;
    return nvs_real.cuDeviceTotalMem_v2(&bytes, device) == CUDA_SUCCESS ? bytes : 0;
}

static bool pages_memory(CUdevice device)
{
    int managed = 0, concurrent = 0;
    nvs_real.cuDeviceGetAttribute(&managed, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, device);
    nvs_real.cuDeviceGetAttribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device);
    return managed && concurrent;
}

static uint8_t kind_of(CUdevice device)
{
    char name[256] = "";
    nvs_real.cuDeviceGetName(name, sizeof name - 1, device);
    return strstr(name, " MIG ") ? NVS_GPU_KIND_MIG : NVS_GPU_KIND_GPU;
}

static void print_label(struct nvs_gpu *gpu)
{
    const uint8_t *u = gpu->uuid;
    snprintf(gpu->label, sizeof gpu->label, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             gpu->kind == NVS_GPU_KIND_MIG ? "MIG" : "GPU", u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10],
             u[11], u[12], u[13], u[14], u[15]);
}

void nvs_gpu_setup(int index, struct nvs_gate *gate)
{
    struct nvs_gpu *gpu = &nvs_gpus[index];
    CUuuid uuid = {{0}};
    *gpu = (struct nvs_gpu){.index = index, .gate = gate, .account_lock = NVS_LOCK_WITH_RANK(NVS_LOCK_ACCOUNT)};
    if (nvs_real.cuDeviceGetUuid_v2(&uuid, index) != CUDA_SUCCESS)
        nvs_real.cuDeviceGetUuid(&uuid, index);
    memcpy(gpu->uuid, uuid.bytes, sizeof gpu->uuid);
    gpu->kind = kind_of(index);
    gpu->bytes = device_bytes(index);
    gpu->can_be_managed = pages_memory(index);
    print_label(gpu);
    nvs_account_init(&gpu->account, gpu->bytes, nvs_options()->limit_bytes, nvs_options()->single_oversub);
}

struct nvs_gpu *nvs_gpu_current(void)
{
    CUdevice device;
    if (nvs_real.cuCtxGetDevice(&device) != CUDA_SUCCESS || device < 0 || device >= nvs_gpu_count)
        return NULL;
    return &nvs_gpus[device];
}

/* Where there is one GPU, every context is on it, and the driver need not be asked. */
struct nvs_gpu *nvs_gpu_current_with_context(CUcontext *context)
{
    *context = NULL;
    if (nvs_real.cuCtxGetCurrent(context) != CUDA_SUCCESS || !*context)
        return NULL;
    return nvs_gpu_count == 1 ? &nvs_gpus[0] : nvs_gpu_current();
}
