/* The working set (mover/working_set.h) is computed twice a second while the process may use the GPU, and before each report of
 * its memory. With many allocations this takes time, so it uses at most 1/50 of the helper's time.
 *
 * Stamps count the time in which memory is used, not turns. So a program that pauses keeps its working set, and so does a program
 * that has many short turns. */
#include "helper/reports.h"

#include <stdatomic.h>
#include <string.h>

#include "client/tell.h"
#include "helper/helper.h"
#include "memory/entries.h"
#include "memory/memory.h"
#include "mover/evidence.h"
#include "mover/working_set.h"

enum { MOST_BLOCKS = 1 << 16, REST_PER_LOOK = 50 };
#define LOOK_NS (500 * NVS_MS)
#define SOON_NS (50 * NVS_MS)
#define STAMP_NS (2000 * NVS_MS)

static struct nvs_block *blocks; /* for the time of a look */
static int64_t stamped_ns;
static struct look {
    int64_t next_ns; /* when it is due */
    int64_t from_ns; /* when the next one may be made */
    bool is_owed;    /* memory has changed since the last one */
    bool is_known;
    uint64_t bytes;
} looks[NVS_MAX_GPUS];

static void tell(struct nvs_gpu *gpu)
{
    const struct look *look = &looks[gpu->index];
    nvs_tell_working_set(&nvs_helper_client, gpu->index, look->is_known, look->bytes);
}

static void look_at(struct nvs_gpu *gpu, int64_t now)
{
    struct look *look = &looks[gpu->index];
    look->is_known = nvs_evidence_sees_launches() && !nvs_usage_is_blind(&nvs_evidence, NVS_LATELY);
    look->is_owed = false;
    look->bytes = 0;
    if (!blocks)
        blocks = nvs_pages(MOST_BLOCKS * sizeof *blocks);
    size_t count = blocks && look->is_known ? nvs_entries_blocks(gpu, blocks, MOST_BLOCKS) : MOST_BLOCKS;
    if (count < MOST_BLOCKS)
        look->bytes = nvs_working_set(&nvs_evidence, blocks, count);
    else
        look->is_known = false;
    int64_t end = nvs_now_ns();
    look->from_ns = end + REST_PER_LOOK * (end - now);
    look->next_ns = look->from_ns > now + LOOK_NS ? look->from_ns : now + LOOK_NS;
    tell(gpu);
}

void nvs_reports_before_figures(struct nvs_gpu *gpu)
{
    int64_t now = nvs_now_ns();
    struct look *look = &looks[gpu->index];
    if (!nvs_evidence.marks || !nvs_helper_client.is_registered)
        return;
    if (now >= look->from_ns || nvs_helper_client.gpus[gpu->index].owes_request)
        look_at(gpu, now);
    look->is_owed = true; /* memory is charged before it is allocated: this look may have come too early */
    if (look->from_ns < now + SOON_NS)
        look->from_ns = now + SOON_NS;
}

/* Blindness ends with the stamps too, so they grow also if nothing is known of what is used. */
static void stamp(int64_t now)
{
    if (now - stamped_ns < STAMP_NS || !atomic_load_explicit(&nvs_evidence.is_used, memory_order_relaxed))
        return;
    nvs_usage_next_stamp(&nvs_evidence);
    stamped_ns = now;
}

/* The exchange pairs with the store in note_slowness (gate/streams.c): with a load and a store, a value that comes in between would be lost. */
int64_t nvs_reports_tick(struct nvs_gpu *gpu, int64_t now)
{
    uint32_t slowness = atomic_exchange(&gpu->slowness, 0);
    if (slowness)
        nvs_tell_slowed(&nvs_helper_client, now, gpu->index, slowness);
    if (!nvs_evidence.marks || !nvs_helper_client.is_registered)
        return NVS_NEVER;
    stamp(now);
    struct look *look = &looks[gpu->index];
    bool is_open = nvs_turn_is_open(&nvs_helper_client.gpus[gpu->index].turn);
    if (is_open && now >= look->next_ns)
        nvs_gate_force_slow_path(gpu);
    if ((is_open && now >= look->next_ns) || (look->is_owed && now >= look->from_ns))
        look_at(gpu, now);
    else
        tell(gpu); /* it may be the first time on this connection */
    return look->is_owed ? look->from_ns : is_open ? look->next_ns : NVS_NEVER;
}

void nvs_reports_forked(void)
{
    memset(looks, 0, sizeof looks);
    blocks = NULL; /* it may have been in use: left where it is */
}
