/* What the mover knows of the memory in use, and what it plans to move. */
#include "lib_check.h"
#include "mover/plan.h"
#include "mover/prefetch_effect.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define BASE UINT64_C(0x7f0000000000)

enum { MOST = 4096 };

static struct nvs_usage usage;
static struct nvs_slice slices[MOST];

static size_t plan(const struct nvs_block *blocks, size_t count, bool to_host, uint64_t most)
{
    return nvs_plan_move(&usage, blocks, count, to_host, most, slices, MOST);
}

static uint64_t sum(size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += slices[i].bytes;
    return bytes;
}

static struct nvs_block allocate(uint64_t at, uint64_t bytes)
{
    nvs_usage_allocated(&usage, at, bytes);
    return (struct nvs_block){at, bytes};
}

static void release(const struct nvs_block *block) { nvs_usage_freed(&usage, block->base, block->bytes); }

static void memory_that_was_never_used_is_not_moved(void)
{
    struct nvs_block block = allocate(BASE, 8 * GIB);
    EQUAL(plan(&block, 1, false, UINT64_MAX), 0);
    nvs_usage_copied(&usage, BASE + GIB, 512 * MIB);
    size_t count = plan(&block, 1, false, UINT64_MAX);
    EQUAL(sum(count), 512 * MIB);
    CHECK(slices[0].address == BASE + GIB && slices[0].bytes == NVS_SLICE_BYTES);
    release(&block);
    nvs_usage_allocated(&usage, BASE, 8 * GIB); /* the address again, for other memory */
    EQUAL(plan(&block, 1, false, UINT64_MAX), 0);
    release(&block);
}

static void a_small_allocation_counts_as_a_whole(void)
{
    struct nvs_block block = allocate(BASE, 100 * MIB);
    nvs_usage_pointed(&usage, BASE + 50 * MIB);
    EQUAL(sum(plan(&block, 1, false, UINT64_MAX)), 100 * MIB);
    release(&block);
}

static void a_large_one_is_one_array_unless_something_points_inside(void)
{
    struct nvs_block block = allocate(BASE, 4 * GIB);
    nvs_usage_pointed(&usage, BASE);
    EQUAL(sum(plan(&block, 1, false, UINT64_MAX)), 4 * GIB);
    nvs_usage_pointed(&usage, BASE + 3 * GIB);
    EQUAL(sum(plan(&block, 1, false, UINT64_MAX)), 2 * NVS_CHUNK_BYTES);
    release(&block);
}

static void of_one_array_its_begin_is_moved_first(void)
{
    struct nvs_block block = allocate(BASE, 4 * GIB);
    nvs_usage_pointed(&usage, BASE); /* how much of it is used is not known, but its begin is */
    EQUAL(sum(plan(&block, 1, true, GIB)), GIB);
    for (uint64_t i = 0; i < GIB / NVS_SLICE_BYTES; i++)
        EQUAL(slices[i].address, BASE + i * NVS_SLICE_BYTES);
    plan(&block, 1, false, GIB);
    EQUAL(slices[0].address, BASE);
    nvs_plan_hold(&usage, &block, 1, false, GIB, slices, MOST); /* what is held is accessed over the link: its end, perhaps never used */
    EQUAL(slices[0].address, BASE + 4 * GIB - NVS_SLICE_BYTES);
    release(&block);
}

static void a_copy_into_an_arena_says_that_its_begin_is_not_all_of_it(void)
{
    struct nvs_block block = allocate(BASE, 15 * GIB);
    nvs_usage_copied(&usage, BASE, 2 * GIB);
    nvs_usage_pointed(&usage, BASE);
    EQUAL(sum(plan(&block, 1, true, UINT64_MAX)), 2 * GIB);
    release(&block);
}

static void memory_that_the_program_advises_is_left_alone(void)
{
    struct nvs_block block = allocate(BASE, 64 * MIB);
    nvs_usage_copied(&usage, BASE, 64 * MIB);
    nvs_usage_left_alone(&usage, BASE + 10 * MIB, 1);
    EQUAL(plan(&block, 1, true, UINT64_MAX), 0);
    release(&block);
}

