/* When looks are made and what is reported is decided in client/looker.c, how streams are asked in gate/unfinished.c. */
#include "helper/gpu_time.h"

#include <stdatomic.h>

#include "base/options.h"
#include "client/looker.h"
#include "gate/streams.h"
#include "gate/unfinished.h"
#include "helper/deputy.h"
#include "helper/helper.h"
#include "helper/link.h"
#include "suspend/suspension.h"

static bool is_without_driver;

void nvs_gpu_time_leave_driver(void) { is_without_driver = true; }

void nvs_gpu_time_forked(void)
{
    is_without_driver = false;
    nvs_unfinished_forked();
}

static struct nvs_look_facts facts_of(const struct nvs_gpu *gpu)
{
    bool may_call = nvs_options()->gpu_time && !is_without_driver && nvs_suspension_is_on_card();
    return (struct nvs_look_facts){
        .can_look = may_call && atomic_load(&gpu->contexts) > 0,
        .can_report = nvs_helper_link.out_bytes < NVS_MAX_FRAME,
        .may_be_unfinished = gpu->is_draining || gpu->is_helping || gpu->is_asked,
        .is_idle = atomic_load(&gpu->is_known_idle),
    };
}

bool nvs_gpu_time_wants_watch(const struct nvs_gpu *gpu)
{
    struct nvs_look_facts facts = facts_of(gpu);
    return nvs_looker_wants_watch(&nvs_helper_client, gpu->index, &facts);
}

/* As nvs_drains_advance: a lock that a thread holds is not waited for, and the deputy answers while the driver is asked. */
static enum nvs_unfinished look(const struct nvs_gpu *gpu)
{
    if (atomic_load(&gpu->is_known_idle))
        return NVS_UNFINISHED_NONE;
    if (!nvs_lock_try(&nvs_streams_lock))
        return NVS_UNFINISHED_UNKNOWN;
    nvs_deputy_driver_begin();
    enum nvs_unfinished seen = nvs_unfinished(gpu);
    nvs_lock_give(&nvs_streams_lock);
    nvs_deputy_driver_end();
    return seen;
}

int64_t nvs_gpu_time_tick(struct nvs_gpu *gpu, int64_t now)
{
    struct nvs_look_facts facts = facts_of(gpu);
    int64_t due = nvs_looker_tick(&nvs_helper_client, gpu->index, now, &facts);
    if (now < due)
        return due;
    enum nvs_unfinished seen = look(gpu);
    return nvs_looker_saw(&nvs_helper_client, gpu->index, nvs_now_ns(), &facts, seen);
}
