/* What was allocated: one probe finds an allocation's size and GPU, with ten or a million of them alive.
 *
 * A table is plain memory: the caller locks. It grows by doubling and never shrinks. */
#ifndef NVS_LEDGER_H
#define NVS_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a key names. Values of different kinds may be equal. */
enum nvs_kind {
    NVS_KIND_MEMORY = 1, /* an address from cuMemAlloc and its like */
    NVS_KIND_POOLED,     /* an address from a pool */
    NVS_KIND_ARRAY,
    NVS_KIND_MIPMAP,
    NVS_KIND_HANDLE,  /* cuMemCreate */
    NVS_KIND_MAPPING, /* cuMemMap */
    NVS_KIND_GRAPH_EXEC,
    NVS_KIND_BLOCK, /* what a handle stands for: lives until the last handle and mapping are gone */
};

struct nvs_entry {
    uint64_t key; /* 0: the place is empty */
    uint64_t bytes;
    uint64_t owner; /* the context, the pool or the handle it belongs to */
    uint16_t gpu;
    uint8_t kind;
    uint8_t swappable;
    uint32_t count; /* references to a handle */
};

struct nvs_table {
    struct nvs_entry *entries;
    size_t capacity, count;
};

/* Puts an entry in, over one of the same kind and key. False if there is no memory. */
bool nvs_table_put(struct nvs_table *table, const struct nvs_entry *entry);
struct nvs_entry *nvs_table_find(struct nvs_table *table, enum nvs_kind kind, uint64_t key);
/* Takes an entry out into *taken; false if it is not there. */
bool nvs_table_take(struct nvs_table *table, enum nvs_kind kind, uint64_t key, struct nvs_entry *taken);
/* Takes out every entry of `owner` and `kind`, handing each to `each`. */
void nvs_table_sweep(struct nvs_table *table, enum nvs_kind kind, uint64_t owner, void (*each)(const struct nvs_entry *, void *), void *argument);
void nvs_table_clear(struct nvs_table *table);
uint64_t nvs_ledger_hash(enum nvs_kind kind, uint64_t key);

#endif
