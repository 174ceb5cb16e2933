#include "mover/working_set.h"

enum { USED = NVS_MARK_COPIED | NVS_MARK_POINTED };

/* The marks of an arena in one walk upwards; addresses are ends of chunks. */
struct arena {
    uint64_t last_late;  /* the last chunk that was used recently; 0: none was */
    uint64_t next_array; /* behind it: where the next array begins; 0: there is none */
    uint64_t last_used;  /* the last chunk that was ever used */
    uint64_t longest;    /* distance between two used chunks up to last_late */
};

static void pass(struct arena *arena, unsigned mark, bool is_late, uint64_t at, uint64_t end)
{
    if (is_late) {
        uint64_t distance = arena->last_used ? at - arena->last_used : 0;
        arena->longest = distance > arena->longest ? distance : arena->longest;
        arena->last_late = end;
        arena->next_array = 0;
    } else if (mark & NVS_MARK_POINTED && arena->last_late && !arena->next_array) {
        arena->next_array = at;
    }
    arena->last_used = end;
}

static uint64_t used_of_arena(struct nvs_usage *usage, const struct nvs_block *block, uint32_t lately)
{
    struct arena arena = {0};
    uint64_t end = block->base + block->bytes;
    for (uint64_t at = block->base; at < end; at = nvs_plan_next_chunk(at)) {
        nvs_usage_keep_old(usage, at);
        unsigned mark = nvs_usage_at(usage, at);
        if (mark & USED)
            pass(&arena, mark, nvs_usage_age(usage, mark) <= lately, at, nvs_plan_next_chunk(at));
    }
    if (!arena.last_late)
        return 0;
    uint64_t top = arena.next_array                     ? arena.next_array
                 : arena.last_used > arena.last_late    ? arena.last_used
                                                        : arena.last_late + arena.longest;
    return (top < end ? top : end) - block->base;
}

/* Of an allocation that counts as a whole. */
static bool is_used_lately(struct nvs_usage *usage, const struct nvs_block *block)
{
    bool is_late = false;
    for (uint64_t at = block->base; at < block->base + block->bytes; at = nvs_plan_next_chunk(at)) {
        nvs_usage_keep_old(usage, at);
        unsigned mark = nvs_usage_at(usage, at);
        is_late |= mark & USED && nvs_usage_age(usage, mark) <= NVS_LATELY;
    }
    return is_late;
}

uint64_t nvs_working_set(struct nvs_usage *usage, const struct nvs_block *blocks, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        struct nvs_block_use use = nvs_plan_look(usage, &blocks[i]);
        if (use.is_left_alone || !use.is_used)
            sum += blocks[i].bytes;
        else if (!use.is_whole)
            sum += used_of_arena(usage, &blocks[i], NVS_LATELY);
        else if (is_used_lately(usage, &blocks[i]))
            sum += blocks[i].bytes;
    }
    return sum;
}

static uint64_t held_in(const struct nvs_usage *usage, uint64_t base, uint64_t end)
{
    uint64_t sum = 0;
    for (uint64_t at = nvs_plan_next_chunk(base - 1); at + NVS_CHUNK_BYTES <= end; at += NVS_CHUNK_BYTES)
        sum += nvs_usage_at(usage, at) & NVS_MARK_HELD ? NVS_CHUNK_BYTES : 0;
    return sum;
}

uint64_t nvs_working_set_ever(struct nvs_usage *usage, const struct nvs_block *blocks, size_t count, bool is_blind)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        struct nvs_block_use use = nvs_plan_look(usage, &blocks[i]);
        bool is_arena = !is_blind && use.is_used && !use.is_left_alone && !use.is_whole;
        uint64_t bytes = is_arena ? used_of_arena(usage, &blocks[i], UINT32_MAX) : blocks[i].bytes;
        sum += bytes - held_in(usage, blocks[i].base, blocks[i].base + bytes);
    }
    return sum;
}
