/* The allocations and handles of the process, by address. */
#ifndef NVS_ENTRIES_H
#define NVS_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lookup/symbols.h"
#include "memory/ledger.h"

struct nvs_block;
struct nvs_gpu;

/* An entry of the same kind and key is stale: it is replaced, and its charge is returned. */
void nvs_entries_note(const struct nvs_ledger_entry *entry);
/* Notes the entry in place of the one with its kind and key; false if there was none. One thread gets each entry that was noted, and
 * returns its charge. */
bool nvs_entries_replace(const struct nvs_ledger_entry *entry, struct nvs_ledger_entry *replaced);
bool nvs_entries_take(enum nvs_kind kind, uint64_t key, struct nvs_ledger_entry *taken);
bool nvs_entries_find(enum nvs_kind kind, uint64_t key, struct nvs_ledger_entry *found);
/* An address, whether from a pool or not. */
static inline bool nvs_entries_find_address(uint64_t address, struct nvs_ledger_entry *found)
{
    return nvs_entries_find(NVS_KIND_MEMORY, address, found) || nvs_entries_find(NVS_KIND_POOLED, address, found);
}
/* Takes out all entries of a kind that belong to `owner`, without returning a charge. */
void nvs_entries_forget(enum nvs_kind kind, uint64_t owner);
/* The allocations on this GPU that can be moved; at most `most`. */
size_t nvs_entries_blocks(const struct nvs_gpu *gpu, struct nvs_block *blocks, size_t most);
/* Adds to a handle's references and returns what is left of them; at 0 the entry is taken out into *entry. -1 if there
 * is none. */
int nvs_entries_count(enum nvs_kind kind, uint64_t key, int change, struct nvs_ledger_entry *entry);
/* A context is gone and with it what was allocated in it. */
void nvs_entries_context_gone(CUcontext context);
void nvs_entries_forked(void);

#endif
