/* How long a thread waits for an answer.
 *
 * The process may be stopped (SIGSTOP, a paused container) while a question is open. The answer then comes into the socket, and when the
 * process goes on, the thread and the helper run at the same time. So
 *
 *   time     a thread waits in slices, and none counts for more than its length: a stop does not use up `ask_ms`;
 *   refusal  when `ask_ms` is used up, the thread says so (`overdue_ns`) and wakes the helper. The helper, or its deputy, refuses the
 *            question only after it has read everything that came before that;
 *   bound    neither may be able to run (a driver call without a deputy). The thread then gives up after LAST_SLICES more slices: 1 s, which
 *            contains no stop either. */
#include "helper/asks.h"

#include <stdatomic.h>

#include "base/options.h"
#include "client/deadline.h"
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
    _Atomic int64_t overdue_ns; /* since when its thread has waited long enough; 0: it has not. Stored before the helper is woken for it */
    /* 0 none yet, 1 answered (a refusal too: see `granted`), 2 there will be no answer. A futex; stored after `granted`, so that the
     * thread that reads 1 reads what was granted. The helper touches it only under the lock, which the thread takes before its stack
     * goes. */
    _Atomic uint32_t answer;
};
enum { LAST_SLICES = 100 };
#define SLICE_NS (100 * NVS_MS)
#define LAST_SLICE_NS (10 * NVS_MS)

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

/* Returns how long it has waited, without the time in which the process was stopped. */
static int64_t wait_slice(struct ask *ask, int64_t most_ns)
{
    int64_t began = nvs_now_ns();
    nvs_futex_wait(&ask->answer, 0, most_ns);
    return nvs_deadline_sooner(nvs_now_ns() - began, most_ns);
}

static void wait_for_answer(struct ask *ask, int64_t *waited_ns)
{
    int64_t left;
    while (!atomic_load(&ask->answer) && (left = nvs_options()->ask_ms * NVS_MS - *waited_ns) > 0)
        *waited_ns += wait_slice(ask, nvs_deadline_sooner(left, SLICE_NS));
    if (atomic_load(&ask->answer))
        return;
    atomic_store(&ask->overdue_ns, nvs_now_ns());
    nvs_wake_helper();
    for (int64_t last_ns = 0; !atomic_load(&ask->answer) && last_ns < LAST_SLICES * LAST_SLICE_NS;)
        last_ns += wait_slice(ask, LAST_SLICE_NS);
}

bool nvs_asks_budget(struct nvs_gpu *gpu, uint64_t need, int64_t *waited_ns, uint64_t *granted)
{
    struct ask ask = {.gpu = gpu->index, .need = need};
    if (!nvs_session_is_registered() && !(need && atomic_load(&is_expected)))
        return false;
    nvs_lock_take(&ask_lock);
    ask.id = ++last_ask ? last_ask : ++last_ask; /* 0 means no question */
    ask.next = asks;
    asks = &ask;
    nvs_lock_give(&ask_lock);
    nvs_wake_helper();
    wait_for_answer(&ask, waited_ns);
    nvs_lock_take(&ask_lock);
    unlink_ask(&ask);
    nvs_lock_give(&ask_lock);
    *granted = ask.granted;
    return atomic_load(&ask.answer) == 1;
}

void nvs_asks_refresh(struct nvs_gpu *gpu)
{
    uint64_t granted;
    int64_t waited_ns = 0;
    nvs_lock_take(&gpu->account_lock);
    bool has_others = gpu->account.limit && (gpu->account.others || gpu->account.budget < gpu->account.limit);
    nvs_lock_give(&gpu->account_lock);
    if (has_others)
        nvs_asks_budget(gpu, 0, &waited_ns, &granted);
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
        if (!at->is_sent && !atomic_load(&at->answer)) {
            nvs_session_send_ask(at->gpu, at->id, at->need);
            at->is_sent = true;
        }
}

/* All answers are stored under the lock, so one that is there stays. */
static void refuse_one(struct ask *ask)
{
    if (atomic_load(&ask->answer))
        return;
    atomic_store(&ask->answer, 2);
    nvs_futex_wake_all(&ask->answer);
}

/* A question about what others use (need 0) does not wait for the next scheduler: it is refused at once. */
static void refuse(bool only_refreshes)
{
    for (struct ask *at = asks; at; at = at->next)
        if (!(only_refreshes && at->need))
            refuse_one(at);
}

void nvs_asks_refuse_overdue(int64_t read_ns)
{
    nvs_lock_take(&ask_lock);
    for (struct ask *at = asks; at; at = at->next) {
        int64_t overdue_ns = atomic_load(&at->overdue_ns);
        if (overdue_ns && overdue_ns <= read_ns)
            refuse_one(at);
    }
    nvs_lock_give(&ask_lock);
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
