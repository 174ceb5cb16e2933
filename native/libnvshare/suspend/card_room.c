#include "suspend/card_room.h"

#include "lookup/real.h"

enum { NVML_SUCCESS = 0 };
struct nvml_memory { unsigned long long total, free, used; };

static struct {
    int (*init)(void);
    int (*find)(const char *uuid, void **device);
    int (*memory)(void *device, struct nvml_memory *memory);
    bool is_looked_up;
} nvml; /* the helper's own */

static bool look_up(void)
{
    if (!nvml.is_looked_up) {
        nvml.init = (int (*)(void))nvs_real_nvml("nvmlInit_v2");
        nvml.find = (int (*)(const char *, void **))nvs_real_nvml("nvmlDeviceGetHandleByUUID");
        nvml.memory = (int (*)(void *, struct nvml_memory *))nvs_real_nvml("nvmlDeviceGetMemoryInfo");
        if (!nvml.init || nvml.init() != NVML_SUCCESS) /* never shut down: the program may use it */
            nvml.memory = NULL;
    }
    nvml.is_looked_up = true;
    return nvml.find && nvml.memory;
}

bool nvs_card_room_suffices(const struct nvs_gpu *gpu, uint64_t bytes)
{
    void *device;
    struct nvml_memory memory;
    if (!look_up() || nvml.find(gpu->label, &device) != NVML_SUCCESS || nvml.memory(device, &memory) != NVML_SUCCESS)
        return true;
    return memory.free >= bytes;
}
