/* A ledger in shards, so that threads that allocate do not wait for each other. */
#include "memory/entries.h"

#include "base/log.h"
#include "memory/memory.h"
#include "mover/evidence.h"
#include "mover/plan.h"

enum { SHARDS = 16 };

static struct shard {
    struct nvs_lock lock;
    struct nvs_ledger table;
} __attribute__((aligned(64))) shards[SHARDS] = {[0 ... SHARDS - 1] = {.lock = NVS_LOCK_WITH_RANK(NVS_LOCK_SHARD)}};

static struct shard *shard_of(uint64_t hash) { return &shards[hash >> 60]; }

static bool can_move(const struct nvs_ledger_entry *entry)
{
    return (entry->kind == NVS_KIND_MEMORY || entry->kind == NVS_KIND_POOLED) && entry->swappable;
}

static void say_if_lost(bool is_kept)
{
    if (!is_kept)
        nvs_warn("no memory to note an allocation; it stays counted");
}

/* What the entry notes is in the account of its GPU. Pools are charged for what they reserve, handles and mappings for their block. */
static bool is_charged(const struct nvs_ledger_entry *entry)
{
    return entry->kind != NVS_KIND_POOLED && entry->kind != NVS_KIND_HANDLE && entry->kind != NVS_KIND_MAPPING && entry->kind != NVS_KIND_KERNEL;
}

/* The marks of what is replaced end under the lock, before those of the new allocation begin: they may be the same marks, and a thread
 * that ends a context (nvs_entries_context_gone) could otherwise clear them in between. */
bool nvs_entries_replace(const struct nvs_ledger_entry *entry, struct nvs_ledger_entry *replaced)
{
    uint64_t hash = nvs_ledger_hash(entry->kind, entry->key);
    struct shard *shard = shard_of(hash);
    nvs_lock_take(&shard->lock);
    bool kept = nvs_ledger_replace(&shard->table, hash, entry, replaced);
    if (NVS_UNLIKELY(replaced->key) && can_move(replaced))
        nvs_usage_freed(&nvs_evidence, replaced->key, replaced->bytes);
    if (can_move(entry))
        nvs_usage_allocated(&nvs_evidence, entry->key, entry->bytes);
    nvs_lock_give(&shard->lock);
    say_if_lost(kept);
    return replaced->key != 0;
}

/* An entry that is replaced is stale: its context is being destroyed in another thread, and the driver has freed the memory and given its
 * address away before that thread takes the entry out. */
void nvs_entries_note(const struct nvs_ledger_entry *entry)
{
    struct nvs_ledger_entry stale;
    if (NVS_UNLIKELY(nvs_entries_replace(entry, &stale)) && is_charged(&stale))
        nvs_memory_return_entry(&stale);
}

bool nvs_entries_take(enum nvs_kind kind, uint64_t key, struct nvs_ledger_entry *taken)
{
    uint64_t hash = nvs_ledger_hash(kind, key);
    struct shard *shard = shard_of(hash);
    nvs_lock_take(&shard->lock);
    bool found = nvs_ledger_take(&shard->table, hash, kind, key, taken);
    nvs_lock_give(&shard->lock);
    if (found && can_move(taken))
        nvs_usage_freed(&nvs_evidence, taken->key, taken->bytes);
    return found;
}

bool nvs_entries_find(enum nvs_kind kind, uint64_t key, struct nvs_ledger_entry *found)
{
    uint64_t hash = nvs_ledger_hash(kind, key);
    struct shard *shard = shard_of(hash);
    nvs_lock_take(&shard->lock);
    struct nvs_ledger_entry *entry = nvs_ledger_find(&shard->table, hash, kind, key);
    if (entry)
        *found = *entry;
    nvs_lock_give(&shard->lock);
    return entry != NULL;
}

size_t nvs_entries_blocks(const struct nvs_gpu *gpu, struct nvs_block *blocks, size_t most)
{
    size_t count = 0;
    for (int i = 0; i < SHARDS; i++) {
        nvs_lock_take(&shards[i].lock);
        for (size_t at = 0; at < shards[i].table.capacity && count < most; at++) {
            const struct nvs_ledger_entry *entry = &shards[i].table.entries[at];
            if (entry->key && can_move(entry) && entry->gpu == gpu->index)
                blocks[count++] = (struct nvs_block){.base = entry->key, .bytes = entry->bytes};
        }
        nvs_lock_give(&shards[i].lock);
    }
    return count;
}

int nvs_entries_count(enum nvs_kind kind, uint64_t key, int change, struct nvs_ledger_entry *entry)
{
    uint64_t hash = nvs_ledger_hash(kind, key);
    struct shard *shard = shard_of(hash);
    int left = -1;
    nvs_lock_take(&shard->lock);
    struct nvs_ledger_entry *found = nvs_ledger_find(&shard->table, hash, kind, key);
    if (found) {
        found->count += (uint32_t)change;
        left = (int)found->count;
        *entry = *found;
        if (left == 0)
            nvs_ledger_take(&shard->table, hash, kind, key, entry);
    }
    nvs_lock_give(&shard->lock);
    return left;
}

static void leave(const struct nvs_ledger_entry *entry, void *nothing) { (void)entry, (void)nothing; }

void nvs_entries_forget(enum nvs_kind kind, uint64_t owner)
{
    for (int i = 0; i < SHARDS; i++) {
        nvs_lock_take(&shards[i].lock);
        nvs_ledger_sweep(&shards[i].table, kind, owner, leave, NULL);
        nvs_lock_give(&shards[i].lock);
    }
}

static void give_back(const struct nvs_ledger_entry *entry, void *nothing)
{
    (void)nothing;
    if (can_move(entry))
        nvs_usage_freed(&nvs_evidence, entry->key, entry->bytes);
    nvs_memory_return_entry(entry);
}

void nvs_entries_context_gone(CUcontext context)
{
    static const enum nvs_kind kinds[] = {NVS_KIND_MEMORY, NVS_KIND_ARRAY, NVS_KIND_MIPMAP, NVS_KIND_HEAP, NVS_KIND_STACK};
    for (int i = 0; i < SHARDS; i++) {
        nvs_lock_take(&shards[i].lock);
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            nvs_ledger_sweep(&shards[i].table, kinds[k], (uint64_t)(uintptr_t)context, give_back, NULL);
        nvs_lock_give(&shards[i].lock);
    }
}

void nvs_entries_forked(void)
{
    for (int i = 0; i < SHARDS; i++) {
        nvs_lock_reset(&shards[i].lock);
        shards[i].table = (struct nvs_ledger){0}; /* it may have been half moved when we forked: left where it is */
    }
}
