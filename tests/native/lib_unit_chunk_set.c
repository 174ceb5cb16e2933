/* What an instance of a graph uses, as a set of chunks. */
#include "lib_check.h"
#include "mover/chunk_set.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define BASE UINT64_C(0x7f0000000000)

static struct nvs_usage usage;

static unsigned flags_at(uint64_t address) { return nvs_usage_at(&usage, address) & NVS_MARK_FLAGS; }

static void only_managed_memory_is_kept(void)
{
    struct nvs_chunk_set set = {0};
    nvs_usage_allocated(&usage, BASE, 8 * MIB);
    CHECK(nvs_chunk_set_pointed(&set, &usage, 42));
    CHECK(nvs_chunk_set_pointed(&set, &usage, UINT64_MAX - 7));
    CHECK(nvs_chunk_set_pointed(&set, &usage, BASE - 1));
    CHECK(nvs_chunk_set_copied(&set, &usage, BASE + 16 * MIB, GIB));
    CHECK(nvs_chunk_set_copied(&set, &usage, BASE, 0));
    CHECK(nvs_chunk_set_copied(&set, &usage, UINT64_MAX - 7, 16));
    EQUAL(set.count, 0);
    CHECK(nvs_chunk_set_pointed(&set, &usage, BASE + 5));
    CHECK(nvs_chunk_set_pointed(&set, &usage, BASE + 6));
    CHECK(nvs_chunk_set_copied(&set, &usage, BASE, GIB)); /* the call is wrong: what is ours of it counts */
    EQUAL(set.count, 4);
    nvs_chunk_set_free(&set);
    nvs_usage_freed(&usage, BASE, 8 * MIB);
}

static void a_launch_marks_each_chunk_as_it_is_used(void)
{
    struct nvs_chunk_set set = {0}, more = {0};
    nvs_usage_allocated(&usage, BASE, 16 * MIB);
    CHECK(nvs_chunk_set_pointed(&set, &usage, BASE + 3 * MIB));
    CHECK(nvs_chunk_set_copied(&more, &usage, BASE + 3 * MIB, 2 * MIB));
    CHECK(nvs_chunk_set_merge(&set, &more));
    EQUAL(flags_at(BASE + 3 * MIB), NVS_MARK_MANAGED);
    nvs_chunk_set_mark(&set, &usage);
    EQUAL(flags_at(BASE), NVS_MARK_MANAGED);
    EQUAL(flags_at(BASE + 3 * MIB), NVS_MARK_MANAGED | NVS_MARK_POINTED | NVS_MARK_COPIED);
    EQUAL(flags_at(BASE + 4 * MIB), NVS_MARK_MANAGED | NVS_MARK_COPIED);
    nvs_usage_freed(&usage, BASE, 16 * MIB);
    nvs_chunk_set_mark(&set, &usage); /* the memory is gone: nothing is marked */
    EQUAL(flags_at(BASE + 3 * MIB), 0);
    nvs_chunk_set_free(&set);
    nvs_chunk_set_free(&more);
}

static void a_set_is_bounded(void)
{
    struct nvs_chunk_set set = {0};
    nvs_usage_allocated(&usage, BASE, 130 * GIB);
    CHECK(nvs_chunk_set_copied(&set, &usage, BASE, 128 * GIB));
    EQUAL(set.count, NVS_CHUNK_SET_MOST);
    CHECK(nvs_chunk_set_pointed(&set, &usage, BASE + 127 * GIB)); /* it is in the set */
    CHECK(!nvs_chunk_set_pointed(&set, &usage, BASE + 129 * GIB));
    CHECK(!nvs_chunk_set_copied(&set, &usage, BASE, 130 * GIB));
    EQUAL(set.count, NVS_CHUNK_SET_MOST);
    nvs_chunk_set_free(&set);
    nvs_usage_freed(&usage, BASE, 130 * GIB);
}

int main(void)
{
    if (!nvs_usage_setup(&usage))
        return 1;
    only_managed_memory_is_kept();
    a_launch_marks_each_chunk_as_it_is_used();
    a_set_is_bounded();
    return DONE();
}
