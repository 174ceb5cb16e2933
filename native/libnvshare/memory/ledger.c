/* Open addressing with linear probing. Removing an entry moves later entries back instead of leaving tombstones, so a ledger stays as
 * fast as a new one after millions of allocations. */
#include "memory/ledger.h"

#include "base/platform.h"

enum { FIRST_CAPACITY = 64 };

uint64_t nvs_ledger_hash(enum nvs_kind kind, uint64_t key)
{
    /* Addresses differ in few, regular bits: they need mixing twice before low and high bits are both good. */
    uint64_t hash = (key ^ (uint64_t)kind << 58) * UINT64_C(0x9E3779B97F4A7C15);
    hash = (hash ^ hash >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return hash ^ hash >> 32;
}

static size_t home(const struct nvs_ledger *ledger, enum nvs_kind kind, uint64_t key)
{
    return nvs_ledger_hash(kind, key) & (ledger->capacity - 1);
}

struct nvs_ledger_entry *nvs_ledger_find(struct nvs_ledger *ledger, enum nvs_kind kind, uint64_t key)
{
    if (!ledger->capacity || !key)
        return NULL;
    for (size_t at = home(ledger, kind, key);; at = (at + 1) & (ledger->capacity - 1)) {
        struct nvs_ledger_entry *entry = &ledger->entries[at];
        if (!entry->key)
            return NULL;
        if (entry->key == key && entry->kind == kind)
            return entry;
    }
}

static void place(struct nvs_ledger *ledger, const struct nvs_ledger_entry *entry)
{
    size_t at = home(ledger, entry->kind, entry->key);
    while (ledger->entries[at].key)
        at = (at + 1) & (ledger->capacity - 1);
    ledger->entries[at] = *entry;
}

static bool grow(struct nvs_ledger *ledger)
{
    struct nvs_ledger bigger = {.capacity = ledger->capacity ? ledger->capacity * 2 : FIRST_CAPACITY, .count = ledger->count};
    bigger.entries = nvs_pages(bigger.capacity * sizeof *bigger.entries);
    if (!bigger.entries)
        return false;
    for (size_t i = 0; i < ledger->capacity; i++)
        if (ledger->entries[i].key)
            place(&bigger, &ledger->entries[i]);
    nvs_pages_free(ledger->entries, ledger->capacity * sizeof *ledger->entries);
    *ledger = bigger;
    return true;
}

bool nvs_ledger_put(struct nvs_ledger *ledger, const struct nvs_ledger_entry *entry)
{
    struct nvs_ledger_entry *old = nvs_ledger_find(ledger, entry->kind, entry->key);
    if (old) {
        *old = *entry;
        return true;
    }
    if (!entry->key || (ledger->count >= ledger->capacity / 2 + ledger->capacity / 8 && !grow(ledger)))
        return false;
    place(ledger, entry);
    ledger->count++;
    return true;
}

static void take_at(struct nvs_ledger *ledger, size_t hole)
{
    size_t mask = ledger->capacity - 1;
    for (size_t at = (hole + 1) & mask; ledger->entries[at].key; at = (at + 1) & mask) {
        size_t wants = home(ledger, ledger->entries[at].kind, ledger->entries[at].key);
        if (((at - wants) & mask) >= ((at - hole) & mask)) {
            ledger->entries[hole] = ledger->entries[at];
            hole = at;
        }
    }
    ledger->entries[hole].key = 0;
    ledger->count--;
}

bool nvs_ledger_take(struct nvs_ledger *ledger, enum nvs_kind kind, uint64_t key, struct nvs_ledger_entry *taken)
{
    struct nvs_ledger_entry *entry = nvs_ledger_find(ledger, kind, key);
    if (!entry)
        return false;
    *taken = *entry;
    take_at(ledger, (size_t)(entry - ledger->entries));
    return true;
}

void nvs_ledger_sweep(struct nvs_ledger *ledger, enum nvs_kind kind, uint64_t owner, void (*each)(const struct nvs_ledger_entry *, void *), void *argument)
{
    for (size_t at = 0; at < ledger->capacity;) {
        struct nvs_ledger_entry entry = ledger->entries[at];
        if (!entry.key || entry.kind != kind || entry.owner != owner) {
            at++;
            continue;
        }
        take_at(ledger, at); /* may move another entry to this place: look at it again */
        each(&entry, argument);
    }
}
