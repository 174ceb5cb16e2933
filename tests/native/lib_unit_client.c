/* The client machine's connection, as stories. What a whole process does with it is in tests/client_machine. */
#include <string.h>

#include "client/client.h"
#include "lib_check.h"

#define SECOND INT64_C(1000000000)

static struct nvs_client client;
static struct nvs_account account;
static const struct nvs_seen waiting = {.waiters = 1, .contexts = 1};

static uint32_t take(void)
{
    uint32_t todo = client.out.todo;
    client.out.todo = client.out.frames_bytes = 0;
    client.out.gpus = 0;
    memset(client.out.gpu_todo, 0, sizeof client.out.gpu_todo);
    return todo;
}

static void begin(void)
{
    static const uint8_t uuid[16] = {1};
    struct nvs_client_config config;
    nvs_client_defaults(&config);
    nvs_client_init(&client, &config, SECOND);
    nvs_client_add_gpu(&client, uuid, NVS_GPU_KIND_GPU, UINT64_C(16) << 30);
    nvs_account_init(&account, UINT64_C(16) << 30, 0, false);
}

static void connect_at(int64_t now)
{
    CHECK(nvs_client_tick(&client, now, &waiting) & NVS_CLIENT_CONNECT);
    nvs_client_connected(&client);
    nvs_client_figures(&client, 0, &account, 1);
    take();
}

static void answer_at(int64_t now)
{
    struct nvs_msg_sched_on on;
    memset(&on, 0, sizeof on);
    on.length = sizeof on, on.type = NVS_SCHED_ON, on.version = NVS_PROTOCOL_VERSION;
    nvs_client_receive(&client, now, (const uint8_t *)&on, sizeof on, &account);
    take();
}

static void a_scheduler_that_hangs_up_before_it_answers_is_called_more_and_more_rarely(void)
{
    int64_t now = SECOND, before = 0;
    begin();
    for (int i = 0; i < 12; i++) {
        connect_at(now);
        nvs_client_lost(&client, now);
        take();
        CHECK(client.next_attempt_ns - now >= before / 2);
        before = client.next_attempt_ns - now;
        now = client.next_attempt_ns;
    }
    CHECK(before >= client.config.reconnect_ns && before <= client.config.reconnect_ns * 5 / 4);
}

static void patience_counts_from_the_loss_and_not_from_the_last_call(void)
{
    int64_t lost = 10 * SECOND, now = lost;
    begin();
    connect_at(SECOND);
    answer_at(SECOND);
    nvs_client_tick(&client, SECOND, &waiting);
    EQUAL(client.gpus[0].turn.state, NVS_TURN_WAITING);
    nvs_client_lost(&client, lost);
    take();
    while (now < lost + client.config.orphan_ns) {
        EQUAL(client.gpus[0].turn.state, NVS_TURN_ORPHANED);
        now = nvs_client_next(&client);
        if (nvs_client_tick(&client, now, &waiting) & NVS_CLIENT_CONNECT) {
            nvs_client_connected(&client);
            nvs_client_lost(&client, now);
        }
        take();
    }
    EQUAL(now, lost + client.config.orphan_ns);
    EQUAL(client.gpus[0].turn.state, NVS_TURN_UNSHARED);
}

static void a_scheduler_that_is_away_holds_back_allocations_and_nothing_else_until_the_joining_time_is_over(void)
{
    begin();
    CHECK(nvs_client_tick(&client, SECOND, &waiting) & NVS_CLIENT_CONNECT);
    take();
    for (int64_t now = SECOND; now < client.join_by_ns; now = client.next_attempt_ns) {
        nvs_client_tick(&client, now, &waiting);
        take();
        uint32_t todo = nvs_client_not_connected(&client, now, NVS_AWAY);
        EQUAL(todo & (NVS_CLIENT_AWAY | NVS_CLIENT_JOINED), NVS_CLIENT_AWAY);
        EQUAL(client.gpus[0].turn.state, NVS_TURN_UNSHARED);
        CHECK(nvs_client_next(&client) <= client.join_by_ns);
        take();
    }
    EQUAL(client.join_by_ns, SECOND + client.config.join_ns);
    CHECK(nvs_client_tick(&client, client.join_by_ns, &waiting) & NVS_CLIENT_JOINED);
}

static void without_nvshare_nothing_is_held_back(void)
{
    begin();
    EQUAL(nvs_client_not_connected(&client, SECOND, NVS_ABSENT) & (NVS_CLIENT_AWAY | NVS_CLIENT_JOINED), NVS_CLIENT_JOINED);
}

static void frames_have_no_bytes_that_nobody_wrote(void)
{
    uint8_t first[NVS_MAX_FRAME];
    uint32_t bytes = 0;
    for (int fill = 0; fill < 2; fill++) {
        begin();
        memset(client.out.frames, fill ? 0xff : 0, sizeof client.out.frames);
        nvs_client_connected(&client);
        nvs_client_figures(&client, 0, &account, 1);
        answer_at(SECOND);
        client.is_connected = client.is_registered = true;
        nvs_client_tick(&client, SECOND, &waiting);
        nvs_client_figures(&client, 0, &account, 1);
        nvs_client_ask(&client, SECOND, 0, 1, 5);
        CHECK(!bytes || (client.out.frames_bytes == bytes && !memcmp(first, client.out.frames, bytes)));
        bytes = client.out.frames_bytes;
        memcpy(first, client.out.frames, sizeof first);
    }
    CHECK(bytes > 0);
}

int main(void)
{
    a_scheduler_that_hangs_up_before_it_answers_is_called_more_and_more_rarely();
    patience_counts_from_the_loss_and_not_from_the_last_call();
    a_scheduler_that_is_away_holds_back_allocations_and_nothing_else_until_the_joining_time_is_over();
    without_nvshare_nothing_is_held_back();
    frames_have_no_bytes_that_nobody_wrote();
    return DONE();
}
