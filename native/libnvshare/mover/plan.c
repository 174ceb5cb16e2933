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
        if ((!is_marked && !found.is_whole) || mark & NVS_MARK_HELD)
            continue;
        struct nvs_slice chunk = {.address = at, .bytes = least(nvs_next_chunk(at), end) - at, .base = block->base,
                                  .age = is_marked && !found.is_whole ? nvs_usage_age(usage, mark) : found.age, .is_away = is_away};
        if (!add(slices, &chunk))
            return false;
    }
    return true;
}

static int compare(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

/* Whole chunks of it that are held, or that may be. */
static bool add_held(const struct nvs_usage *usage, const struct nvs_block *block, bool is_held, bool is_blind, struct slices *slices)
{
    struct nvs_block_use found = nvs_plan_look(usage, block);
    if (found.is_left_alone && !is_held)
        return true;
    for (uint64_t at = nvs_next_chunk(block->base - 1); at + NVS_CHUNK_BYTES <= block->base + block->bytes; at += NVS_CHUNK_BYTES) {
        unsigned mark = nvs_usage_at(usage, at);
        bool is_marked = mark & (NVS_MARK_COPIED | NVS_MARK_POINTED), is_used = found.is_used && (is_marked || found.is_whole);
        if (((mark & NVS_MARK_HELD) != 0) != is_held)
            continue;
        struct nvs_slice chunk = {.address = at, .bytes = NVS_CHUNK_BYTES, .base = block->base, .is_unused = !is_used && !is_blind,
                                  .age = !is_used ? UINT32_MAX : found.is_whole ? found.age : nvs_usage_age(usage, mark)};
        if (!add(slices, &chunk))
            return false;
    }
    return true;
}

uint64_t nvs_plan_held(const struct nvs_usage *usage, const struct nvs_block *blocks, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        for (uint64_t at = nvs_next_chunk(blocks[i].base - 1); at + NVS_CHUNK_BYTES <= blocks[i].base + blocks[i].bytes; at += NVS_CHUNK_BYTES)
            sum += nvs_usage_at(usage, at) & NVS_MARK_HELD ? NVS_CHUNK_BYTES : 0;
    return sum;
}

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

/* Of the slices in this order, those that are not more than so many bytes. */
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
                     uint64_t most_bytes, struct nvs_slice *slices, size_t room)
{
    struct slices made = {.at = slices, .room = room};
    for (size_t i = 0; i < count; i++)
        if (!add_block(usage, &blocks[i], &made))
            break;
    qsort(slices, made.count, sizeof *slices, to_host ? out_order : in_order);
    return cut(slices, made.count, most_bytes);
}

size_t nvs_plan_hold(const struct nvs_usage *usage, const struct nvs_block *blocks, size_t count, bool is_back, uint64_t bytes,
                     struct nvs_slice *slices, size_t room)
{
    struct slices made = {.at = slices, .room = room};
    for (size_t i = 0; i < count; i++)
        if (!add_held(usage, &blocks[i], is_back, nvs_usage_is_blind(usage, UINT32_MAX), &made))
            break;
    qsort(slices, made.count, sizeof *slices, is_back ? in_order : out_order);
    /* At least what is asked for is held, so of what comes back parts of a chunk are left. */
    uint64_t most = (is_back ? bytes : bytes + NVS_CHUNK_BYTES - 1) & ~(NVS_CHUNK_BYTES - 1);
    return cut(slices, made.count, most);
}
