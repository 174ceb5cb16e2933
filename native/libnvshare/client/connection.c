/* When to connect, what follows from a lost connection, and how long to wait for the scheduler at the start. */
#include "client/parts.h"

#define FIRST_DELAY_NS INT64_C(20000000)
#define CROWDED_DELAY_NS INT64_C(5000000)

void nvs_connection_decide_join(struct nvs_client *client)
{
    if (!client->is_joined)
        client->out.todo |= NVS_CLIENT_JOINED;
    client->is_joined = true;
}

/* No scheduler has answered yet: the GPUs that wait for that run without one. */
static void run_unshared(struct nvs_client *client)
{
    for (int i = 0; i < client->gpu_count; i++)
        if (client->gpus[i].turn.state == NVS_TURN_JOINING)
            nvs_client_apply(client, i, nvs_turn_input(&client->gpus[i].turn, NVS_TURN_IN_EXPIRED));
}

/* Doubles with each failure up to the configured time. The low digits of the clock stand for a random number, so that many processes
 * do not connect at the same time. */
static int64_t back_off(const struct nvs_client *client, int64_t now_ns, bool is_crowded)
{
    int64_t delay = FIRST_DELAY_NS, most = client->config.reconnect_ns;
    for (uint32_t i = 0; i < client->attempts_failed && delay < most; i++)
        delay *= 2;
    if (is_crowded)
        delay = CROWDED_DELAY_NS;
    delay = nvs_deadline_sooner(delay, most);
    return delay + now_ns % (delay / 4 + 1);
}

void nvs_connection_made(struct nvs_client *client)
{
    client->is_connected = true;
    nvs_frames_register(client);
    for (int i = 0; i < client->gpu_count; i++) {
        client->gpus[i].owes_claim = true;
        nvs_client_apply(client, i, NVS_DO_FIGURES);
    }
}

void nvs_connection_failed(struct nvs_client *client, int64_t now_ns, enum nvs_absence absence)
{
    client->next_attempt_ns = now_ns + back_off(client, now_ns, absence == NVS_CROWDED);
    if (absence == NVS_CROWDED)
        return;
    client->attempts_failed++;
    if (!client->is_joined && !client->has_said_alone) {
        client->out.todo |= NVS_CLIENT_SAY_ALONE;
        client->has_said_alone = true;
    }
    run_unshared(client);
    if (absence == NVS_AWAY && !client->is_joined)
        client->out.todo |= NVS_CLIENT_AWAY; /* it may set a limit: allocations wait until join_by_ns */
    else
        nvs_connection_decide_join(client);
}

void nvs_connection_lost(struct nvs_client *client, int64_t now_ns)
{
    struct nvs_client_out *out = &client->out;
    bool was_registered = client->is_registered;
    out->frames_bytes = 0;
    out->todo &= ~(uint32_t)NVS_CLIENT_SEND;
    out->todo |= NVS_CLIENT_UNANSWERED;
    if (was_registered && !client->has_said_lost) {
        out->todo |= NVS_CLIENT_SAY_LOST;
        client->has_said_lost = true;
    }
    /* A scheduler that accepts the connection and closes it before it answers does not count: the time since the last one goes on,
     * and attempts become rarer. */
    client->next_attempt_ns = now_ns + (was_registered ? FIRST_DELAY_NS : back_off(client, now_ns, false));
    client->attempts_failed += !was_registered;
    if (was_registered || !client->lost_ns)
        client->lost_ns = now_ns;
    client->is_expected = client->is_expected || was_registered;
    client->is_connected = client->is_registered = client->paces = client->is_hung = client->is_mute = false;
    client->open_asks = 0;
    client->asked_ns = 0;
    client->told_mode = NVS_MEMORY_KIND_MANAGED;
    for (int i = 0; i < client->gpu_count; i++) {
        client->gpus[i].owes_claim = client->gpus[i].owes_request = client->gpus[i].owes_report = false;
        client->gpus[i].is_told_known = false;
        client->gpus[i].told_working_set = 0;
        client->gpus[i].told_mover = NVS_MOVER_STATE_MOVES;
        nvs_client_apply(client, i, nvs_turn_input(&client->gpus[i].turn, NVS_TURN_IN_LOST));
    }
    nvs_keepalive_update(client, now_ns);
}

int64_t nvs_connection_expected_until(const struct nvs_client *client) { return client->lost_ns + client->config.orphan_ns; }

void nvs_connection_tick(struct nvs_client *client, int64_t now_ns)
{
    if (now_ns >= nvs_connection_expected_until(client))
        client->is_expected = false;
    if (!client->is_connected && now_ns >= client->next_attempt_ns)
        client->out.todo |= NVS_CLIENT_CONNECT;
    if (!client->is_joined && now_ns >= client->join_by_ns) {
        /* It is away, does not answer, refuses us, or its backlog is full; the answer may still come. */
        client->out.todo |= client->has_said_alone ? 0 : NVS_CLIENT_SAY_UNHEARD;
        run_unshared(client);
        nvs_connection_decide_join(client);
    }
}
