/* A conversation of one question: REGISTER with one GPU and no memory, the limit and the budget that come before its answer, BUDGET_ASK
 * for what the others of the group use, and the end of the connection. The client machine (client/client.h) leads it, in the thread
 * that asks.
 *
 * An answer serves all questions of the next second, and a scheduler that did not answer in time is not asked for five: a program that
 * polls NVML registers at most once in a second for each GPU, and never waits for long. */
#include "helper/limit_query.h"

#include <ctype.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/options.h"
#include "base/platform.h"
#include "client/client.h"
#include "helper/config.h"
#include "helper/link.h"

#define LONGEST_NS (500 * NVS_MS)
#define FRESH_NS (1000 * NVS_MS)
#define SILENT_NS (5000 * NVS_MS)
#define QUESTION 1u

struct answer { uint8_t uuid[16]; int64_t until_ns; uint64_t total, left; };

/* The process that asks, or 0; a futex. No nvs_lock: a child may be forked while it is held, before the library has set up what resets
 * locks there. The child finds its parent's number and takes it over. */
static _Atomic uint32_t asker;
/* Held by the asker. */
static struct nvs_client client;
static struct nvs_link connection = {.fd = {.fd = -1}};
static struct answer answers[NVS_MAX_GPUS];
static int answer_count;
static int64_t silent_until_ns;

static bool begin(int64_t end)
{
    uint32_t me = (uint32_t)getpid(), who = 0;
    int64_t left;
    while (!atomic_compare_exchange_strong(&asker, &who, me)) {
        if (who != me && atomic_compare_exchange_strong(&asker, &who, me)) {
            nvs_link_close(&connection);
            return true;
        }
        if ((left = end - nvs_now_ns()) <= 0)
            return false;
        nvs_futex_wait(&asker, me, left);
        who = 0;
    }
    return true;
}

/* A child that was forked meanwhile has a copy of the socket: without shutdown the scheduler would take the connection for open. */
static void finish(void)
{
    if (nvs_fd_is_ours(&connection.fd))
        shutdown(connection.fd.fd, SHUT_RDWR);
    nvs_link_close(&connection);
    atomic_store(&asker, 0);
    nvs_futex_wake_all(&asker);
}

/* GPU-6f0b… or MIG-6f0b…: 32 digits. */
static bool read_uuid(const char *text, uint8_t uuid[16], uint8_t *kind)
{
    unsigned digits = 0;
    *kind = strncmp(text, "MIG-", 4) == 0 ? NVS_GPU_KIND_MIG : NVS_GPU_KIND_GPU;
    if (*kind == NVS_GPU_KIND_GPU && strncmp(text, "GPU-", 4) != 0)
        return false;
    memset(uuid, 0, 16);
    for (text += 4; *text; text++) {
        if (*text == '-')
            continue;
        if (!isxdigit((unsigned char)*text) || digits == 32)
            return false;
        char digit[2] = {*text, 0};
        uuid[digits / 2] = (uint8_t)(uuid[digits / 2] << 4 | strtoul(digit, NULL, 16));
        digits++;
    }
    return digits == 32;
}

/* False if the connection is gone or the scheduler broke the protocol. */
static bool read_frames(struct nvs_account *account, bool *is_answered)
{
    size_t at = 0;
    bool broken = false;
    const uint8_t *frame;
    if (!nvs_link_receive(&connection))
        return false;
    while (!broken && (frame = nvs_link_next(&connection, &at, &broken))) {
        struct nvs_head head;
        memcpy(&head, frame, sizeof head);
        struct nvs_account *named = nvs_client_gpu_of(&client, frame, head.length) < 0 ? NULL : account;
        uint32_t todo = nvs_client_receive(&client, nvs_now_ns(), frame, head.length, named);
        broken = todo & NVS_CLIENT_SAY_BROKEN;
        *is_answered = *is_answered || (todo & NVS_CLIENT_ANSWER && client.out.ask == QUESTION);
        client.out.todo = 0;
    }
    nvs_link_consume(&connection, at);
    return !broken;
}

static bool send_frames(void)
{
    nvs_link_put(&connection, client.out.frames, client.out.frames_bytes);
    client.out.frames_bytes = 0;
    return nvs_link_flush(&connection);
}

static bool converse(struct nvs_account *account, int64_t end)
{
    bool has_asked = false, is_answered = false;
    int64_t left;
    nvs_client_connected(&client);
    nvs_client_figures(&client, 0, account, 0);
    while (send_frames() && !is_answered && (left = end - nvs_now_ns()) > 0) {
        struct pollfd fd = {.fd = connection.fd.fd, .events = (short)(POLLIN | (connection.out_bytes ? POLLOUT : 0))};
        struct timespec most = {.tv_sec = left / (1000 * NVS_MS), .tv_nsec = left % (1000 * NVS_MS)};
        syscall(SYS_ppoll, &fd, 1, &most, NULL, 0); /* no cancellation point: base/cancellation.h */
        if (fd.revents & ~POLLOUT && !read_frames(account, &is_answered))
            return false;
        if (client.is_registered && !has_asked)
            nvs_client_ask(&client, nvs_now_ns(), 0, QUESTION, 0);
        has_asked = client.is_registered;
    }
    return is_answered;
}

static bool ask(const uint8_t uuid[16], uint8_t kind, uint64_t card, struct answer *answer, int64_t end)
{
    struct nvs_client_config config = nvs_config_of_client();
    struct nvs_account account;
    nvs_account_init(&account, card, config.own_limit, false);
    nvs_client_init(&client, &config, nvs_now_ns());
    nvs_client_add_gpu(&client, uuid, kind, card);
    bool is_answered = nvs_link_connect(&connection, nvs_options()->socket) == 0 && converse(&account, end);
    if (is_answered) {
        memcpy(answer->uuid, uuid, sizeof answer->uuid);
        answer->until_ns = nvs_now_ns() + FRESH_NS;
        answer->total = nvs_account_total(&account);
        answer->left = nvs_account_free(&account);
    }
    return is_answered;
}

static struct answer *answer_for(const uint8_t uuid[16])
{
    int i = 0;
    while (i < answer_count && memcmp(answers[i].uuid, uuid, 16) != 0)
        i++;
    return i < NVS_MAX_GPUS ? &answers[i] : &answers[0];
}

bool nvs_limit_query(const char *text, uint64_t card, unsigned long long *total, unsigned long long *left)
{
    int64_t now = nvs_now_ns(), end = now + LONGEST_NS;
    uint8_t uuid[16], kind;
    if (!read_uuid(text, uuid, &kind) || !begin(end))
        return false;
    struct answer *answer = answer_for(uuid);
    bool is_known = answer < answers + answer_count && now < answer->until_ns && memcmp(answer->uuid, uuid, sizeof uuid) == 0;
    if (!is_known && now >= silent_until_ns) {
        bool has_time = end - nvs_now_ns() > LONGEST_NS / 2; /* another thread's question may have taken most of it */
        is_known = ask(uuid, kind, card, answer, end);
        silent_until_ns = !is_known && has_time ? nvs_now_ns() + SILENT_NS : 0;
        answer_count += is_known && answer == answers + answer_count;
    }
    if (is_known) {
        *total = answer->total;
        *left = answer->left;
    }
    finish();
    return is_known;
}
