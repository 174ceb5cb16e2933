/* What the library knows of the memory that a program works with, and of how its work goes on. */
#include "gate/sampling.h"
#include "gate/slowness.h"
#include "lib_check.h"
#include "mover/working_set.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define MS INT64_C(1000000)
#define BASE UINT64_C(0x7f0000000000)

static struct nvs_usage usage;

static struct nvs_block allocate(uint64_t at, uint64_t bytes)
{
    nvs_usage_allocated(&usage, at, bytes);
    return (struct nvs_block){at, bytes};
}

static uint64_t used(const struct nvs_block *block) { return nvs_working_set(&usage, block, 1); }

static void release(const struct nvs_block *block) { nvs_usage_freed(&usage, block->base, block->bytes); }

static void let_stamps_pass(uint32_t stamps)
{
    for (uint32_t i = 0; i < stamps; i++)
        nvs_usage_next_stamp(&usage);
}

static void an_allocation_without_evidence_counts_in_full(void)
{
    struct nvs_block blocks[] = {allocate(BASE, 100 * MIB), allocate(BASE + GIB, 4 * GIB)};
    let_stamps_pass(NVS_LATELY + 1);
    EQUAL(nvs_working_set(&usage, blocks, 2), 4 * GIB + 100 * MIB);
    release(&blocks[0]);
    release(&blocks[1]);
}

static void an_array_counts_until_it_is_not_used_for_long(void)
{
    struct nvs_block small = allocate(BASE, 100 * MIB), large = allocate(BASE + GIB, 4 * GIB);
    nvs_usage_pointed(&usage, small.base + 50 * MIB);
    nvs_usage_pointed(&usage, large.base);
    let_stamps_pass(NVS_LATELY);
    EQUAL(used(&small), 100 * MIB);
    EQUAL(used(&large), 4 * GIB);
    let_stamps_pass(1);
    EQUAL(used(&small), 0);
    EQUAL(used(&large), 0);
    release(&small);
    release(&large);
}

static void of_an_arena_counts_what_is_below_the_last_array_in_use(void)
{
    struct nvs_block block = allocate(BASE, 12 * GIB);
    nvs_usage_copied(&usage, BASE, 2 * GIB);
    EQUAL(used(&block), 2 * GIB);
    for (uint64_t i = 8; i < 12; i++)
        nvs_usage_pointed(&usage, BASE + i * 256 * MIB);
    EQUAL(used(&block), 3 * GIB); /* the last array is as long as the others */
    nvs_usage_pointed(&usage, BASE + 6 * GIB);
    EQUAL(used(&block), 6 * GIB + 2 * MIB + 3 * GIB + 254 * MIB);
    let_stamps_pass(NVS_LATELY + 1);
    nvs_usage_pointed(&usage, BASE + 8 * 256 * MIB);
    EQUAL(used(&block), 9 * 256 * MIB); /* where the next one begins that was ever used */
    release(&block);
}

static void an_array_that_was_filled_is_as_long_as_that(void)
{
    struct nvs_block block = allocate(BASE, 12 * GIB);
    nvs_usage_copied(&usage, BASE, 2 * GIB);
    let_stamps_pass(NVS_LATELY + 1);
    EQUAL(used(&block), 0);
    nvs_usage_pointed(&usage, BASE);
    EQUAL(used(&block), 2 * GIB);
    release(&block);
}

static void memory_that_the_program_advises_counts_in_full(void)
{
    struct nvs_block block = allocate(BASE, 12 * GIB);
    nvs_usage_left_alone(&usage, BASE, 1);
    let_stamps_pass(NVS_LATELY + 1);
    EQUAL(used(&block), 12 * GIB);
    release(&block);
}

static void what_is_old_stays_old_when_the_stamps_start_over(void)
{
    struct nvs_block block = allocate(BASE, 12 * GIB);
    nvs_usage_copied(&usage, BASE, 2 * GIB);
    for (int i = 0; i < 4; i++) {
        let_stamps_pass(NVS_MARK_STAMPS / 2);
        EQUAL(used(&block), 0);
    }
    release(&block);
}

static void a_launch_of_which_nothing_is_known_is_remembered_for_a_while(void)
{
    CHECK(!nvs_usage_is_blind(&usage, NVS_LATELY));
    nvs_usage_blind(&usage);
    let_stamps_pass(NVS_LATELY);
    CHECK(nvs_usage_is_blind(&usage, NVS_LATELY));
    let_stamps_pass(1);
    CHECK(!nvs_usage_is_blind(&usage, NVS_LATELY));
}

