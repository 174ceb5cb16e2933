/* Frames that the client sends. All are built from zeroed memory: padding is part of a frame. */
#include <string.h>

#include "client/parts.h"

#define FRAME(message, number, index) \
    struct message frame; \
    memset(&frame, 0, sizeof frame); \
    frame.length = sizeof frame; \
    frame.type = (number); \
    frame.gpu = (uint8_t)(index)

static void put(struct nvs_client *client, const void *frame, size_t bytes)
{
    struct nvs_client_out *out = &client->out;
    if (!client->is_connected || bytes > sizeof out->frames - out->frames_bytes)
        return; /* there is always room: between two sends come a REGISTER of 64 GPUs or a few small frames for each */
    memcpy(out->frames + out->frames_bytes, frame, bytes);
    out->frames_bytes += (uint32_t)bytes;
    out->todo |= NVS_CLIENT_SEND;
}

/* The head, and room for the claims: nvs_frames_figures fills in one after the other. */
void nvs_frames_register(struct nvs_client *client)
{
    static const uint8_t no_entry[sizeof(struct nvs_gpu_entry)];
    FRAME(nvs_msg_register, NVS_REGISTER, 0);
    frame.length = (uint16_t)(sizeof frame + (size_t)client->gpu_count * sizeof(struct nvs_gpu_entry));
    frame.version = NVS_PROTOCOL_VERSION;
    frame.priority = client->config.priority;
    frame.weight = client->config.weight;
    frame.own_limit = client->config.own_limit;
    frame.entry_count = (uint8_t)client->gpu_count;
    frame.entry_size = sizeof(struct nvs_gpu_entry);
    memcpy(frame.run, client->config.run, sizeof frame.run);
    memcpy(frame.name, client->config.name, sizeof frame.name);
    client->out.frames_bytes = 0; /* if anything is left, it was for an earlier connection */
    client->register_at = sizeof frame;
    put(client, &frame, sizeof frame);
    for (int i = 0; i < client->gpu_count; i++)
        put(client, no_entry, sizeof no_entry);
}

static uint8_t claim_of(const struct nvs_turn *turn)
{
    if (turn->state == NVS_TURN_HOLDING || turn->state == NVS_TURN_DRAINING)
        return NVS_CLAIM_STATE_HOLDING;
    return nvs_turn_is_open(turn) ? NVS_CLAIM_STATE_UNSHARED : NVS_CLAIM_STATE_IDLE;
}

static void claim(struct nvs_client *client, int index, const struct nvs_account *account, uint16_t contexts)
{
    struct nvs_client_gpu *gpu = &client->gpus[index];
    struct nvs_gpu_entry entry;
    memset(&entry, 0, sizeof entry);
    entry.kind = gpu->kind;
    entry.state = claim_of(&gpu->turn);
    entry.size = gpu->bytes;
    entry.contexts = contexts;
    entry.lock = entry.state == NVS_CLAIM_STATE_HOLDING ? gpu->turn.lock : 0;
    entry.unswappable = account->unswappable;
    entry.swappable = account->used - account->unswappable;
    entry.limit = account->limit;
    entry.budget = account->budget;
    memcpy(entry.uuid, gpu->uuid, sizeof entry.uuid);
    gpu->turn.claimed_nothing = entry.state == NVS_CLAIM_STATE_IDLE;
    memcpy(client->out.frames + client->register_at + (size_t)index * sizeof entry, &entry, sizeof entry);
}

static void request(struct nvs_client *client, int gpu, const struct nvs_account *account, uint16_t contexts)
{
    FRAME(nvs_msg_req_lock, NVS_REQ_LOCK, gpu);
    frame.contexts = contexts;
    frame.unswappable = account->unswappable;
    frame.swappable = account->used - account->unswappable;
    put(client, &frame, sizeof frame);
}

static void report(struct nvs_client *client, int gpu, const struct nvs_account *account, uint16_t contexts)
{
    FRAME(nvs_msg_mem_update, NVS_MEM_UPDATE, gpu);
    frame.contexts = contexts;
    frame.unswappable = account->unswappable;
    frame.swappable = account->used - account->unswappable;
    put(client, &frame, sizeof frame);
}

