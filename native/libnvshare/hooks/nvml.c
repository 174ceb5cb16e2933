#include "hooks/nvml.h"

#include <stdatomic.h>
#include <string.h>

#include "base/options.h"
#include "helper/limit_query.h"
#include "hooks/hooks.h"
#include "lookup/real.h"
#include "memory/memory.h"

enum { NVML_SUCCESS = 0, NVML_ERROR_FUNCTION_NOT_FOUND = 13, UUID_TEXT = 96 };

struct nvml_memory { unsigned long long total, free, used; };
struct nvml_memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };

NVS_EXPORT int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *memory);
NVS_EXPORT int nvmlDeviceGetMemoryInfo_v2(void *device, struct nvml_memory_v2 *memory);

/* Looked up at first use. Threads may do that at the same time: they store the same pointer. */
static int (*_Atomic real_info)(void *, struct nvml_memory *);
static int (*_Atomic real_info_v2)(void *, struct nvml_memory_v2 *);
static int (*_Atomic real_uuid)(void *, char *, unsigned);

static bool find_uuid(void *device, char text[UUID_TEXT])
{
    if (!real_uuid)
        real_uuid = (int (*)(void *, char *, unsigned))nvs_real_nvml("nvmlDeviceGetUUID");
    return real_uuid && real_uuid(device, text, UUID_TEXT) == NVML_SUCCESS;
}

static struct nvs_gpu *gpu_of(const char *text)
{
    for (int i = 0; i < nvs_gpu_count; i++)
        if (!strcmp(nvs_gpus[i].label, text))
            return &nvs_gpus[i];
    return NULL;
}

static void adapt(void *device, unsigned long long *total, unsigned long long *free_bytes, unsigned long long *used)
{
    NVS_NO_CANCELLATION;
    char uuid[UUID_TEXT] = "";
    uint64_t limit = nvs_options()->limit_bytes;
    /* The library is not set up here: a program that only reads NVML (nvidia-smi) must not become a client. */
    bool is_set_up = nvs_process_is_set_up(), has_uuid = (is_set_up || limit) && find_uuid(device, uuid);
    struct nvs_gpu *gpu = is_set_up && has_uuid ? gpu_of(uuid) : NULL;
    if (gpu) {
        nvs_lock_take(&gpu->account_lock);
        nvs_memory_count_contexts(gpu);
        *total = nvs_account_total(&gpu->account);
        *free_bytes = nvs_account_free(&gpu->account);
        nvs_lock_give(&gpu->account_lock);
        *used = *total - *free_bytes;
    } else if (!is_set_up && has_uuid && nvs_limit_query(uuid, *total, total, free_bytes)) {
        *used = *total - *free_bytes;
    } else if (limit && limit < *total) { /* what others use of the card does not count against the limit */
        *used = 0;
        *total = *free_bytes = limit;
    }
}

/* total = reserved + used + free. What the driver reserves is a part of the card, not of a limit. */
static void adapt_v2(void *device, struct nvml_memory_v2 *memory)
{
    unsigned long long of_card = memory->total;
    adapt(device, &memory->total, &memory->free, &memory->used);
    if (memory->total < of_card)
        memory->reserved = 0;
    unsigned long long taken = memory->total - memory->free;
    memory->reserved = memory->reserved < taken ? memory->reserved : taken;
    memory->used = taken - memory->reserved;
}

int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *memory)
{
    if (!real_info)
        real_info = (int (*)(void *, struct nvml_memory *))nvs_real_nvml("nvmlDeviceGetMemoryInfo");
    int result = real_info ? real_info(device, memory) : NVML_ERROR_FUNCTION_NOT_FOUND;
    if (result == NVML_SUCCESS && !nvs_options()->disable)
        adapt(device, &memory->total, &memory->free, &memory->used);
    return result;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, struct nvml_memory_v2 *memory)
{
    if (!real_info_v2)
        real_info_v2 = (int (*)(void *, struct nvml_memory_v2 *))nvs_real_nvml("nvmlDeviceGetMemoryInfo_v2");
    int result = real_info_v2 ? real_info_v2(device, memory) : NVML_ERROR_FUNCTION_NOT_FOUND;
    if (result == NVML_SUCCESS && !nvs_options()->disable)
        adapt_v2(device, memory);
    return result;
}

void *nvs_nvml_route(const char *name, void *found)
{
    if (!strcmp(name, "nvmlDeviceGetMemoryInfo"))
        return found == (void *)nvs_real_nvml(name) ? (void *)nvmlDeviceGetMemoryInfo : found;
    if (!strcmp(name, "nvmlDeviceGetMemoryInfo_v2"))
        return found == (void *)nvs_real_nvml(name) ? (void *)nvmlDeviceGetMemoryInfo_v2 : found;
    return found;
}
