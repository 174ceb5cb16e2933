#include "memory.h"

#include <stdatomic.h>
#include <string.h>

#include "log.h"
#include "pools.h"
#include "session.h"

enum { SHARDS = 16, MOST_ASKS = 1000 };
#define REPORT_AT_ONCE_BYTES (UINT64_C(64) << 20)

static struct shard {
    struct nvs_lock lock;
    struct nvs_table table;
} __attribute__((aligned(64))) shards[SHARDS];

static struct shard *shard_of(enum nvs_kind kind, uint64_t key) { return &shards[nvs_ledger_hash(kind, key) >> 60]; }

static uint64_t apart(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

/* Wakes the helper once per report, and again only when a lot has changed. With the account's lock held. */
static void changed(struct nvs_gpu *gpu)
{
    bool is_big = apart(gpu->account.used, gpu->told_used) >= REPORT_AT_ONCE_BYTES && nvs_session_hurry(gpu);
    if (!atomic_exchange(&gpu->memory_changed, true) || is_big)
        nvs_session_wake();
}

static enum nvs_verdict try(struct nvs_gpu *gpu, uint64_t bytes, bool swappable, uint64_t *need, uint64_t *limit)
{
    nvs_lock_take(&gpu->account_lock);
    enum nvs_verdict verdict = nvs_account_reserve(&gpu->account, bytes, swappable);
    *need = gpu->account.used + bytes;
    *limit = gpu->account.limit;
    if (verdict == NVS_ROOM)
        changed(gpu);
    nvs_lock_give(&gpu->account_lock);
    return verdict;
}

CUresult nvs_memory_reserve(struct nvs_gpu *gpu, uint64_t bytes, bool swappable)
{
    bool looked_at_pools = false;
    uint64_t limit = 0;
    nvs_session_wait_joined();
    for (int asked = 0; asked < MOST_ASKS; asked++) {
        uint64_t need, granted;
        enum nvs_verdict verdict = try(gpu, bytes, swappable, &need, &limit);
        if (verdict == NVS_ROOM)
            return CUDA_SUCCESS;
        if (verdict == NVS_REFUSE && !looked_at_pools) {
            nvs_pools_refresh(); /* memory may have gone back to the card unseen */
            looked_at_pools = true;
            continue;
        }
        /* Granted what we asked for but another thread was quicker: ask again. Only a grant that is too small is a no. */
        if (verdict == NVS_REFUSE || !nvs_session_ask(gpu, need, &granted) || granted < need)
            break;
    }
    nvs_debug("%s: allocation of %llu bytes refused: the limit is %llu", gpu->label, (unsigned long long)bytes,
              (unsigned long long)limit);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void nvs_memory_add(struct nvs_gpu *gpu, uint64_t bytes, bool swappable)
{
    nvs_lock_take(&gpu->account_lock);
    nvs_account_add(&gpu->account, bytes, swappable);
    changed(gpu);
    nvs_lock_give(&gpu->account_lock);
}

void nvs_memory_return(struct nvs_gpu *gpu, uint64_t bytes, bool swappable)
{
    nvs_lock_take(&gpu->account_lock);
    nvs_account_return(&gpu->account, bytes, swappable);
    changed(gpu);
    nvs_lock_give(&gpu->account_lock);
}

void nvs_memory_note(const struct nvs_entry *entry)
{
    struct shard *shard = shard_of(entry->kind, entry->key);
    nvs_lock_take(&shard->lock);
    bool kept = nvs_table_put(&shard->table, entry);
    nvs_lock_give(&shard->lock);
    if (!kept)
        nvs_warn("no memory to note an allocation; it stays counted");
}

bool nvs_memory_take(enum nvs_kind kind, uint64_t key, struct nvs_entry *taken)
{
    struct shard *shard = shard_of(kind, key);
    nvs_lock_take(&shard->lock);
    bool found = nvs_table_take(&shard->table, kind, key, taken);
    nvs_lock_give(&shard->lock);
    return found;
}

bool nvs_memory_look(enum nvs_kind kind, uint64_t key, struct nvs_entry *found)
{
    struct shard *shard = shard_of(kind, key);
    nvs_lock_take(&shard->lock);
    struct nvs_entry *entry = nvs_table_find(&shard->table, kind, key);
    if (entry)
        *found = *entry;
    nvs_lock_give(&shard->lock);
    return entry != NULL;
}

int nvs_memory_count(enum nvs_kind kind, uint64_t key, int change, struct nvs_entry *entry)
{
    struct shard *shard = shard_of(kind, key);
    int left = -1;
    nvs_lock_take(&shard->lock);
    struct nvs_entry *found = nvs_table_find(&shard->table, kind, key);
    if (found) {
        found->count += (uint32_t)change;
        left = (int)found->count;
        *entry = *found;
        if (left == 0)
            nvs_table_take(&shard->table, kind, key, entry);
    }
    nvs_lock_give(&shard->lock);
    return left;
}

static void give_back(const struct nvs_entry *entry, void *nothing)
{
    (void)nothing;
    nvs_memory_return(&nvs_gpus[entry->gpu], entry->bytes, entry->swappable);
}

void nvs_memory_context_gone(CUcontext context)
{
    static const enum nvs_kind kinds[] = {NVS_KIND_MEMORY, NVS_KIND_ARRAY, NVS_KIND_MIPMAP};
    for (int i = 0; i < SHARDS; i++) {
        nvs_lock_take(&shards[i].lock);
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            nvs_table_sweep(&shards[i].table, kinds[k], (uint64_t)(uintptr_t)context, give_back, NULL);
        nvs_lock_give(&shards[i].lock);
    }
}

void nvs_memory_forked(void)
{
    for (int i = 0; i < SHARDS; i++) {
        shards[i].lock = (struct nvs_lock){0};
        shards[i].table = (struct nvs_table){0}; /* it may have been half moved when we forked: left where it is */
    }
}
