#include "mover/plan.h"

#include <stdlib.h>

struct slices {
    struct nvs_slice *at;
    size_t count, room;
};

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

struct nvs_block_use nvs_plan_look(const struct nvs_usage *usage, const struct nvs_block *block)
{
    struct nvs_block_use found = {.age = UINT32_MAX};
    bool is_arena = false;
    for (uint64_t at = block->base; at < block->base + block->bytes; at = nvs_next_chunk(at)) {
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

/* Adds a chunk to the last slice if it continues it, or begins a new one. False: there is no room. */
static bool add(struct slices *slices, const struct nvs_slice *chunk)
{
    struct nvs_slice *last = slices->count ? &slices->at[slices->count - 1] : NULL;
    if (last && last->base == chunk->base && last->address + last->bytes == chunk->address && last->age == chunk->age &&
        last->is_away == chunk->is_away && last->bytes + chunk->bytes <= NVS_SLICE_BYTES) {
        last->bytes += chunk->bytes;
        return true;
    }
    if (slices->count == slices->room)
        return false;
    slices->at[slices->count++] = *chunk;
    return true;
}

static bool add_block(const struct nvs_usage *usage, const struct nvs_block *block, struct slices *slices)
{
    struct nvs_block_use found = nvs_plan_look(usage, block);
    if (!found.is_used || found.is_left_alone)
        return true;
    uint64_t end = block->base + block->bytes;
    for (uint64_t at = block->base; at < end; at = nvs_next_chunk(at)) {
        unsigned mark = nvs_usage_at(usage, at);
        bool is_marked = mark & (NVS_MARK_COPIED | NVS_MARK_POINTED), is_away = mark & NVS_MARK_AWAY;
        if (!is_marked && !found.is_whole)
            continue;
        struct nvs_slice chunk = {.address = at, .bytes = least(nvs_next_chunk(at), end) - at, .base = block->base,
                                  .age = is_marked && !found.is_whole ? nvs_usage_age(usage, mark) : found.age, .is_away = is_away};
        if (!add(slices, &chunk))
            return false;
    }
    return true;
}

static int compare(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

static int out_order(const void *one, const void *other)
{
    const struct nvs_slice *a = one, *b = other;
    if (a->is_away != b->is_away)
        return a->is_away ? 1 : -1;
    return a->age != b->age ? compare(b->age, a->age) : compare(b->address, a->address);
}

static int in_order(const void *one, const void *other)
{
    const struct nvs_slice *a = one, *b = other;
    if (a->is_away != b->is_away)
        return a->is_away ? -1 : 1;
    return a->age != b->age ? compare(a->age, b->age) : compare(a->address, b->address);
}

size_t nvs_plan_move(const struct nvs_usage *usage, const struct nvs_block *blocks, size_t count, bool to_host,
                     uint64_t most_bytes, struct nvs_slice *slices, size_t room)
{
    struct slices made = {.at = slices, .room = room};
    for (size_t i = 0; i < count; i++)
        if (!add_block(usage, &blocks[i], &made))
            break;
    qsort(slices, made.count, sizeof *slices, to_host ? out_order : in_order);
    size_t kept = 0;
    for (uint64_t sum = 0; kept < made.count && sum < most_bytes; kept++) {
        slices[kept].bytes = least(slices[kept].bytes, most_bytes - sum);
        sum += slices[kept].bytes;
    }
    return kept;
}
