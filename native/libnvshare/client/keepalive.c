/* Keep-alive: the scheduler counts as hung only if it does not answer a PING.
 *
 * While something depends on the scheduler (we wait for a GPU or for the answer to a question, or our lock is contended) and no
 * message has come from it for 2/5 of `silence_ns`, we send PING, and again every 2/5 after that. If no message has come for
 * `silence_ns`, and the last PING was sent at least 1/5 of it ago, the scheduler hangs: threads that wait for a lock run. The
 * connection stays open, so the process keeps its place in the queue. Any message from the scheduler ends this.
 *
 * A question is not waited for so long. If a question is open and no message has come for `ask_ns`, the scheduler is mute: we send PING,
 * and refuse all questions until it speaks. The time counts from its last message, or from the question if that came later. A message
 * that is not the answer begins it again, but does not end it: a scheduler that speaks once and then hangs is mute `ask_ns` later, although
 * no question comes after that message.
 *
 * With the default of 25 s: PING after 10 s and 20 s, hung after 25 s. A process that needs nothing sends no PING. A
 * scheduler of protocol version 1 does not know PING; only a closed connection shows that it has ended. */
#include "client/parts.h"

static bool depends(const struct nvs_client_gpu *gpu)
{
    const struct nvs_turn *turn = &gpu->turn;
    return turn->state == NVS_TURN_WAITING || turn->state == NVS_TURN_UNATTENDED || turn->contended;
}

void nvs_keepalive_update(struct nvs_client *client, int64_t now_ns)
{
    bool is_attentive = client->open_asks > 0;
    for (int i = 0; i < client->gpu_count && !is_attentive; i++)
        is_attentive = depends(&client->gpus[i]);
    is_attentive = is_attentive && client->is_registered && client->version >= NVS_PING_SINCE;
    if (is_attentive && !client->is_attentive) {
        client->quiet_since_ns = now_ns;
        client->pinged_ns = 0;
    }
    client->is_attentive = is_attentive;
}

static int64_t ping_at(const struct nvs_client *client)
{
    return (client->pinged_ns ? client->pinged_ns : client->quiet_since_ns) + client->config.silence_ns / 5 * 2;
}

static int64_t hung_at(const struct nvs_client *client)
{
    int64_t silent = client->quiet_since_ns + client->config.silence_ns, unanswered = client->pinged_ns + client->config.silence_ns / 5;
    return !client->pinged_ns ? NVS_NEVER : silent > unanswered ? silent : unanswered;
}

static int64_t mute_at(const struct nvs_client *client)
{
    return client->asked_ns && !client->is_mute ? client->asked_ns + client->config.ask_ns : NVS_NEVER;
}

int64_t nvs_keepalive_next(const struct nvs_client *client)
{
    if (!client->is_attentive || client->is_hung)
        return NVS_NEVER;
    return nvs_deadline_sooner(mute_at(client), nvs_deadline_sooner(ping_at(client), hung_at(client)));
}

static void let_waiters_run(struct nvs_client *client)
{
    for (int i = 0; i < client->gpu_count; i++)
        if (client->gpus[i].turn.state == NVS_TURN_WAITING) {
            nvs_client_apply(client, i, nvs_turn_input(&client->gpus[i].turn, NVS_TURN_IN_HUNG));
            client->out.todo |= client->has_said_hung ? 0 : NVS_CLIENT_SAY_HUNG;
            client->has_said_hung = true;
        }
}

static void ping(struct nvs_client *client, int64_t now_ns)
{
    nvs_frames_bare(client, NVS_PING, 0);
    client->pinged_ns = now_ns;
}

bool nvs_keepalive_ping(struct nvs_client *client, int64_t now_ns)
{
    bool is_due = client->is_attentive && !client->is_hung && now_ns >= ping_at(client);
    if (is_due)
        ping(client, now_ns);
    return is_due;
}

/* With a PING, so that a scheduler that is only slow is heard at once. */
static void become_mute(struct nvs_client *client, int64_t now_ns)
{
    client->is_mute = true;
    if (client->pinged_ns != now_ns)
        ping(client, now_ns);
}

void nvs_keepalive_tick(struct nvs_client *client, int64_t now_ns)
{
    /* PING comes first: a process that was stopped itself, and so finds both times passed, asks again before it decides. */
    if (!nvs_keepalive_ping(client, now_ns) && client->is_attentive && now_ns >= hung_at(client))
        client->is_hung = true;
    if (client->is_attentive && !client->is_hung && now_ns >= mute_at(client))
        become_mute(client, now_ns);
    if (client->is_hung)
        let_waiters_run(client);
}

void nvs_keepalive_asked(struct nvs_client *client, int64_t now_ns)
{
    client->open_asks++;
    if (!client->asked_ns)
        client->asked_ns = now_ns;
    nvs_keepalive_update(client, now_ns);
}

void nvs_keepalive_heard(struct nvs_client *client, int64_t now_ns)
{
    client->quiet_since_ns = now_ns;
    client->pinged_ns = 0;
    client->asked_ns = client->open_asks ? now_ns : 0;
    client->is_hung = client->is_mute = false;
    for (int i = 0; i < client->gpu_count; i++)
        nvs_client_apply(client, i, nvs_turn_input(&client->gpus[i].turn, NVS_TURN_IN_HEARD));
}