/* How many of `launches`, one every `each_ns`, are looked at. */
static unsigned looks_at(struct nvs_sampling *sampling, int64_t *now, int64_t each_ns, unsigned launches)
{
    unsigned looks = 0;
    for (unsigned i = 0; i < launches; i++, *now += each_ns)
        if (nvs_sampling_is_due(sampling)) {
            nvs_sampling_looked(sampling, *now);
            looks++;
        } else {
            nvs_sampling_passed(sampling);
        }
    return looks;
}

static void launches_are_looked_at_by_time(void)
{
    struct nvs_sampling sampling = {0};
    int64_t now = MS;
    EQUAL(looks_at(&sampling, &now, 10 * MS, 10), 10); /* slow ones all */
    unsigned fast = looks_at(&sampling, &now, 10, 1000000);
    CHECK(fast >= 1000000 / NVS_SAMPLING_MOST && fast < 1100000 / NVS_SAMPLING_MOST);
    looks_at(&sampling, &now, MS / 100, 10000);
    unsigned medium = looks_at(&sampling, &now, MS / 100, 10000); /* in 100 ms */
    CHECK(medium >= 90 && medium <= 110);
    looks_at(&sampling, &now, 10 * MS, 2 * NVS_SAMPLING_MOST);
    EQUAL(looks_at(&sampling, &now, 10 * MS, 10), 10);
}

static uint32_t slowness(struct nvs_slowness *watched, int64_t *now, uint32_t turn, int64_t took_ns)
{
    *now += took_ns;
    return nvs_slowness_note(watched, *now, turn, 10);
}

static void work_that_takes_many_times_its_usual_time_is_noticed(void)
{
    struct nvs_slowness watched = {0};
    int64_t now = 1000 * MS;
    for (int i = 0; i < 40; i++)
        EQUAL(slowness(&watched, &now, 1, 200 * MS), 0);
    EQUAL(slowness(&watched, &now, 1, 700 * MS), 0); /* three times, not four */
    EQUAL(slowness(&watched, &now, 1, 60000 * MS), 0); /* a single pause */
    for (int i = 0; i < 80; i++)
        EQUAL(slowness(&watched, &now, 1, 200 * MS), 0);
    EQUAL(slowness(&watched, &now, 1, 4000 * MS), 0);
    EQUAL(slowness(&watched, &now, 1, 4000 * MS), 0);
    uint32_t found = slowness(&watched, &now, 1, 4000 * MS);
    CHECK(found >= 8 && found <= 20);
    EQUAL(slowness(&watched, &now, 2, 600000 * MS), 0); /* a time without a turn */
    EQUAL(slowness(&watched, &now, 2, 300 * MS), 0);
}

static void one_submission_that_takes_seconds_is_a_sample(void)
{
    struct nvs_slowness watched = {0};
    int64_t now = 1000 * MS;
    for (int i = 0; i < 100000; i++, now += MS / 10)
        nvs_slowness_note(&watched, now, 1, 1);
    uint32_t found = 0;
    for (int i = 0; i < 4; i++) /* the first one may end a sample that began before */
        found = nvs_slowness_note(&watched, now += 1000 * MS, 1, 1);
    CHECK(found > 100);
}

static void work_that_has_grown_becomes_usual(void)
{
    struct nvs_slowness watched = {0};
    int64_t now = 1000 * MS;
    int samples = 0;
    for (int i = 0; i < 20; i++)
        slowness(&watched, &now, 1, 300 * MS);
    while (samples < 1000 && (slowness(&watched, &now, 1, 3000 * MS) || samples < 3))
        samples++;
    CHECK(samples >= 10 && samples <= 13); /* of 3 s each */
}

int main(void)
{
    if (!nvs_usage_setup(&usage))
        return 1;
    an_allocation_without_evidence_counts_in_full();
    an_array_counts_until_it_is_not_used_for_long();
    of_an_arena_counts_what_is_below_the_last_array_in_use();
    an_array_that_was_filled_is_as_long_as_that();
    memory_that_the_program_advises_counts_in_full();
    what_is_old_stays_old_when_the_stamps_start_over();
    a_launch_of_which_nothing_is_known_is_remembered_for_a_while();
    launches_are_looked_at_by_time();
    work_that_takes_many_times_its_usual_time_is_noticed();
    one_submission_that_takes_seconds_is_a_sample();
    work_that_has_grown_becomes_usual();
    return DONE();
}
