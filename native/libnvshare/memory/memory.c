#include "memory/memory.h"

#include <stdatomic.h>

#include "base/log.h"
#include "base/options.h"
#include "helper/asks.h"
#include "helper/joining.h"
#include "helper/wake.h"
#include "lookup/real.h"
#include "memory/pools.h"
#include "suspend/passage.h"

enum { MOST_ASKS = 1000 };
/* The sum is bounded, because native memory cannot be evicted: a program with a million small allocations is still swappable. */
#define SMALL_BYTES (UINT64_C(1) << 20)
#define MOST_SMALL_BYTES (UINT64_C(64) << 20)

/* Pairs with hand_in_figures in helper/work.c, which clears the mark before it reads contexts and account. The caller has changed them
 * before the exchange. So if the exchange finds the mark, the helper has yet to clear it and reads the change; if not, the helper is woken
 * again. Both are sequentially consistent: otherwise the thread could read the mark before its change is visible, the helper clear it and
 * read the old figures, and the change be told only with the next one. */
void nvs_memory_changed(struct nvs_gpu *gpu)
{
    if (!atomic_exchange(&gpu->memory_changed, true))
        nvs_wake_helper();
}

/* As nvs_memory_changed, and wakes the helper again when a lot has changed. With the account's lock held.
 *
 * The marks are loaded, and stored only if they change: an exchange in each allocation would be slow. The loads are relaxed, because
 * the lock orders them: the helper clears memory_changed before it takes the lock and is_urgent while it holds it. So a thread that
 * finds a mark has the lock before the helper, which then reads what the thread has changed. */
static void account_changed(struct nvs_gpu *gpu)
{
    bool is_big = nvs_account_is_much_news(&gpu->account) && !atomic_load_explicit(&gpu->is_urgent, memory_order_relaxed);
    if (!is_big && atomic_load_explicit(&gpu->memory_changed, memory_order_relaxed))
        return;
    if (is_big)
        atomic_store(&gpu->is_urgent, true);
    atomic_store(&gpu->memory_changed, true);
    nvs_wake_helper();
}

void nvs_memory_count_contexts(struct nvs_gpu *gpu)
{
    uint32_t contexts = atomic_load(&gpu->contexts);
    gpu->account.contexts = contexts ? contexts : 1; /* memory needs a context, even one that we have not seen */
}

/* An allocation to be charged, and what the last attempt found beside its verdict. */
struct attempt {
    uint64_t bytes;
    bool swappable;
    bool may_be_small; /* it stays native if it is small */
    bool is_small;     /* it was charged as small */
    bool lacks_room;   /* refused only because the card has no room for it: the scheduler may know of more */
    uint64_t need, limit, room;
};

/* With the account's lock held. */
static bool has_room_for_small(const struct nvs_gpu *gpu, uint64_t bytes)
{
    return bytes < SMALL_BYTES && gpu->small_bytes + bytes <= MOST_SMALL_BYTES;
}

static void explain_refusal(const struct nvs_account *account, enum nvs_verdict verdict, struct attempt *attempt)
{
    attempt->need = account->used + attempt->bytes;
    attempt->limit = account->limit;
    attempt->room = nvs_account_usable(account);
    attempt->lacks_room =
        verdict == NVS_REFUSE && attempt->bytes <= account->card && attempt->need <= nvs_account_total(account);
}

static enum nvs_verdict try_reserve(struct nvs_gpu *gpu, struct attempt *attempt)
{
    nvs_lock_take(&gpu->account_lock);
    nvs_memory_count_contexts(gpu);
    bool is_small = attempt->may_be_small && has_room_for_small(gpu, attempt->bytes);
    enum nvs_verdict verdict = nvs_account_reserve(&gpu->account, attempt->bytes, attempt->swappable && !is_small);
    if (NVS_LIKELY(verdict == NVS_CHARGED)) {
        attempt->is_small = is_small;
        gpu->small_bytes += is_small ? attempt->bytes : 0;
        account_changed(gpu);
    } else {
        explain_refusal(&gpu->account, verdict, attempt);
    }
    nvs_lock_give(&gpu->account_lock);
    return verdict;
}

void nvs_memory_say_fixed(void)
{
    static _Atomic bool has_said;
    if (nvs_options()->memory_mode == NVS_MODE_MANAGED && !atomic_exchange(&has_said, true))
        nvs_warn("an allocation failed because the card is full. Memory from cuMemCreate, arrays, and before CUDA 13 memory from cuMemAllocAsync "
                 "cannot be evicted: programs that use it cannot take turns. For PyTorch set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False or "
                 "backend:native");
}

