/* What was allocated: one probe finds an allocation's size and GPU, with ten or a million of them alive.
 *
 * A ledger is plain memory: the caller locks it. It grows by doubling and never shrinks. */
#ifndef NVS_LEDGER_H
#define NVS_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a key names. Values of different kinds may be equal. */
enum nvs_kind {
    NVS_KIND_MEMORY = 1, /* an address from cuMemAlloc and similar calls */
    NVS_KIND_POOLED,     /* an address from a pool */
    NVS_KIND_ARRAY,
    NVS_KIND_MIPMAP,
    NVS_KIND_HANDLE,  /* cuMemCreate */
    NVS_KIND_MAPPING, /* cuMemMap */
    NVS_KIND_GRAPH_EXEC,
    NVS_KIND_HEAP,  /* of a context: what cuCtxSetLimit takes of the card */
    NVS_KIND_STACK,
    NVS_KIND_KERNEL, /* a CUkernel; takes no memory. Its owner is the library */
    NVS_KIND_BLOCK, /* the memory behind a handle: lives until the last handle and mapping are gone */
};

struct nvs_ledger_entry {
    uint64_t key; /* 0: the place is empty */
    uint64_t bytes;
    uint64_t owner; /* the context, the pool or the handle it belongs to */
    uint16_t gpu;
    uint8_t kind;
    bool swappable : 1;
    bool is_converted : 1; /* the program asked for device memory and got managed memory */
    bool is_small : 1;     /* counted in nvs_gpu.small_bytes */
    uint32_t count; /* references to a handle */
};

struct nvs_ledger {
    struct nvs_ledger_entry *entries;
    size_t capacity, count;
};

/* Addresses differ in few, regular bits: they need mixing twice before low and high bits are both good. */
static inline uint64_t nvs_ledger_hash(enum nvs_kind kind, uint64_t key)
{
    uint64_t hash = (key ^ (uint64_t)kind << 58) * UINT64_C(0x9E3779B97F4A7C15);
    hash = (hash ^ hash >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return hash ^ hash >> 32;
}

/* `hash` is nvs_ledger_hash of kind and key. The caller has computed it already, to choose the ledger. */

/* Puts an entry in, over one of the same kind and key: *replaced, whose key is 0 if there was none. False if there is no memory. */
bool nvs_ledger_replace(struct nvs_ledger *ledger, uint64_t hash, const struct nvs_ledger_entry *entry, struct nvs_ledger_entry *replaced);
static inline bool nvs_ledger_put(struct nvs_ledger *ledger, uint64_t hash, const struct nvs_ledger_entry *entry)
{
    struct nvs_ledger_entry replaced;
    return nvs_ledger_replace(ledger, hash, entry, &replaced);
}
struct nvs_ledger_entry *nvs_ledger_find(struct nvs_ledger *ledger, uint64_t hash, enum nvs_kind kind, uint64_t key);
/* Takes an entry out into *taken; false if it is not there. */
bool nvs_ledger_take(struct nvs_ledger *ledger, uint64_t hash, enum nvs_kind kind, uint64_t key, struct nvs_ledger_entry *taken);
/* Takes out every entry of `owner` and `kind`, handing each to `each`. */
void nvs_ledger_sweep(struct nvs_ledger *ledger, enum nvs_kind kind, uint64_t owner, void (*each)(const struct nvs_ledger_entry *, void *), void *argument);

#endif
