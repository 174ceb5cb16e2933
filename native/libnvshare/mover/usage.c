#include "mover/usage.h"

#include <stddef.h>

#include "base/platform.h"

enum { FREED = 1 }; /* of a watch */
#define ONE_SHARER (UINT32_C(1) << 16)
#define SHARERS (UINT32_MAX << 16)
#define CHUNKS (UINT64_C(1) << (NVS_ADDRESS_BITS - NVS_CHUNK_SHIFT))

bool nvs_usage_setup(struct nvs_usage *usage)
{
    if (!usage->marks)
        usage->marks = nvs_pages_sparse(CHUNKS * sizeof *usage->marks);
    return usage->marks != NULL;
}

static _Atomic uint32_t *mark_of(const struct nvs_usage *usage, uint64_t address)
{
    return usage->marks && address >> NVS_ADDRESS_BITS == 0 ? &usage->marks[address >> NVS_CHUNK_SHIFT] : NULL;
}

/* The same sharers and these flags, used at this stamp. */
static uint32_t stamped(uint32_t old, uint32_t stamp, unsigned flags)
{
    return (old & SHARERS) | stamp % NVS_MARK_STAMPS << NVS_MARK_STAMP_SHIFT | (flags & NVS_MARK_FLAGS);
}

/* One chunk of `mark`; false if it is not managed.
 *
 * A swap: meanwhile the helper sets and clears flags (flag, below), and a store could undo that. Without HELD, memory that the driver
 * was told to keep on the host would not count as held, and more would be held instead. */
static bool mark_chunk(struct nvs_usage *usage, _Atomic uint32_t *place, unsigned flags, unsigned gone)
{
    uint32_t old = place ? atomic_load_explicit(place, memory_order_relaxed) : 0, made;
    do {
        if (!(old & NVS_MARK_MANAGED))
            return false;
        made = stamped(old, atomic_load_explicit(&usage->stamp, memory_order_relaxed), (old | flags) & ~gone);
        if (made == old)
            return true;
    } while (!atomic_compare_exchange_weak_explicit(place, &old, made, memory_order_relaxed, memory_order_relaxed));
    atomic_store_explicit(&usage->is_used, true, memory_order_relaxed);
    return true;
}

/* Adds flags to each managed chunk of the range and stamps it; `gone` are taken out. */
static void mark(struct nvs_usage *usage, uint64_t address, uint64_t bytes, unsigned flags, unsigned gone)
{
    if (!bytes || address + bytes < address)
        return;
    for (uint64_t at = address >> NVS_CHUNK_SHIFT; at <= (address + bytes - 1) >> NVS_CHUNK_SHIFT; at++)
        if (!mark_chunk(usage, mark_of(usage, at << NVS_CHUNK_SHIFT), flags, gone))
            return; /* the range leaves our memory: it was never ours, or the call is wrong */
}

/* True if the chunk may have a part of another allocation: this one has only a part of it. */
static bool may_be_shared(uint64_t chunk, uint64_t base, uint64_t bytes)
{
    uint64_t begin = chunk << NVS_CHUNK_SHIFT;
    return begin < base || begin + NVS_CHUNK_BYTES > base + bytes;
}

/* One sharer more, or less. The first one begins a new mark, and the last one ends it. A swap: the helper and other threads change
 * the same word. Release: as in end_watches. */
static void change_sharers(_Atomic uint32_t *place, bool is_one_more)
{
    uint32_t old = atomic_load_explicit(place, memory_order_relaxed), made;
    do {
        if (is_one_more)
            made = old & SHARERS ? old + ONE_SHARER : ONE_SHARER | NVS_MARK_MANAGED;
        else
            made = (old & SHARERS) > ONE_SHARER ? old - ONE_SHARER : 0;
    } while (!atomic_compare_exchange_weak_explicit(place, &old, made, memory_order_release, memory_order_relaxed));
}

void nvs_usage_allocated(struct nvs_usage *usage, uint64_t base, uint64_t bytes)
{
    for (uint64_t at = base >> NVS_CHUNK_SHIFT; at <= (base + bytes - 1) >> NVS_CHUNK_SHIFT; at++) {
        _Atomic uint32_t *place = mark_of(usage, at << NVS_CHUNK_SHIFT);
        if (!place)
            return;
        if (may_be_shared(at, base, bytes))
            change_sharers(place, true);
        else
            atomic_store_explicit(place, NVS_MARK_MANAGED, memory_order_release); /* as in end_watches */
    }
}

/* Release: pairs with the acquire in `flag`. A helper that flags the chunk after the store below, or after one of the next allocation,
 * finds its watch at FREED. If it flags before, the store takes the flags away. */
static void end_watches(struct nvs_usage *usage, uint64_t base)
{
    for (unsigned i = 0; i < NVS_WATCHES; i++) {
        uint64_t seen = base;
        if (atomic_load_explicit(&usage->watched[i], memory_order_relaxed) == base /* cheap: most are not ours */
            && atomic_compare_exchange_strong_explicit(&usage->watched[i], &seen, FREED, memory_order_release, memory_order_relaxed))
            atomic_fetch_sub_explicit(&usage->watches, 1, memory_order_relaxed);
    }
}

/* `watches` is relaxed: the thread has taken the allocation out of the ledger, under a lock that the helper takes after it began to
 * watch. */
void nvs_usage_freed(struct nvs_usage *usage, uint64_t base, uint64_t bytes)
{
    if (atomic_load_explicit(&usage->watches, memory_order_relaxed))
        end_watches(usage, base);
    for (uint64_t at = base >> NVS_CHUNK_SHIFT; at <= (base + bytes - 1) >> NVS_CHUNK_SHIFT; at++) {
        _Atomic uint32_t *place = mark_of(usage, at << NVS_CHUNK_SHIFT);
        if (!place)
            return;
        if (may_be_shared(at, base, bytes))
            change_sharers(place, false);
        else
            atomic_store_explicit(place, 0, memory_order_release); /* as in end_watches */
    }
}

