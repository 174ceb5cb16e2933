#include "helper/asks.h"

#include <stdatomic.h>

#include "base/options.h"
#include "gpu.h"
#include "helper/helper.h"
#include "helper/session.h"
#include "helper/wake.h"

/* A thread's question, on its stack while it waits. */
struct ask {
    struct ask *next;
    int gpu;
    uint32_t id;
    bool is_sent;
    uint64_t need, granted;
    /* 0 none yet, 1 answered (a refusal too: see `granted`), 2 there will be no answer. A futex; stored after `granted`, so that the
     * thread that reads 1 reads what was granted. The helper touches it only under the lock, which the thread takes before its stack
     * goes. */
    _Atomic uint32_t answer;
};
static struct ask *asks;
static uint32_t last_ask;
/* The client machine's `is_expected`, for threads. Set before is_registered falls, so that an allocation finds one or the other. A
 * question that comes after it was cleared is refused at the next tick. */
static _Atomic bool is_expected;
static struct nvs_lock ask_lock = NVS_LOCK_WITH_RANK(NVS_LOCK_ASK);

static void unlink_ask(struct ask *ask)
{
    for (struct ask **at = &asks; *at; at = &(*at)->next)
        if (*at == ask) {
            *at = ask->next;
            return;
        }
}

bool nvs_asks_budget(struct nvs_gpu *gpu, uint64_t need, int64_t *until_ns, uint64_t *granted)
{
    struct ask ask = {.gpu = gpu->index, .need = need};
    int64_t left;
    if (!*until_ns)
        *until_ns = nvs_now_ns() + nvs_options()->ask_ms * NVS_MS;
    if (!nvs_session_is_registered() && !(need && atomic_load(&is_expected)))
        return false;
    nvs_lock_take(&ask_lock);
    ask.id = ++last_ask ? last_ask : ++last_ask; /* 0 means no question */
    ask.next = asks;
    asks = &ask;
    nvs_lock_give(&ask_lock);
    nvs_wake_helper();
    while (!atomic_load(&ask.answer) && (left = *until_ns - nvs_now_ns()) > 0)
        nvs_futex_wait(&ask.answer, 0, left);
    nvs_lock_take(&ask_lock);
    unlink_ask(&ask);
    nvs_lock_give(&ask_lock);
    *granted = ask.granted;
    return atomic_load(&ask.answer) == 1;
}

void nvs_asks_refresh(struct nvs_gpu *gpu)
{
    uint64_t granted;
    int64_t until_ns = 0;
    nvs_lock_take(&gpu->account_lock);
    bool has_others = gpu->account.limit && (gpu->account.others || gpu->account.budget < gpu->account.limit);
    nvs_lock_give(&gpu->account_lock);
    if (has_others)
        nvs_asks_budget(gpu, 0, &until_ns, &granted);
}

void nvs_asks_answer(uint32_t id, uint64_t granted)
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

static void send_all(void)
{
    for (struct ask *at = asks; at; at = at->next)
        if (!at->is_sent) {
            nvs_session_send_ask(at->gpu, at->id, at->need);
            at->is_sent = true;
        }
}

/* A question about what others use (need 0) does not wait for the next scheduler: it is refused at once. */
static void refuse(bool only_refreshes)
{
    for (struct ask *at = asks; at; at = at->next)
        if (!(only_refreshes && at->need) && !atomic_exchange(&at->answer, 2))
            nvs_futex_wake_all(&at->answer);
}

void nvs_asks_tick(void)
{
    enum nvs_ask_fate fate = nvs_client_ask_fate(&nvs_helper_client);
    if (fate == NVS_ASK_REFUSED)
        atomic_store(&is_expected, false);
    nvs_lock_take(&ask_lock);
    if (fate == NVS_ASK_SENT)
        send_all();
    else if (fate == NVS_ASK_REFUSED)
        refuse(false);
    nvs_lock_give(&ask_lock);
}

void nvs_asks_lost(void)
{
    if (nvs_helper_client.is_expected)
        atomic_store(&is_expected, true);
    nvs_lock_take(&ask_lock);
    for (struct ask *at = asks; at; at = at->next)
        at->is_sent = false;
    refuse(true);
    nvs_lock_give(&ask_lock);
}

void nvs_asks_forked(void)
{
    nvs_lock_reset(&ask_lock);
    asks = NULL;
    atomic_store(&is_expected, false);
}
