/* When to request and release a lock, when to report memory, and what is to be done next. */
#include "client/client.h"

#include <string.h>

#include "client/parts.h"

#define MS INT64_C(1000000)
#define REPORT_NS (10 * MS)

void nvs_client_defaults(struct nvs_client_config *config)
{
    *config = (struct nvs_client_config){
        .reconnect_ns = 1000 * MS, .orphan_ns = 5000 * MS, .join_ns = 30000 * MS, .silence_ns = 25000 * MS,
        .ask_ns = 10000 * MS};
}

void nvs_client_sizes(uint32_t sizes[6])
{
    const uint32_t ours[6] = {sizeof(struct nvs_client), sizeof(struct nvs_client_gpu), sizeof(struct nvs_client_config),
                              sizeof(struct nvs_seen),   sizeof(struct nvs_client_out), sizeof(struct nvs_account)};
    memcpy(sizes, ours, sizeof ours);
}

void nvs_client_init(struct nvs_client *client, const struct nvs_client_config *config, int64_t now_ns)
{
    memset(client, 0, sizeof *client);
    client->config = *config;
    client->next_attempt_ns = now_ns;
    client->join_by_ns = now_ns + config->join_ns;
}

void nvs_client_add_gpu(struct nvs_client *client, const uint8_t uuid[16], uint8_t kind, uint64_t bytes)
{
    struct nvs_client_gpu *gpu = &client->gpus[client->gpu_count++];
    *gpu = (struct nvs_client_gpu){.turn = {.state = NVS_TURN_JOINING}, .kind = kind, .bytes = bytes};
    memcpy(gpu->uuid, uuid, sizeof gpu->uuid);
}

static bool is_waiting(const struct nvs_turn *turn)
{
    return turn->state == NVS_TURN_WAITING || turn->state == NVS_TURN_UNATTENDED;
}

void nvs_client_apply(struct nvs_client *client, int index, unsigned todo)
{
    struct nvs_client_gpu *gpu = &client->gpus[index];
    struct nvs_client_out *out = &client->out;
    if (todo & (NVS_DO_OPEN | NVS_DO_CLOSE))
        gpu->idle_reported = false;
    if (todo & NVS_DO_OPEN)
        gpu->owed_bytes = 0; /* it was for a lock that we did not release */
    if (!is_waiting(&gpu->turn))
        gpu->wait = NVS_WAIT_NONE;
    if (todo & NVS_DO_REQUEST) {
        gpu->owes_request = true;
        gpu->wait = NVS_WAIT_ANSWER;
        todo |= NVS_DO_FIGURES;
    }
    todo &= ~(unsigned)(NVS_DO_REQUEST | NVS_DO_RELEASE);
    if (!todo)
        return;
    if (todo & NVS_DO_OPEN) { /* what is left to do for the turn before is dropped; of OPEN and CLOSE the last one counts */
        out->gpu_todo[index] &= ~(uint32_t)(NVS_DO_CLOSE | NVS_DO_DRAIN | NVS_DO_MOVE_OUT);
        todo |= NVS_DO_STOP_DRAIN; /* also a submission that is let through (LET_ONE) needs no looks any more */
    }
    if (todo & NVS_DO_CLOSE)
        out->gpu_todo[index] &= ~(uint32_t)(NVS_DO_OPEN | NVS_DO_MOVE_IN);
    out->gpu_todo[index] |= todo;
    out->gpus |= UINT64_C(1) << index;
    out->todo |= NVS_CLIENT_GPUS;
}

/* ---- one GPU ---- */

