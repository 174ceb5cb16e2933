/* Allocations whose address the driver has given away before their end is noted (memory/entries.c): the context that they were in is
 * being destroyed. */
#include "memory/entries.c"

#include "lib_check.h"

#define BASE (16 * NVS_CHUNK_BYTES)
#define BYTES (NVS_CHUNK_BYTES + NVS_CHUNK_BYTES / 2)
#define DYING ((CUcontext)0x10)
#define OTHER ((CUcontext)0x20)

struct nvs_usage nvs_evidence;
static uint64_t returned;

void nvs_lock_take(struct nvs_lock *lock) { CHECK(lock->word++ == 0); }
void nvs_lock_give(struct nvs_lock *lock) { lock->word--; }
void nvs_lock_reset(struct nvs_lock *lock) { lock->word = 0; }
void nvs_memory_return_entry(const struct nvs_ledger_entry *entry) { returned += entry->bytes; }

static struct nvs_ledger_entry entry_of(CUcontext context, uint64_t base, uint64_t bytes)
{
    return (struct nvs_ledger_entry){.key = base, .bytes = bytes, .owner = (uintptr_t)context, .kind = NVS_KIND_MEMORY, .swappable = true};
}

static void note(CUcontext context, uint64_t base, uint64_t bytes)
{
    struct nvs_ledger_entry entry = entry_of(context, base, bytes);
    nvs_entries_note(&entry);
}

static bool is_managed(uint64_t address) { return nvs_usage_at(&nvs_evidence, address) & NVS_MARK_MANAGED; }

static void begin(void)
{
    nvs_entries_forked();
    returned = 0;
}

static void the_charge_of_a_stale_entry_is_returned_once(void)
{
    begin();
    note(DYING, BASE, BYTES);
    note(OTHER, BASE, 3 * BYTES);
    EQUAL(returned, BYTES);
    nvs_entries_context_gone(DYING);
    EQUAL(returned, BYTES);
    nvs_entries_context_gone(OTHER);
    EQUAL(returned, 4 * BYTES);
}

/* The second chunk is shared with an allocation of other threads. */
static void the_marks_of_a_stale_entry_end_with_it(void)
{
    struct nvs_ledger_entry taken;
    begin();
    note(DYING, BASE, BYTES);
    note(OTHER, BASE, BYTES);
    CHECK(is_managed(BASE) && is_managed(BASE + NVS_CHUNK_BYTES));
    CHECK(nvs_entries_take(NVS_KIND_MEMORY, BASE, &taken));
    EQUAL(taken.owner, (uintptr_t)OTHER);
    CHECK(!is_managed(BASE) && !is_managed(BASE + NVS_CHUNK_BYTES));
}

static void a_new_allocation_keeps_its_marks_whatever_its_size(void)
{
    static const uint64_t sizes[] = {1 << 20, NVS_CHUNK_BYTES, BYTES, 4 * NVS_CHUNK_BYTES};
    struct nvs_ledger_entry taken;
    for (int i = 0; i < 16; i++) {
        uint64_t bytes = sizes[i % 4];
        begin();
        note(DYING, BASE, sizes[i / 4]);
        note(OTHER, BASE, bytes);
        nvs_entries_context_gone(DYING);
        CHECK(is_managed(BASE) && is_managed(BASE + bytes - 1));
        CHECK(nvs_entries_take(NVS_KIND_MEMORY, BASE, &taken));
        for (uint64_t at = BASE; at < BASE + 4 * NVS_CHUNK_BYTES; at += NVS_CHUNK_BYTES)
            CHECK(!is_managed(at));
    }
}

/* A kernel is asked for many times, and a mapping has the bytes of its block, which is charged. */
static void what_is_not_charged_is_not_returned(void)
{
    static const enum nvs_kind kinds[] = {NVS_KIND_POOLED, NVS_KIND_HANDLE, NVS_KIND_MAPPING, NVS_KIND_KERNEL};
    begin();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int times = 0; times < 2; times++)
            nvs_entries_note(&(struct nvs_ledger_entry){.key = BASE, .bytes = BYTES, .kind = (uint8_t)kinds[i]});
    EQUAL(returned, 0);
}

int main(void)
{
    CHECK(nvs_usage_setup(&nvs_evidence));
    the_charge_of_a_stale_entry_is_returned_once();
    the_marks_of_a_stale_entry_end_with_it();
    a_new_allocation_keeps_its_marks_whatever_its_size();
    what_is_not_charged_is_not_returned();
    return DONE();
}
