#include "client/tell.h"

#include "client/parts.h"

#define SLOWED_NS INT64_C(1000000000)
#define WORKING_SET_NEWS (UINT64_C(64) << 20)

uint32_t nvs_tell_moved(struct nvs_client *client, int gpu, bool to_host, uint64_t bytes, int64_t took_ns)
{
    if (client->is_registered && client->version >= NVS_MOVES_SINCE)
        nvs_frames_moved(client, gpu, to_host, bytes, took_ns);
    return client->out.todo;
}

static void tell_room_made(struct nvs_client *client, int index, uint64_t left)
{
    const struct nvs_turn *turn = &client->gpus[index].turn;
    if (client->is_registered && client->version >= NVS_ROOM_SINCE && !turn->lock && !nvs_turn_is_open(turn))
        nvs_frames_room_made(client, index, left);
}

uint32_t nvs_tell_move_ended(struct nvs_client *client, int gpu, bool to_host, uint64_t bytes, uint64_t left, int64_t took_ns)
{
    if (to_host)
        tell_room_made(client, gpu, left);
    return bytes ? nvs_tell_moved(client, gpu, to_host, bytes, took_ns) : client->out.todo;
}

uint32_t nvs_tell_working_set(struct nvs_client *client, int index, bool is_known, uint64_t bytes)
{
    struct nvs_client_gpu *gpu = &client->gpus[index];
    uint64_t change = bytes > gpu->told_working_set ? bytes - gpu->told_working_set : gpu->told_working_set - bytes;
    if (!client->is_registered || client->version < NVS_WORKING_SETS_SINCE || client->is_hung)
        return client->out.todo;
    if (is_known == gpu->is_told_known && (!is_known || change < WORKING_SET_NEWS))
        return client->out.todo;
    gpu->is_told_known = is_known;
    gpu->told_working_set = bytes;
    nvs_frames_working_set(client, index, is_known, bytes);
    return client->out.todo;
}

uint32_t nvs_tell_held(struct nvs_client *client, int index, uint64_t bytes)
{
    struct nvs_client_gpu *gpu = &client->gpus[index];
    bool is_news = bytes != gpu->held_bytes;
    gpu->held_bytes = bytes;
    if (is_news && client->is_registered && client->version >= NVS_HOLDS_SINCE)
        nvs_frames_on_host(client, index, bytes);
    return client->out.todo;
}

uint32_t nvs_tell_slowed(struct nvs_client *client, int64_t now_ns, int index, uint32_t factor)
{
    struct nvs_client_gpu *gpu = &client->gpus[index];
    bool is_due = !gpu->slowed_ns || now_ns - gpu->slowed_ns >= SLOWED_NS;
    if (client->is_registered && client->version >= NVS_WORKING_SETS_SINCE && gpu->turn.state == NVS_TURN_HOLDING && is_due) {
        gpu->slowed_ns = now_ns;
        nvs_frames_slowed(client, index, factor);
    }
    return client->out.todo;
}

uint32_t nvs_tell_mover(struct nvs_client *client, int index, uint8_t state)
{
    struct nvs_client_gpu *gpu = &client->gpus[index];
    if (client->is_registered && client->version >= NVS_MOVER_SINCE && !client->is_hung && state != gpu->told_mover) {
        gpu->told_mover = state;
        nvs_frames_mover(client, index, state);
    }
    return client->out.todo;
}

uint32_t nvs_tell_memory_mode(struct nvs_client *client, uint8_t mode)
{
    if (client->is_registered && client->version >= NVS_MEMORY_MODES_SINCE && !client->is_hung && mode != client->told_mode) {
        client->told_mode = mode;
        nvs_frames_memory_mode(client, mode);
    }
    return client->out.todo;
}

bool nvs_tell_gpu_time_is_wanted(const struct nvs_client *client)
{
    return client->is_registered && !client->is_hung && client->version >= NVS_GPU_TIME_SINCE;
}

uint32_t nvs_tell_gpu_time(struct nvs_client *client, int gpu, const struct nvs_look_report *report)
{
    if (nvs_tell_gpu_time_is_wanted(client))
        nvs_frames_gpu_time(client, gpu, report);
    return client->out.todo;
}