/* A process without a context has nothing to do on the GPU, and nothing to keep there: once the last context is gone, its turn ends. */
static void look_at_contexts(struct nvs_client *client, int index, const struct nvs_seen *seen)
{
    struct nvs_client_gpu *gpu = &client->gpus[index];
    if (gpu->yields_without_contexts && !seen->contexts) {
        if (seen->waiters)
            return; /* they pass the gate first */
        if (!client->is_registered)
            return; /* nobody to give the lock to: without it we could only wait for a scheduler that is not there */
        nvs_client_apply(client, index, nvs_turn_input(&gpu->turn, NVS_TURN_IN_YIELD));
        if (gpu->turn.state != NVS_TURN_NONE)
            return; /* a lock may still come that we do not need, or be kept because the connection is lost: it is released then */
    }
    gpu->yields_without_contexts = seen->contexts > 0;
}

/* A scheduler that hangs gets one report when it is back: thousands would fill the connection and end it. */
static void look_at_memory(struct nvs_client *client, int index, int64_t now_ns, enum nvs_news news)
{
    struct nvs_client_gpu *gpu = &client->gpus[index];
    if (!client->is_registered || client->is_hung || news == NVS_NEWS_NONE) {
        gpu->report_ns = 0;
        return;
    }
    if (!gpu->report_ns)
        gpu->report_ns = now_ns + REPORT_NS;
    if (now_ns < gpu->report_ns && news != NVS_NEWS_MUCH)
        return;
    gpu->report_ns = 0;
    gpu->owes_report = true;
    nvs_client_apply(client, index, NVS_DO_FIGURES);
}

static void look_at_gpu(struct nvs_client *client, int index, int64_t now_ns, const struct nvs_seen *seen)
{
    struct nvs_client_gpu *gpu = &client->gpus[index];
    gpu->waiters = seen->waiters;
    if (seen->waiters) {
        bool is_orphan = !client->is_registered && client->lost_ns && now_ns >= nvs_connection_expected_until(client);
        nvs_client_apply(client, index, nvs_turn_input(&gpu->turn, is_orphan ? NVS_TURN_IN_EXPIRED : NVS_TURN_IN_WANT));
    }
    look_at_contexts(client, index, seen);
    look_at_memory(client, index, now_ns, (enum nvs_news)seen->news);
}

/* ---- time ---- */

uint32_t nvs_client_tick(struct nvs_client *client, int64_t now_ns, const struct nvs_seen *seen)
{
    nvs_connection_tick(client, now_ns);
    for (int i = 0; i < client->gpu_count; i++)
        look_at_gpu(client, i, now_ns, &seen[i]);
    nvs_keepalive_update(client, now_ns);
    nvs_keepalive_tick(client, now_ns);
    return client->out.todo;
}

uint32_t nvs_client_ping(struct nvs_client *client, int64_t now_ns)
{
    nvs_keepalive_ping(client, now_ns);
    return client->out.todo;
}

int64_t nvs_client_next(const struct nvs_client *client)
{
    int64_t next = client->is_connected ? nvs_keepalive_next(client) : client->next_attempt_ns;
    if (!client->is_joined)
        next = nvs_deadline_sooner(next, client->join_by_ns);
    for (int i = 0; i < client->gpu_count; i++) {
        const struct nvs_client_gpu *gpu = &client->gpus[i];
        if (gpu->report_ns)
            next = nvs_deadline_sooner(next, gpu->report_ns);
        if (gpu->waiters && !client->is_registered && client->lost_ns && !nvs_turn_is_open(&gpu->turn))
            next = nvs_deadline_sooner(next, nvs_connection_expected_until(client));
    }
    if (client->is_expected)
        next = nvs_deadline_sooner(next, nvs_connection_expected_until(client));
    return next;
}

/* ---- the connection ---- */

uint32_t nvs_client_connected(struct nvs_client *client)
{
    nvs_connection_made(client);
    return client->out.todo;
}

uint32_t nvs_client_not_connected(struct nvs_client *client, int64_t now_ns, enum nvs_absence absence)
{
    nvs_connection_failed(client, now_ns, absence);
    return client->out.todo;
}

uint32_t nvs_client_lost(struct nvs_client *client, int64_t now_ns)
{
    nvs_connection_lost(client, now_ns);
    return client->out.todo;
}

