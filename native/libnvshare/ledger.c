/* Open addressing with linear probing; taking out moves later entries back instead of leaving tombstones, so a table
 * through which millions of allocations pass stays as quick as a fresh one. */
#include "ledger.h"

#include "platform.h"

enum { FIRST_CAPACITY = 64 };

uint64_t nvs_ledger_hash(enum nvs_kind kind, uint64_t key)
{
    /* Addresses differ in few, regular bits: they need mixing twice before low and high bits are both good. */
    uint64_t hash = (key ^ (uint64_t)kind << 58) * UINT64_C(0x9E3779B97F4A7C15);
    hash = (hash ^ hash >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return hash ^ hash >> 32;
}

static size_t home(const struct nvs_table *table, enum nvs_kind kind, uint64_t key)
{
    return nvs_ledger_hash(kind, key) & (table->capacity - 1);
}

struct nvs_entry *nvs_table_find(struct nvs_table *table, enum nvs_kind kind, uint64_t key)
{
    if (!table->capacity || !key)
        return NULL;
    for (size_t at = home(table, kind, key);; at = (at + 1) & (table->capacity - 1)) {
        struct nvs_entry *entry = &table->entries[at];
        if (!entry->key)
            return NULL;
        if (entry->key == key && entry->kind == kind)
            return entry;
    }
}

static void place(struct nvs_table *table, const struct nvs_entry *entry)
{
    size_t at = home(table, entry->kind, entry->key);
    while (table->entries[at].key)
        at = (at + 1) & (table->capacity - 1);
    table->entries[at] = *entry;
}

static bool grow(struct nvs_table *table)
{
    struct nvs_table bigger = {.capacity = table->capacity ? table->capacity * 2 : FIRST_CAPACITY, .count = table->count};
    bigger.entries = nvs_pages(bigger.capacity * sizeof *bigger.entries);
    if (!bigger.entries)
        return false;
    for (size_t i = 0; i < table->capacity; i++)
        if (table->entries[i].key)
            place(&bigger, &table->entries[i]);
    nvs_pages_free(table->entries, table->capacity * sizeof *table->entries);
    *table = bigger;
    return true;
}

bool nvs_table_put(struct nvs_table *table, const struct nvs_entry *entry)
{
    struct nvs_entry *old = nvs_table_find(table, entry->kind, entry->key);
    if (old) {
        *old = *entry;
        return true;
    }
    if (!entry->key || (table->count >= table->capacity / 2 + table->capacity / 8 && !grow(table)))
        return false;
    place(table, entry);
    table->count++;
    return true;
}

static void take_at(struct nvs_table *table, size_t hole)
{
    size_t mask = table->capacity - 1;
    for (size_t at = (hole + 1) & mask; table->entries[at].key; at = (at + 1) & mask) {
        size_t wants = home(table, table->entries[at].kind, table->entries[at].key);
        if (((at - wants) & mask) >= ((at - hole) & mask)) {
            table->entries[hole] = table->entries[at];
            hole = at;
        }
    }
    table->entries[hole].key = 0;
    table->count--;
}

bool nvs_table_take(struct nvs_table *table, enum nvs_kind kind, uint64_t key, struct nvs_entry *taken)
{
    struct nvs_entry *entry = nvs_table_find(table, kind, key);
    if (!entry)
        return false;
    *taken = *entry;
    take_at(table, (size_t)(entry - table->entries));
    return true;
}

void nvs_table_sweep(struct nvs_table *table, enum nvs_kind kind, uint64_t owner, void (*each)(const struct nvs_entry *, void *), void *argument)
{
    for (size_t at = 0; at < table->capacity;) {
        struct nvs_entry entry = table->entries[at];
        if (!entry.key || entry.kind != kind || entry.owner != owner) {
            at++;
            continue;
        }
        take_at(table, at); /* may bring another one here: look at this place again */
        each(&entry, argument);
    }
}

void nvs_table_clear(struct nvs_table *table)
{
    nvs_pages_free(table->entries, table->capacity * sizeof *table->entries);
    *table = (struct nvs_table){0};
}
