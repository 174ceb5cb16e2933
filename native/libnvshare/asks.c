#include "asks.h"

#include <stdatomic.h>

#include "helper.h"
#include "options.h"
#include "process.h"
#include "session.h"

/* A thread's question, on its stack while it waits. */
struct ask {
    struct ask *next;
    int gpu;
    uint32_t id;
    bool is_sent;
    uint64_t need, granted;
    _Atomic uint32_t answer; /* 0 none yet, 1 granted something, 2 nobody there */
};
static struct ask *asks;
static uint32_t last_ask;
static struct nvs_lock ask_lock;

static void unlink_ask(struct ask *ask)
{
    for (struct ask **at = &asks; *at; at = &(*at)->next)
        if (*at == ask) {
            *at = ask->next;
            return;
        }
}

bool nvs_session_ask(struct nvs_gpu *gpu, uint64_t need, uint64_t *granted)
{
    struct ask ask = {.gpu = gpu->index, .need = need};
    int64_t end = nvs_now_ns() + nvs_options()->ask_ms * NVS_MS, left;
    if (!nvs_session_is_connected())
        return false;
    nvs_lock_take(&ask_lock);
    ask.id = ++last_ask ? last_ask : ++last_ask; /* 0 means no question */
    ask.next = asks;
    asks = &ask;
    nvs_lock_give(&ask_lock);
    nvs_session_wake();
    while (!atomic_load(&ask.answer) && (left = end - nvs_now_ns()) > 0)
        nvs_futex_wait(&ask.answer, 0, left);
    nvs_lock_take(&ask_lock);
    unlink_ask(&ask);
    nvs_lock_give(&ask_lock);
    *granted = ask.granted;
    return atomic_load(&ask.answer) == 1;
}

void nvs_session_refresh(struct nvs_gpu *gpu)
{
    uint64_t granted;
    nvs_lock_take(&gpu->account_lock);
    bool has_others = gpu->account.limit && (gpu->account.others || gpu->account.budget < gpu->account.limit);
    nvs_lock_give(&gpu->account_lock);
    if (has_others)
        nvs_session_ask(gpu, 0, &granted);
}

void nvs_session_answer(uint32_t id, uint64_t granted)
{
    nvs_lock_take(&ask_lock);
    for (struct ask *at = asks; id && at; at = at->next)
        if (at->id == id) {
            at->granted = granted;
            atomic_store(&at->answer, 1);
            nvs_futex_wake_all(&at->answer);
            break;
        }
    nvs_lock_give(&ask_lock);
}

void nvs_asks_send(void)
{
    nvs_lock_take(&ask_lock);
    for (struct ask *at = asks; at; at = at->next)
        if (!at->is_sent) {
            struct nvs_msg_budget_ask frame = {.length = sizeof frame, .type = NVS_BUDGET_ASK, .gpu = (uint8_t)at->gpu};
            frame.ask = at->id;
            frame.need = at->need;
            nvs_helper_send(&frame, sizeof frame);
            at->is_sent = true;
        }
    nvs_lock_give(&ask_lock);
}

void nvs_asks_refuse(void)
{
    nvs_lock_take(&ask_lock);
    for (struct ask *at = asks; at; at = at->next)
        if (!atomic_exchange(&at->answer, 2))
            nvs_futex_wake_all(&at->answer);
    nvs_lock_give(&ask_lock);
}

void nvs_asks_forked(void)
{
    ask_lock = (struct nvs_lock){0};
    asks = NULL;
}