void nvs_frames_figures(struct nvs_client *client, int index, struct nvs_account *account, uint32_t contexts)
{
    struct nvs_client_gpu *gpu = &client->gpus[index];
    uint16_t counted = contexts > UINT16_MAX ? UINT16_MAX : (uint16_t)contexts;
    if (gpu->owes_claim)
        claim(client, index, account, counted);
    else if (gpu->owes_request)
        request(client, index, account, counted);
    else if (gpu->owes_report && (nvs_account_is_news(account) || counted != gpu->told_contexts))
        report(client, index, account, counted);
    gpu->owes_claim = gpu->owes_request = gpu->owes_report = false;
    gpu->told_contexts = counted;
    nvs_account_tell(account);
}

void nvs_frames_released(struct nvs_client *client, int gpu, uint64_t lock, bool again)
{
    FRAME(nvs_msg_lock_released, NVS_LOCK_RELEASED, gpu);
    frame.again = again;
    frame.lock = lock;
    put(client, &frame, sizeof frame);
}

void nvs_frames_budget_return(struct nvs_client *client, int gpu, uint32_t serial, const struct nvs_account *account)
{
    FRAME(nvs_msg_budget_return, NVS_BUDGET_RETURN, gpu);
    frame.serial = serial;
    frame.budget = account->budget;
    frame.used = account->used;
    put(client, &frame, sizeof frame);
}

void nvs_frames_moved(struct nvs_client *client, int gpu, bool to_host, uint64_t bytes, int64_t took_ns)
{
    FRAME(nvs_msg_moved, NVS_MOVED, gpu);
    frame.to_host = to_host;
    frame.moved = bytes;
    frame.took_ns = (uint64_t)took_ns;
    put(client, &frame, sizeof frame);
}

void nvs_frames_room_made(struct nvs_client *client, int gpu, uint64_t left)
{
    FRAME(nvs_msg_room_made, NVS_ROOM_MADE, gpu);
    frame.left = left;
    put(client, &frame, sizeof frame);
}

void nvs_frames_working_set(struct nvs_client *client, int gpu, bool is_known, uint64_t bytes)
{
    FRAME(nvs_msg_working_set, NVS_WORKING_SET, gpu);
    frame.is_known = is_known;
    frame.used = bytes;
    put(client, &frame, sizeof frame);
}

void nvs_frames_on_host(struct nvs_client *client, int gpu, uint64_t bytes)
{
    FRAME(nvs_msg_on_host, NVS_ON_HOST, gpu);
    frame.held = bytes;
    put(client, &frame, sizeof frame);
}

void nvs_frames_slowed(struct nvs_client *client, int gpu, uint32_t factor)
{
    FRAME(nvs_msg_slowed, NVS_SLOWED, gpu);
    frame.factor = factor;
    put(client, &frame, sizeof frame);
}

void nvs_frames_gpu_time(struct nvs_client *client, int gpu, const struct nvs_look_report *report)
{
    FRAME(nvs_msg_gpu_time, NVS_GPU_TIME, gpu);
    frame.count = (uint16_t)report->count;
    frame.first = report->first;
    frame.busy_0 = report->busy[0];
    frame.busy_1 = report->busy[1];
    frame.busy_2 = report->busy[2];
    frame.busy_3 = report->busy[3];
    put(client, &frame, sizeof frame);
}

void nvs_frames_mover(struct nvs_client *client, int gpu, uint8_t state)
{
    FRAME(nvs_msg_mover, NVS_MOVER, gpu);
    frame.state = state;
    put(client, &frame, sizeof frame);
}

void nvs_frames_memory_mode(struct nvs_client *client, uint8_t mode)
{
    FRAME(nvs_msg_memory_mode, NVS_MEMORY_MODE, 0);
    frame.mode = mode;
    put(client, &frame, sizeof frame);
}

void nvs_frames_collective(struct nvs_client *client)
{
    if (client->uses_collectives && client->version >= NVS_JOBS_SINCE)
        nvs_frames_bare(client, NVS_COLLECTIVE, 0);
}

void nvs_frames_core_limit(struct nvs_client *client)
{
    FRAME(nvs_msg_core_limit, NVS_CORE_LIMIT, 0);
    frame.percent = client->config.core_limit;
    if (frame.percent && client->version >= NVS_GPU_TIME_SINCE)
        put(client, &frame, sizeof frame);
}

void nvs_frames_bare(struct nvs_client *client, uint8_t type, int gpu)
{
    FRAME(nvs_head, type, gpu);
    put(client, &frame, sizeof frame);
}

void nvs_frames_budget_ask(struct nvs_client *client, int gpu, uint32_t ask, uint64_t need)
{
    FRAME(nvs_msg_budget_ask, NVS_BUDGET_ASK, gpu);
    frame.ask = ask;
    frame.need = need;
    put(client, &frame, sizeof frame);
}
