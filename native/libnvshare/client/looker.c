#include "client/looker.h"

#include <string.h>

#include "client/tell.h"

enum { MOST_UNKNOWN = 64 };
#define SELDOM_NS (50 * INT64_C(1000000))

static bool is_wanted(const struct nvs_client *client, int gpu, const struct nvs_look_facts *facts)
{
    const struct nvs_turn *turn = &client->gpus[gpu].turn;
    bool may_have_work = nvs_turn_is_open(turn) || turn->state == NVS_TURN_DRAINING || facts->may_be_unfinished;
    return may_have_work && facts->can_look && nvs_tell_gpu_time_is_wanted(client);
}

bool nvs_looker_wants_watch(const struct nvs_client *client, int gpu, const struct nvs_look_facts *facts)
{
    const struct nvs_looker *looker = &client->gpus[gpu].looker;
    bool may_rest = looker->is_resting || nvs_looks_are_quiet(&looker->looks);
    return may_rest && nvs_turn_is_open(&client->gpus[gpu].turn) && is_wanted(client, gpu, facts);
}

static void tell(struct nvs_client *client, int gpu, const struct nvs_look_facts *facts, const struct nvs_look_report *report)
{
    if (facts->can_report)
        nvs_tell_gpu_time(client, gpu, report);
}

static void end(struct nvs_client *client, int gpu, const struct nvs_look_facts *facts)
{
    struct nvs_looker *looker = &client->gpus[gpu].looker;
    struct nvs_look_report report;
    if (nvs_looks_end(&looker->looks, &report))
        tell(client, gpu, facts, &report);
    memset(looker, 0, sizeof *looker);
}

static void rest(struct nvs_client *client, int gpu, const struct nvs_look_facts *facts)
{
    struct nvs_looker *looker = &client->gpus[gpu].looker;
    struct nvs_look_report no_work = {.first = looker->looks.last + 1};
    end(client, gpu, facts);
    tell(client, gpu, facts, &no_work);
    looker->is_resting = true;
}

int64_t nvs_looker_tick(struct nvs_client *client, int gpu, int64_t now_ns, const struct nvs_look_facts *facts)
{
    struct nvs_looker *looker = &client->gpus[gpu].looker;
    if (!is_wanted(client, gpu, facts)) {
        end(client, gpu, facts);
        return NVS_NEVER;
    }
    looker->is_resting = looker->is_resting && facts->is_idle;
    if (facts->is_idle && !looker->is_resting && nvs_looks_are_quiet(&looker->looks))
        rest(client, gpu, facts);
    if (looker->is_resting)
        return NVS_NEVER;
    if (!looker->due_ns)
        looker->due_ns = nvs_looks_next(&looker->looks, now_ns);
    return looker->due_ns;
}

static void note(struct nvs_client *client, int gpu, int64_t now_ns, const struct nvs_look_facts *facts, bool busy)
{
    struct nvs_look_report report;
    if (nvs_looks_saw(&client->gpus[gpu].looker.looks, now_ns, busy, &report))
        tell(client, gpu, facts, &report);
}

/* Without an answer the next look is the next instant of all, whatever the block of the last answer. */
static int64_t due_after(struct nvs_looker *looker, int64_t now_ns, enum nvs_unfinished seen)
{
    bool is_answer = seen == NVS_UNFINISHED_NONE || seen == NVS_UNFINISHED_SOME;
    looker->unknown = seen == NVS_UNFINISHED_UNKNOWN ? looker->unknown + 1 : 0;
    if (looker->unknown > MOST_UNKNOWN)
        return now_ns + SELDOM_NS;
    return nvs_looks_next(is_answer ? &looker->looks : &(struct nvs_looks){0}, now_ns);
}

int64_t nvs_looker_saw(struct nvs_client *client, int gpu, int64_t now_ns, const struct nvs_look_facts *facts, enum nvs_unfinished seen)
{
    struct nvs_looker *looker = &client->gpus[gpu].looker;
    if (seen == NVS_UNFINISHED_NONE && looker->round_ns)
        note(client, gpu, looker->round_ns, facts, false);
    if (seen == NVS_UNFINISHED_NONE || seen == NVS_UNFINISHED_SOME)
        note(client, gpu, now_ns, facts, seen == NVS_UNFINISHED_SOME);
    looker->round_ns = seen != NVS_UNFINISHED_MORE ? 0 : looker->round_ns ? looker->round_ns : now_ns;
    return looker->due_ns = due_after(looker, now_ns, seen);
}
