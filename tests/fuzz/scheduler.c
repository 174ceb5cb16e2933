/* A scheduler's frames, well-formed, with values from where it gets interesting. */
#include <string.h>

#include "world.h"

static const uint64_t sizes[] = {0, 1, 4096, 1 << 20, 64 << 20, 1 << 30, (1 << 30) + 1, 3ull << 30, 1ull << 34, (1ull << 34) + 1,
                                 NVS_MAX_BYTES, NVS_MAX_BYTES + 1, 1ull << 63, NVS_UNLIMITED - 1, NVS_UNLIMITED, 2ull << 30};
static const struct { uint8_t type, length; } kinds[] = {
    {NVS_SCHED_ON, sizeof(struct nvs_msg_sched_on)},
    {NVS_LOCK_OK, sizeof(struct nvs_msg_lock_ok)},
    {NVS_DROP_LOCK, sizeof(struct nvs_msg_drop_lock)},
    {NVS_CONTENDED, sizeof(struct nvs_msg_contended)},
    {NVS_UPDATE_LIMIT, sizeof(struct nvs_msg_update_limit)},
    {NVS_BUDGET, sizeof(struct nvs_msg_budget)},
    {NVS_BUDGET_RECALL, sizeof(struct nvs_msg_budget_recall)},
    {NVS_WAIT_FOR_MEM, sizeof(struct nvs_msg_wait_for_mem)},
    {NVS_MEM_AVAILABLE, sizeof(struct nvs_msg_mem_available)},
    {NVS_LONG_WAIT, sizeof(struct nvs_msg_long_wait)},
    {NVS_SCHED_OFF, sizeof(struct nvs_msg_sched_off)},
    {NVS_CAPACITY, sizeof(struct nvs_msg_capacity)},
    {NVS_MOVE_IN, sizeof(struct nvs_msg_move_in)},
    {NVS_MOVE_OUT, sizeof(struct nvs_msg_move_out)},
    {NVS_KEEP_ON_HOST, sizeof(struct nvs_msg_keep_on_host)},
    {NVS_LET_ONE, sizeof(struct nvs_msg_let_one)},
    {NVS_EXPECTED_START, sizeof(struct nvs_msg_expected_start)},
    {NVS_PONG, sizeof(struct nvs_msg_pong)}, /* or one that we do not know */
};
enum { KINDS = sizeof kinds / sizeof *kinds, FIRST_SHORT = 252, UNKNOWN = 200 };

uint64_t world_size(uint8_t choice) { return sizes[choice % (sizeof sizes / sizeof *sizes)]; }

uint8_t world_least_bytes(uint8_t type)
{
    for (int i = 0; i < KINDS; i++)
        if (kinds[i].type == type)
            return kinds[i].length;
    return 0;
}

static void put(uint8_t *frame, size_t offset, uint64_t value, size_t bytes) { memcpy(frame + offset, &value, bytes); }
#define PUT(message, field, value) put(frame, offsetof(struct message, field), value, sizeof((struct message *)0)->field)

/* A new lock, or sometimes an old one again. */
static void give(uint8_t *frame, const uint64_t *locks, uint8_t how)
{
    static uint64_t last = 7ull << 32;
    PUT(nvs_msg_lock_ok, contended, how & 1);
    PUT(nvs_msg_lock_ok, lock, how < 224 ? ++last : locks[how % WORLD_LOCKS]);
}

static void budget(uint8_t *frame, uint8_t how)
{
    PUT(nvs_msg_budget, serial, how & 7);
    PUT(nvs_msg_budget, ask, how & 128 ? world.last_ask : how);
    PUT(nvs_msg_budget, budget, world_size(how));
    PUT(nvs_msg_budget, others, world_size(how >> 3));
}

static void long_wait(uint8_t *frame, uint8_t how)
{
    PUT(nvs_msg_long_wait, holders, how & 3);
    PUT(nvs_msg_long_wait, waited_ms, world_size(how));
    memset(frame + offsetof(struct nvs_msg_long_wait, holder), how, how % (NVS_NAME_BYTES + 1));
    frame[offsetof(struct nvs_msg_long_wait, holder)] = 0xc2; /* with the next byte a letter, or a control character */
}

size_t world_make_frame(uint8_t frame[WORLD_FRAME], uint8_t gpu, uint8_t kind, uint8_t how)
{
    uint8_t type = kinds[kind % KINDS].type;
    int extra = kind < FIRST_SHORT ? kind / KINDS % 4 : -1; /* a newer scheduler says more than we know, a broken one less */
    const uint64_t *locks = world.gpus[gpu % WORLD_GPUS].locks;
    memset(frame, 0, WORLD_FRAME);
    frame[0] = (uint8_t)(kinds[kind % KINDS].length + extra), frame[2] = type, frame[3] = gpu;
    if (type == NVS_LOCK_OK)
        give(frame, locks, how);
    else if (type == NVS_DROP_LOCK)
        PUT(nvs_msg_drop_lock, lock, locks[how < 192 ? 0 : how % WORLD_LOCKS]);
    else if (type == NVS_MOVE_IN || type == NVS_MOVE_OUT)
        PUT(nvs_msg_move_in, lock, locks[how < 192 ? 0 : how % WORLD_LOCKS]), PUT(nvs_msg_move_in, most, world_size(how));
    else if (type == NVS_SCHED_ON || type == NVS_SCHED_OFF)
        PUT(nvs_msg_sched_on, version, how % 4 ? NVS_PROTOCOL_VERSION : 1);
    else if (type == NVS_CONTENDED)
        PUT(nvs_msg_contended, contended, how & 1);
    else if (type == NVS_KEEP_ON_HOST)
        PUT(nvs_msg_keep_on_host, keep, world_size(how));
    else if (type == NVS_UPDATE_LIMIT)
        PUT(nvs_msg_update_limit, limit, world_size(how));
    else if (type == NVS_BUDGET)
        budget(frame, how);
    else if (type == NVS_BUDGET_RECALL)
        PUT(nvs_msg_budget_recall, keep, world_size(how)), PUT(nvs_msg_budget_recall, serial, how);
    else if (type == NVS_EXPECTED_START)
        PUT(nvs_msg_expected_start, within_ms, world_size(how));
    else if (type == NVS_LONG_WAIT)
        long_wait(frame, how);
    else if (type == NVS_PONG)
        frame[2] = how & 1 ? UNKNOWN : type;
    else if (type == NVS_CAPACITY)
        PUT(nvs_msg_capacity, room, world_size(how)), PUT(nvs_msg_capacity, context, world_size(how >> 3));
    return frame[0];
}
