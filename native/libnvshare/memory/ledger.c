/* Open addressing with linear probing. Removing an entry moves later entries back instead of leaving tombstones, so a ledger stays as
 * fast as a new one after millions of allocations. */
#include "memory/ledger.h"

#include "base/platform.h"

enum { FIRST_CAPACITY = 16 }; /* a program with few allocations keeps its ledgers in the processor's first cache */

/* The entry of this kind and key, or the empty place where it belongs. There is always one: a ledger is never full. */
static struct nvs_ledger_entry *place_of(const struct nvs_ledger *ledger, uint64_t hash, enum nvs_kind kind, uint64_t key)
{
    for (size_t at = hash & (ledger->capacity - 1);; at = (at + 1) & (ledger->capacity - 1)) {
        struct nvs_ledger_entry *entry = &ledger->entries[at];
        if (!entry->key || (entry->key == key && entry->kind == kind))
            return entry;
    }
}

struct nvs_ledger_entry *nvs_ledger_find(struct nvs_ledger *ledger, uint64_t hash, enum nvs_kind kind, uint64_t key)
{
    struct nvs_ledger_entry *place = ledger->capacity && key ? place_of(ledger, hash, kind, key) : NULL;
    return place && place->key ? place : NULL;
}

static uint64_t hash_of(const struct nvs_ledger_entry *entry) { return nvs_ledger_hash(entry->kind, entry->key); }

static bool grow(struct nvs_ledger *ledger)
{
    struct nvs_ledger bigger = {.capacity = ledger->capacity ? ledger->capacity * 2 : FIRST_CAPACITY, .count = ledger->count};
    bigger.entries = nvs_pages(bigger.capacity * sizeof *bigger.entries);
    if (!bigger.entries)
        return false;
    for (const struct nvs_ledger_entry *entry = ledger->entries; entry < ledger->entries + ledger->capacity; entry++)
        if (entry->key)
            *place_of(&bigger, hash_of(entry), entry->kind, entry->key) = *entry;
    nvs_pages_free(ledger->entries, ledger->capacity * sizeof *ledger->entries);
    *ledger = bigger;
    return true;
}

bool nvs_ledger_replace(struct nvs_ledger *ledger, uint64_t hash, const struct nvs_ledger_entry *entry, struct nvs_ledger_entry *replaced)
{
    replaced->key = 0;
    bool has_room = ledger->count < ledger->capacity / 2 + ledger->capacity / 8;
    if (!entry->key)
        return false;
    struct nvs_ledger_entry *place = ledger->capacity ? place_of(ledger, hash, entry->kind, entry->key) : NULL;
    if (!place || !(place->key || has_room)) {
        if (!grow(ledger))
            return false;
        place = place_of(ledger, hash, entry->kind, entry->key);
    }
    ledger->count += !place->key;
    *replaced = *place;
    *place = *entry;
    return true;
}

static void take_at(struct nvs_ledger *ledger, size_t hole)
{
    size_t mask = ledger->capacity - 1;
    for (size_t at = (hole + 1) & mask; ledger->entries[at].key; at = (at + 1) & mask) {
        size_t wants = hash_of(&ledger->entries[at]) & mask;
        if (((at - wants) & mask) >= ((at - hole) & mask)) {
            ledger->entries[hole] = ledger->entries[at];
            hole = at;
        }
    }
    ledger->entries[hole].key = 0;
    ledger->count--;
}

bool nvs_ledger_take(struct nvs_ledger *ledger, uint64_t hash, enum nvs_kind kind, uint64_t key, struct nvs_ledger_entry *taken)
{
    struct nvs_ledger_entry *entry = nvs_ledger_find(ledger, hash, kind, key);
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