static void say_refused(const struct nvs_gpu *gpu, const struct attempt *attempt)
{
    uint64_t bytes = attempt->bytes;
    static _Atomic bool has_said;
    if (attempt->lacks_room && !atomic_exchange(&has_said, true))
        nvs_warn("%s: an allocation of %llu MiB was refused: the card has %llu MiB for this program, %llu MiB of them in use. Contexts, "
                 "memory of other programs that cannot be evicted, and a reserve take the rest",
                 gpu->label, (unsigned long long)bytes >> 20, (unsigned long long)attempt->room >> 20,
                 (unsigned long long)(attempt->need - bytes) >> 20);
    else
        nvs_debug("%s: allocation of %llu bytes refused: the limit is %llu", gpu->label, (unsigned long long)bytes,
                  (unsigned long long)attempt->limit);
    if (attempt->lacks_room && !attempt->swappable)
        nvs_memory_say_fixed();
}

static CUresult reserve(struct nvs_gpu *gpu, struct attempt *attempt)
{
    bool looked_at_pools = false, asked_for_room = false;
    if (!attempt->swappable && nvs_passage_has_paid(attempt->bytes))
        return CUDA_SUCCESS;
    uint64_t refused = UINT64_MAX; /* the smallest need that the scheduler has refused */
    int64_t waited_ns = 0;         /* of all questions; see nvs_asks_budget */
    nvs_joining_wait_done();
    for (int asked = 0; asked < MOST_ASKS; asked++) {
        uint64_t granted;
        enum nvs_verdict verdict = try_reserve(gpu, attempt);
        uint64_t need = attempt->need;
        if (verdict == NVS_CHARGED) {
            nvs_passage_charged(attempt->bytes);
            return CUDA_SUCCESS;
        }
        bool is_no = verdict == NVS_REFUSE || need >= refused;
        if (is_no && !looked_at_pools) {
            nvs_pools_refresh(); /* memory may have gone back to the card unseen */
            looked_at_pools = true;
            continue;
        }
        if (attempt->lacks_room && !asked_for_room) {
            asked_for_room = true;
            if (nvs_asks_budget(gpu, 0, &waited_ns, &granted)) /* CAPACITY comes before the answer, if it is news */
                continue;
        }
        /* After an answer look again. After a grant, another thread may have used it already. After a refusal, another thread may
         * have freed memory while the question was open: then less is needed than was refused. */
        if (is_no || !nvs_asks_budget(gpu, need, &waited_ns, &granted))
            break;
        if (granted < need)
            refused = need;
    }
    nvs_passage_charge_refused();
    say_refused(gpu, attempt);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult nvs_memory_reserve(struct nvs_gpu *gpu, uint64_t bytes, bool swappable)
{
    return reserve(gpu, &(struct attempt){.bytes = bytes, .swappable = swappable});
}

CUresult nvs_memory_reserve_converted(struct nvs_gpu *gpu, uint64_t bytes, bool *is_small)
{
    struct attempt attempt = {.bytes = bytes, .swappable = true, .may_be_small = true};
    CUresult result = reserve(gpu, &attempt);
    *is_small = attempt.is_small;
    return result;
}

void nvs_memory_add(struct nvs_gpu *gpu, uint64_t bytes, bool swappable)
{
    nvs_lock_take(&gpu->account_lock);
    nvs_account_add(&gpu->account, bytes, swappable);
    account_changed(gpu);
    nvs_lock_give(&gpu->account_lock);
}

static void give_charge_back(struct nvs_gpu *gpu, uint64_t bytes, bool swappable, bool is_small)
{
    nvs_lock_take(&gpu->account_lock);
    gpu->small_bytes -= is_small ? bytes : 0;
    nvs_account_return(&gpu->account, bytes, swappable);
    account_changed(gpu);
    nvs_lock_give(&gpu->account_lock);
}

void nvs_memory_return(struct nvs_gpu *gpu, uint64_t bytes, bool swappable) { give_charge_back(gpu, bytes, swappable, false); }

void nvs_memory_return_small(struct nvs_gpu *gpu, uint64_t bytes) { give_charge_back(gpu, bytes, false, true); }

void nvs_memory_return_entry(const struct nvs_ledger_entry *entry)
{
    give_charge_back(&nvs_gpus[entry->gpu], entry->bytes, entry->swappable, entry->is_small);
}

void nvs_memory_small_is_converted(struct nvs_gpu *gpu, uint64_t bytes)
{
    nvs_lock_take(&gpu->account_lock);
    gpu->small_bytes -= bytes;
    nvs_account_return(&gpu->account, bytes, false);
    nvs_account_add(&gpu->account, bytes, true);
    account_changed(gpu);
    nvs_lock_give(&gpu->account_lock);
}

bool nvs_memory_stays_native(const struct nvs_gpu *gpu)
{
    return !gpu->can_be_managed || nvs_options()->memory_mode != NVS_MODE_MANAGED || nvs_real_encoder_is_used();
}