static void what_was_known_of_freed_memory_is_forgotten_in_its_last_chunk_too(void)
{
    struct nvs_block block = allocate(BASE, GIB + MIB); /* of its last chunk it has one half */
    nvs_usage_copied(&usage, BASE, GIB + MIB);
    nvs_usage_left_alone(&usage, BASE, GIB + MIB);
    release(&block);
    allocate(BASE, GIB + MIB);
    EQUAL(plan(&block, 1, true, UINT64_MAX), 0);
    nvs_usage_copied(&usage, BASE, 4 * MIB);
    EQUAL(sum(plan(&block, 1, true, UINT64_MAX)), 4 * MIB);
    release(&block);
}

static void a_chunk_keeps_its_marks_while_one_of_its_allocations_is_there(void)
{
    struct nvs_block first = allocate(BASE, MIB), second = allocate(BASE + MIB, 4 * MIB);
    nvs_usage_copied(&usage, BASE + MIB, 4 * MIB);
    release(&first);
    EQUAL(sum(plan(&second, 1, true, UINT64_MAX)), 4 * MIB);
    allocate(BASE, MIB);
    EQUAL(sum(plan(&second, 1, true, UINT64_MAX)), 4 * MIB);
    release(&first);
    release(&second);
    allocate(BASE + MIB, 4 * MIB);
    EQUAL(plan(&second, 1, true, UINT64_MAX), 0);
    release(&second);
}

static void addresses_that_are_not_ours_are_ignored(void)
{
    struct nvs_block block = {BASE, 64 * MIB};
    nvs_usage_copied(&usage, BASE, 64 * MIB);
    nvs_usage_pointed(&usage, BASE);
    nvs_usage_pointed(&usage, UINT64_MAX);
    nvs_usage_copied(&usage, UINT64_MAX - 10, 100);
    nvs_usage_copied(&usage, 0, 100);
    EQUAL(plan(&block, 1, false, UINT64_MAX), 0);
}

static void the_order_is_by_use(void)
{
    struct nvs_block blocks[3];
    for (uint64_t i = 0; i < 3; i++) {
        nvs_usage_next_stamp(&usage);
        blocks[i] = allocate(BASE + i * GIB, 32 * MIB);
        nvs_usage_copied(&usage, blocks[i].base, 32 * MIB);
    }
    EQUAL(plan(blocks, 3, true, UINT64_MAX), 3);
    CHECK(slices[0].address == blocks[0].base && slices[2].address == blocks[2].base);
    EQUAL(plan(blocks, 3, false, UINT64_MAX), 3);
    CHECK(slices[0].address == blocks[2].base && slices[2].address == blocks[0].base);
    nvs_usage_moved(&usage, blocks[0].base, 32 * MIB, true);
    EQUAL(plan(blocks, 3, false, UINT64_MAX), 3); /* what we moved out comes in first */
    CHECK(slices[0].address == blocks[0].base && slices[0].is_away && !slices[1].is_away);
    EQUAL(plan(blocks, 3, true, UINT64_MAX), 3); /* and goes out last */
    CHECK(slices[2].address == blocks[0].base);
    nvs_usage_moved(&usage, blocks[0].base, 32 * MIB, false);
    plan(blocks, 3, true, UINT64_MAX);
    CHECK(slices[0].address == blocks[0].base);
    for (int i = 0; i < 3; i++)
        release(&blocks[i]);
}

static void no_more_is_moved_than_was_asked_for(void)
{
    struct nvs_block block = allocate(BASE + 5, GIB);
    nvs_usage_copied(&usage, block.base, GIB);
    EQUAL(sum(plan(&block, 1, true, 100 * MIB)), 100 * MIB);
    EQUAL(plan(&block, 1, true, 0), 0);
    EQUAL(nvs_plan_move(&usage, &block, 1, false, UINT64_MAX, slices, 3), 3);
    size_t count = plan(&block, 1, false, UINT64_MAX);
    EQUAL(sum(count), GIB);
    for (size_t i = 0; i < count; i++)
        CHECK(slices[i].bytes <= NVS_SLICE_BYTES && slices[i].address >= block.base &&
              slices[i].address + slices[i].bytes <= block.base + block.bytes && slices[i].base == block.base);
    release(&block);
}

