#include "client/parts.h"

bool nvs_client_tells_gpu_time(const struct nvs_client *client)
{
    return client->is_registered && !client->is_hung && client->version >= NVS_GPU_TIME_SINCE;
}

uint32_t nvs_client_gpu_time(struct nvs_client *client, int gpu, const struct nvs_look_report *report)
{
    if (nvs_client_tells_gpu_time(client))
        nvs_frames_gpu_time(client, gpu, report);
    return client->out.todo;
}