/* ---- frames ---- */

int nvs_client_gpu_of(const struct nvs_client *client, const uint8_t *frame, size_t bytes)
{
    struct nvs_head head;
    if (bytes < sizeof head)
        return -1;
    memcpy(&head, frame, sizeof head);
    return head.gpu < client->gpu_count ? head.gpu : -1;
}

uint32_t nvs_client_receive(struct nvs_client *client, int64_t now_ns, const uint8_t *frame, size_t bytes, struct nvs_account *account)
{
    if (!nvs_receive_frame(client, frame, bytes, account)) {
        nvs_connection_lost(client, now_ns);
        return client->out.todo |= NVS_CLIENT_SAY_BROKEN | NVS_CLIENT_DISCONNECT;
    }
    nvs_keepalive_heard(client, now_ns);
    nvs_keepalive_update(client, now_ns);
    return client->out.todo;
}

uint32_t nvs_client_figures(struct nvs_client *client, int gpu, struct nvs_account *account, uint32_t contexts)
{
    nvs_frames_figures(client, gpu, account, contexts);
    return client->out.todo;
}

uint32_t nvs_client_ask(struct nvs_client *client, int64_t now_ns, int gpu, uint32_t ask, uint64_t need)
{
    if (client->is_registered) {
        nvs_frames_budget_ask(client, gpu, ask, need);
        nvs_keepalive_asked(client, now_ns);
    }
    return client->out.todo;
}

enum nvs_ask_fate nvs_client_ask_fate(const struct nvs_client *client)
{
    if (client->is_registered)
        return client->is_mute || client->is_hung ? NVS_ASK_REFUSED : NVS_ASK_SENT;
    return client->is_expected ? NVS_ASK_WAITS : NVS_ASK_REFUSED;
}

/* ---- what the caller has done ---- */

uint32_t nvs_client_drained(struct nvs_client *client, int64_t now_ns, int index, bool again)
{
    struct nvs_client_gpu *gpu = &client->gpus[index];
    uint64_t released;
    unsigned todo = nvs_turn_drained(&gpu->turn, again, &released);
    if (todo & NVS_DO_RELEASE)
        nvs_frames_released(client, index, released, again);
    if (todo & NVS_DO_RELEASE && gpu->owed_bytes) {
        gpu->move_bytes = gpu->owed_bytes;
        todo |= NVS_DO_MOVE_OUT;
    }
    gpu->owed_bytes = 0;
    nvs_client_apply(client, index, todo);
    if (gpu->turn.state == NVS_TURN_WAITING)
        gpu->wait = NVS_WAIT_ANSWER;
    nvs_keepalive_update(client, now_ns);
    return client->out.todo;
}

bool nvs_client_watches(const struct nvs_client *client, int gpu)
{
    return client->gpus[gpu].turn.state == NVS_TURN_HOLDING && client->gpus[gpu].turn.contended;
}

uint32_t nvs_client_idle(struct nvs_client *client, int gpu)
{
    if (nvs_client_watches(client, gpu) && !client->gpus[gpu].idle_reported) {
        nvs_frames_bare(client, NVS_IDLE, gpu);
        client->gpus[gpu].idle_reported = true;
    }
    return client->out.todo;
}

uint32_t nvs_client_busy(struct nvs_client *client, int gpu)
{
    if (client->gpus[gpu].idle_reported)
        nvs_frames_bare(client, NVS_BUSY, gpu);
    client->gpus[gpu].idle_reported = false;
    return client->out.todo;
}

bool nvs_client_yield(struct nvs_client *client, int index)
{
    struct nvs_turn *turn = &client->gpus[index].turn;
    if (!client->is_registered || (turn->state != NVS_TURN_HOLDING && turn->state != NVS_TURN_DRAINING))
        return false;
    nvs_client_apply(client, index, nvs_turn_input(turn, NVS_TURN_IN_YIELD));
    return true;
}