void nvs_usage_copied(struct nvs_usage *usage, uint64_t address, uint64_t bytes)
{
    mark(usage, address, bytes, NVS_MARK_COPIED, NVS_MARK_AWAY);
}

void nvs_usage_pointed(struct nvs_usage *usage, uint64_t address) { mark(usage, address, 1, NVS_MARK_POINTED, 0); }

void nvs_usage_left_alone(struct nvs_usage *usage, uint64_t address, uint64_t bytes)
{
    mark(usage, address, bytes, NVS_MARK_LEFT_ALONE, 0);
}

static void flag(struct nvs_usage *usage, uint64_t address, uint64_t bytes, uint32_t flags, bool is_set)
{
    for (uint64_t at = address >> NVS_CHUNK_SHIFT; bytes && at <= (address + bytes - 1) >> NVS_CHUNK_SHIFT; at++) {
        _Atomic uint32_t *place = mark_of(usage, at << NVS_CHUNK_SHIFT);
        if (place && is_set)
            atomic_fetch_or_explicit(place, flags, memory_order_acquire); /* pairs with end_watches */
        else if (place)
            atomic_fetch_and_explicit(place, ~flags, memory_order_relaxed);
    }
}

void nvs_usage_moved(struct nvs_usage *usage, uint64_t address, uint64_t bytes, bool away)
{
    flag(usage, address, bytes, NVS_MARK_AWAY, away);
}

void nvs_usage_held(struct nvs_usage *usage, uint64_t address, uint64_t bytes, bool is_held)
{
    flag(usage, address, bytes, NVS_MARK_HELD, is_held);
}

/* Counted first: a thread that frees this allocation subtracts, and with a watch that does not count yet the count of another would go. */
unsigned nvs_usage_watch(struct nvs_usage *usage, uint64_t base)
{
    atomic_fetch_add_explicit(&usage->watches, 1, memory_order_relaxed);
    for (unsigned i = 0; i < NVS_WATCHES; i++) {
        uint64_t none = 0;
        if (atomic_compare_exchange_strong_explicit(&usage->watched[i], &none, base, memory_order_relaxed, memory_order_relaxed))
            return i;
    }
    atomic_fetch_sub_explicit(&usage->watches, 1, memory_order_relaxed);
    return NVS_WATCHES;
}

bool nvs_usage_unwatch(struct nvs_usage *usage, unsigned watch, uint64_t address, uint64_t bytes, unsigned flags)
{
    if (watch >= NVS_WATCHES)
        return false;
    bool is_freed = atomic_exchange_explicit(&usage->watched[watch], 0, memory_order_relaxed) == FREED;
    if (is_freed)
        flag(usage, address, bytes, flags, false);
    else
        atomic_fetch_sub_explicit(&usage->watches, 1, memory_order_relaxed);
    return is_freed;
}

void nvs_usage_forked(struct nvs_usage *usage)
{
    atomic_store(&usage->watches, 0);
    for (unsigned i = 0; i < NVS_WATCHES; i++)
        atomic_store(&usage->watched[i], 0);
}

unsigned nvs_usage_at(const struct nvs_usage *usage, uint64_t address)
{
    _Atomic uint32_t *place = mark_of(usage, address);
    return place ? atomic_load_explicit(place, memory_order_relaxed) & ~SHARERS : 0;
}

uint32_t nvs_usage_age(const struct nvs_usage *usage, unsigned mark)
{
    uint32_t stamp = atomic_load_explicit(&usage->stamp, memory_order_relaxed);
    return (stamp - (mark >> NVS_MARK_STAMP_SHIFT)) % NVS_MARK_STAMPS;
}

void nvs_usage_blind(struct nvs_usage *usage)
{
    uint32_t stamp = atomic_load_explicit(&usage->stamp, memory_order_relaxed) + 1;
    if (atomic_load_explicit(&usage->blind, memory_order_relaxed) != stamp)
        atomic_store_explicit(&usage->blind, stamp, memory_order_relaxed);
    if (!atomic_load_explicit(&usage->is_used, memory_order_relaxed))
        atomic_store_explicit(&usage->is_used, true, memory_order_relaxed);
}

bool nvs_usage_is_blind(const struct nvs_usage *usage, uint32_t stamps)
{
    uint32_t blind = atomic_load_explicit(&usage->blind, memory_order_relaxed);
    return blind && atomic_load_explicit(&usage->stamp, memory_order_relaxed) + 1 - blind <= stamps;
}

void nvs_usage_next_stamp(struct nvs_usage *usage)
{
    atomic_store_explicit(&usage->is_used, false, memory_order_relaxed);
    atomic_fetch_add_explicit(&usage->stamp, 1, memory_order_relaxed);
}

/* If a thread marks the chunk meanwhile, the exchange fails: then it is young. */
void nvs_usage_keep_old(struct nvs_usage *usage, uint64_t address)
{
    _Atomic uint32_t *place = mark_of(usage, address);
    uint32_t old = place ? atomic_load_explicit(place, memory_order_relaxed) : 0;
    uint32_t oldest = NVS_MARK_STAMPS / 4;
    if (!(old & ~SHARERS) || nvs_usage_age(usage, old & ~SHARERS) <= oldest)
        return;
    uint32_t kept = stamped(old, atomic_load_explicit(&usage->stamp, memory_order_relaxed) - oldest, old);
    atomic_compare_exchange_strong_explicit(place, &old, kept, memory_order_relaxed, memory_order_relaxed);
}
