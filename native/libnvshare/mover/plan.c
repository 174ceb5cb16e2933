#include "mover/plan.h"

#include <stdlib.h>

/* Slices that may be moved, and the order in which they will be. */
struct slices {
    struct nvs_slice *at;
    size_t count, most;
    int (*order)(const void *one, const void *other);
};

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static int compare(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

static int out_order(const void *one, const void *other)
{
    const struct nvs_slice *a = one, *b = other;
    if (a->is_away != b->is_away)
        return a->is_away ? 1 : -1;
    if (a->age != b->age)
        return compare(b->age, a->age);
    return a->base == b->base && a->is_assumed ? compare(a->address, b->address) : compare(b->address, a->address);
}

static int in_order(const void *one, const void *other)
{
    const struct nvs_slice *a = one, *b = other;
    if (a->is_away != b->is_away)
        return a->is_away ? -1 : 1;
    return a->age != b->age ? compare(a->age, b->age) : compare(a->address, b->address);
}

static void sort(struct slices *slices) { qsort(slices->at, slices->count, sizeof *slices->at, slices->order); }

/* When there is no room for one more: the quarter that would be moved last is left out. So three quarters of the slices are always those
 * that come first of all. */
static void make_room(struct slices *slices)
{
    sort(slices);
    slices->count -= (slices->count + 3) / 4;
}

struct nvs_block_use nvs_plan_look(const struct nvs_usage *usage, const struct nvs_block *block)
{
    struct nvs_block_use found = {.age = UINT32_MAX};
    bool is_arena = false;
    for (uint64_t at = block->base; at < block->base + block->bytes; at = nvs_plan_next_chunk(at)) {
        unsigned mark = nvs_usage_at(usage, at);
        if (mark & NVS_MARK_LEFT_ALONE)
            found.is_left_alone = true;
        if (!(mark & (NVS_MARK_COPIED | NVS_MARK_POINTED)))
            continue;
        uint32_t age = nvs_usage_age(usage, mark);
        found.is_used = true;
        is_arena |= mark & NVS_MARK_COPIED || at != block->base;
        found.age = age < found.age ? age : found.age;
    }
    found.is_whole = block->bytes <= NVS_LARGE_BYTES || !is_arena;
    return found;
}

/* Adds a chunk to the last slice if it continues it, or begins a new one. */
static void add(struct slices *slices, const struct nvs_slice *chunk)
{
    struct nvs_slice *last = slices->count ? &slices->at[slices->count - 1] : NULL;
    if (last && last->base == chunk->base && last->address + last->bytes == chunk->address && last->age == chunk->age &&
        last->is_away == chunk->is_away && last->bytes + chunk->bytes <= NVS_SLICE_BYTES) {
        last->bytes += chunk->bytes;
        return;
    }
    if (slices->count == slices->most)
        make_room(slices);
    slices->at[slices->count++] = *chunk;
}

static void add_block(const struct nvs_usage *usage, const struct nvs_block *block, struct slices *slices)
{
    struct nvs_block_use found = nvs_plan_look(usage, block);
    if (!found.is_used || found.is_left_alone)
        return;
    uint64_t end = block->base + block->bytes;
    bool is_assumed = found.is_whole && block->bytes > NVS_LARGE_BYTES;
    for (uint64_t at = block->base; at < end; at = nvs_plan_next_chunk(at)) {
        unsigned mark = nvs_usage_at(usage, at);
        bool is_marked = mark & (NVS_MARK_COPIED | NVS_MARK_POINTED), is_away = mark & NVS_MARK_AWAY;
        if ((!is_marked && !found.is_whole) || mark & NVS_MARK_HELD)
            continue;
        struct nvs_slice chunk = {.address = at, .bytes = least(nvs_plan_next_chunk(at), end) - at, .base = block->base,
                                  .age = is_marked && !found.is_whole ? nvs_usage_age(usage, mark) : found.age, .is_away = is_away,
                                  .is_assumed = is_assumed};
        add(slices, &chunk);
    }
}

/* Whole chunks of it that are held, or that may be. */
static void add_held(const struct nvs_usage *usage, const struct nvs_block *block, bool is_held, bool is_blind, struct slices *slices)
{
    struct nvs_block_use found = nvs_plan_look(usage, block);
    if (found.is_left_alone && !is_held)
        return;
    for (uint64_t at = nvs_plan_next_chunk(block->base - 1); at + NVS_CHUNK_BYTES <= block->base + block->bytes; at += NVS_CHUNK_BYTES) {
        unsigned mark = nvs_usage_at(usage, at);
        bool is_marked = mark & (NVS_MARK_COPIED | NVS_MARK_POINTED), is_used = found.is_used && (is_marked || found.is_whole);
        if (((mark & NVS_MARK_HELD) != 0) != is_held)
            continue;
        struct nvs_slice chunk = {.address = at, .bytes = NVS_CHUNK_BYTES, .base = block->base, .is_unused = !is_used && !is_blind,
                                  .age = !is_used ? UINT32_MAX : found.is_whole ? found.age : nvs_usage_age(usage, mark)};
        add(slices, &chunk);
    }
}

uint64_t nvs_plan_held(const struct nvs_usage *usage, const struct nvs_block *blocks, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        for (uint64_t at = nvs_plan_next_chunk(blocks[i].base - 1); at + NVS_CHUNK_BYTES <= blocks[i].base + blocks[i].bytes; at += NVS_CHUNK_BYTES)
            sum += nvs_usage_at(usage, at) & NVS_MARK_HELD ? NVS_CHUNK_BYTES : 0;
    return sum;
}

/* The first slices in this order that together have at most this number of bytes. */
static size_t cut(struct nvs_slice *slices, size_t count, uint64_t most_bytes)
{
    size_t kept = 0;
    for (uint64_t sum = 0; kept < count && sum < most_bytes; kept++) {
        slices[kept].bytes = least(slices[kept].bytes, most_bytes - sum);
        sum += slices[kept].bytes;
    }
    return kept;
}

size_t nvs_plan_move(const struct nvs_usage *usage, const struct nvs_block *blocks, size_t count, bool to_host,
                     uint64_t most_bytes, struct nvs_slice *slices, size_t most_slices)
{
    struct slices made = {.at = slices, .most = most_slices, .order = to_host ? out_order : in_order};
    for (size_t i = 0; i < count; i++)
        add_block(usage, &blocks[i], &made);
    sort(&made);
    return cut(slices, made.count, most_bytes);
}

size_t nvs_plan_hold(const struct nvs_usage *usage, const struct nvs_block *blocks, size_t count, bool is_back, uint64_t bytes,
                     struct nvs_slice *slices, size_t most_slices)
{
    struct slices made = {.at = slices, .most = most_slices, .order = is_back ? in_order : out_order};
    for (size_t i = 0; i < count; i++)
        add_held(usage, &blocks[i], is_back, nvs_usage_is_blind(usage, UINT32_MAX), &made);
    sort(&made);
    /* At least what is asked for is held, so of what comes back parts of a chunk are left. */
    uint64_t most = (is_back ? bytes : bytes + NVS_CHUNK_BYTES - 1) & ~(NVS_CHUNK_BYTES - 1);
    return cut(slices, made.count, most);
}