static void what_has_no_room_in_the_plan_is_what_would_come_last(void)
{
    enum { CHUNKS = 512, ROOM = 64, SURE = ROOM / 4 * 3 };
    struct nvs_block block = allocate(BASE, CHUNKS * NVS_CHUNK_BYTES);
    for (uint64_t i = CHUNKS; i-- > 0; nvs_usage_next_stamp(&usage)) /* the higher, the older */
        nvs_usage_copied(&usage, BASE + i * NVS_CHUNK_BYTES, 1);
    CHECK(nvs_plan_move(&usage, &block, 1, true, UINT64_MAX, slices, ROOM) >= SURE);
    for (uint64_t i = 0; i < SURE; i++)
        EQUAL(slices[i].address, BASE + (CHUNKS - 1 - i) * NVS_CHUNK_BYTES);
    CHECK(nvs_plan_move(&usage, &block, 1, false, UINT64_MAX, slices, ROOM) >= SURE);
    for (uint64_t i = 0; i < SURE; i++)
        EQUAL(slices[i].address, BASE + i * NVS_CHUNK_BYTES);
    CHECK(nvs_plan_hold(&usage, &block, 1, false, GIB, slices, ROOM) >= SURE);
    for (uint64_t i = 0; i < SURE; i++)
        EQUAL(slices[i].address, BASE + (CHUNKS - 1 - i) * NVS_CHUNK_BYTES);
    release(&block);
}

static uint64_t hold(const struct nvs_block *blocks, size_t count, bool is_back, uint64_t bytes)
{
    size_t made = nvs_plan_hold(&usage, blocks, count, is_back, bytes, slices, MOST);
    for (size_t i = 0; i < made; i++)
        nvs_usage_held(&usage, slices[i].address, slices[i].bytes, !is_back);
    return sum(made);
}

static void what_is_held_is_the_coldest_and_is_not_moved(void)
{
    struct nvs_block blocks[] = {allocate(BASE, 64 * MIB), allocate(BASE + GIB, 64 * MIB), allocate(BASE + 2 * GIB, 64 * MIB)};
    nvs_usage_copied(&usage, blocks[0].base, 64 * MIB);
    nvs_usage_next_stamp(&usage);
    nvs_usage_copied(&usage, blocks[1].base, 64 * MIB);
    EQUAL(hold(blocks, 3, false, 65 * MIB), 66 * MIB); /* never used: all of it; then of the oldest, in whole chunks */
    CHECK(slices[0].base == blocks[2].base && slices[0].is_unused);
    CHECK(slices[1].base == blocks[0].base && !slices[1].is_unused && slices[1].bytes == 2 * MIB);
    EQUAL(nvs_plan_held(&usage, blocks, 3), 66 * MIB);
    EQUAL(sum(plan(blocks, 3, false, UINT64_MAX)), 126 * MIB);
    EQUAL(sum(plan(blocks, 3, true, UINT64_MAX)), 126 * MIB);
    EQUAL(hold(blocks, 3, true, 3 * MIB), 2 * MIB); /* no more than may be let go, the youngest first */
    CHECK(slices[0].base == blocks[0].base);
    release(&blocks[2]);
    EQUAL(nvs_plan_held(&usage, blocks, 3), 0);
    release(&blocks[0]);
    release(&blocks[1]);
}

static void parts_of_chunks_and_what_the_program_advises_are_not_held(void)
{
    struct nvs_block block = allocate(BASE + MIB, 4 * MIB), small = allocate(BASE + GIB, MIB), own = allocate(BASE + 2 * GIB, 8 * MIB);
    EQUAL(hold(&block, 1, false, 4 * MIB), 2 * MIB);
    CHECK(slices[0].address == BASE + 2 * MIB);
    EQUAL(hold(&small, 1, false, MIB), 0);
    nvs_usage_left_alone(&usage, own.base, 8 * MIB);
    EQUAL(hold(&own, 1, false, 8 * MIB), 0);
    release(&block);
    release(&small);
    release(&own);
}

static void if_launches_are_not_seen_unused_memory_may_be_in_use(void)
{
    struct nvs_block block = allocate(BASE, 8 * MIB);
    nvs_usage_blind(&usage);
    EQUAL(hold(&block, 1, false, 8 * MIB), 8 * MIB);
    CHECK(!slices[0].is_unused);
    release(&block);
}

static void prefetches_are_off_after_several_moves_in_a_row_that_took_no_time(void)
{
    struct nvs_prefetch_effect effect = {0};
    for (int i = 0; i < 3 * NVS_EMPTY_MOVES; i++) /* now and again memory was not where we thought */
        CHECK(!nvs_prefetch_effect_moved(&effect, i, GIB, i % NVS_EMPTY_MOVES ? 0 : GIB / 2));
    CHECK(!nvs_prefetch_effect_moved(&effect, 20, GIB, GIB));
    for (int i = 0; i < 100; i++)
        CHECK(!nvs_prefetch_effect_moved(&effect, 20, MIB, 0)); /* too little to tell */
    for (int i = 1; i <= NVS_EMPTY_MOVES; i++)
        EQUAL(nvs_prefetch_effect_moved(&effect, 21, GIB, 0), i == NVS_EMPTY_MOVES);
    CHECK(nvs_prefetch_effect_is_off(&effect, 22) && !nvs_prefetch_effect_is_off(&effect, 21 + NVS_NO_EFFECT_NS));
    EQUAL(nvs_prefetch_effect_moved(&effect, 21 + NVS_NO_EFFECT_NS, GIB, 0), false); /* it begins again */
}

static void a_move_over_the_fastest_link_counts_as_a_move(void)
{
    EQUAL(nvs_prefetch_effect_took(64 * MIB, 5.4, 0.01), NVS_TOOK_TIME);     /* PCIe 3: 12 GB/s */
    EQUAL(nvs_prefetch_effect_took(64 * MIB, 0.15, 0.01), NVS_TOOK_TIME);    /* NVLink-C2C: 450 GB/s */
    EQUAL(nvs_prefetch_effect_took(64 * MIB, 0.01, 0.01), NVS_TOOK_NO_TIME); /* the calls alone */
    EQUAL(nvs_prefetch_effect_took(64 * MIB, 0, 0.01), NVS_TOOK_NO_TIME);
    EQUAL(nvs_prefetch_effect_took(64 * MIB, 0.3, 0.3), NVS_TOOK_NO_TIME);   /* our thread was delayed between the calls */
    EQUAL(nvs_prefetch_effect_took(64 * MIB, 5.4, 5.4), NVS_TOOK_UNKNOWN);   /* for long, or the driver moved it before the call returned */
    CHECK(nvs_prefetch_effect_was_slow(64 * MIB, 1.2));                      /* PCIe 5 */
    CHECK(!nvs_prefetch_effect_was_slow(64 * MIB, 0.15));                    /* it may have been there */
}

int main(void)
{
    if (!nvs_usage_setup(&usage))
        return 1;
    memory_that_was_never_used_is_not_moved();
    a_small_allocation_counts_as_a_whole();
    a_large_one_is_one_array_unless_something_points_inside();
    of_one_array_its_begin_is_moved_first();
    a_copy_into_an_arena_says_that_its_begin_is_not_all_of_it();
    memory_that_the_program_advises_is_left_alone();
    what_was_known_of_freed_memory_is_forgotten_in_its_last_chunk_too();
    a_chunk_keeps_its_marks_while_one_of_its_allocations_is_there();
    addresses_that_are_not_ours_are_ignored();
    the_order_is_by_use();
    no_more_is_moved_than_was_asked_for();
    what_has_no_room_in_the_plan_is_what_would_come_last();
    what_is_held_is_the_coldest_and_is_not_moved();
    parts_of_chunks_and_what_the_program_advises_are_not_held();
    if_launches_are_not_seen_unused_memory_may_be_in_use();
    prefetches_are_off_after_several_moves_in_a_row_that_took_no_time();
    a_move_over_the_fastest_link_counts_as_a_move();
    return DONE();
}
