/* Which managed memory the program has used, according to its calls: one mark for each 2 MiB of address space.
 *
 * A prefetch populates memory that was never touched, so only memory with evidence of use is moved. The marks are a flat table
 * over the whole address space, mapped without a reserve: one page of it (4 KiB) exists for each 2 GiB in which a chunk is marked.
 * Any thread may make these calls. A mark is one relaxed atomic: it orders nothing, and a mark that is seen late only costs page
 * faults. But no change of a mark is lost, because HELD must stay until the helper clears it. */
#ifndef NVS_USAGE_H
#define NVS_USAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define NVS_CHUNK_SHIFT 21
#define NVS_CHUNK_BYTES (UINT64_C(1) << NVS_CHUNK_SHIFT)
#define NVS_ADDRESS_BITS 48

enum nvs_mark {
    NVS_MARK_MANAGED = 1,    /* part of an allocation that can be moved */
    NVS_MARK_COPIED = 2,     /* a copy or memset touched it */
    NVS_MARK_POINTED = 4,    /* a kernel got a pointer into it */
    NVS_MARK_LEFT_ALONE = 8, /* the program prefetches or advises it itself */
    NVS_MARK_AWAY = 16,      /* we moved it to the host, and nothing is known to have brought it back */
    NVS_MARK_HELD = 32,      /* it is to stay on the host (mover/hold.h) */
    NVS_MARK_FLAGS = 63,
    NVS_MARK_STAMP_SHIFT = 6, /* the rest: the stamp of its last use, modulo NVS_MARK_STAMPS */
    NVS_MARK_STAMPS = 1 << (16 - NVS_MARK_STAMP_SHIFT),
};

enum { NVS_WATCHES = 16 };

/* `marks` is written once, by nvs_usage_setup, before the set-up of the process ends. Every thread that reads it has seen that end
 * (nvs_process_ready). A child of fork keeps the address and finds the pages empty (nvs_pages_sparse).
 *
 * The low half of an entry is the mark of a chunk, the high half how many allocations have a part of it. When the last of these is
 * freed, the mark is cleared. Both are one word: otherwise a new allocation could come between the subtraction of the last one and the
 * store that clears the mark, and would have no mark. */
struct nvs_usage {
    _Atomic uint32_t *marks; /* NULL: nothing is marked */
    _Atomic uint32_t stamp;  /* the time, as the marks count it: grows while the process uses memory */
    _Atomic uint32_t blind;  /* the stamp after the last launch of which nothing is known; 0: there was none */
    _Atomic bool is_used;    /* a mark was made since the stamp last grew; a hint */
    _Atomic uint32_t watches; /* how many of `watched` are a base */
    _Atomic uint64_t watched[NVS_WATCHES]; /* the allocation's base; 1 when it was freed; 0: not in use */
};

/* False if there is no address space for it. */
bool nvs_usage_setup(struct nvs_usage *usage);

/* Nothing is known of it yet. */
void nvs_usage_allocated(struct nvs_usage *usage, uint64_t base, uint64_t bytes);
/* Once for each nvs_usage_allocated. Before the driver frees it: the address may be given to another allocation at once. */
void nvs_usage_freed(struct nvs_usage *usage, uint64_t base, uint64_t bytes);
/* Each ignores addresses that are not managed. */
void nvs_usage_copied(struct nvs_usage *usage, uint64_t address, uint64_t bytes);
void nvs_usage_pointed(struct nvs_usage *usage, uint64_t address);
void nvs_usage_left_alone(struct nvs_usage *usage, uint64_t address, uint64_t bytes);
/* We moved it. */
void nvs_usage_moved(struct nvs_usage *usage, uint64_t address, uint64_t bytes, bool away);

/* It is to stay on the host, or no longer is. */
void nvs_usage_held(struct nvs_usage *usage, uint64_t address, uint64_t bytes, bool is_held);

/* The helper flags memory that another thread may free meanwhile, and whose address may then be another allocation's. So the helper
 * watches the allocation before it checks whether the allocation still exists, and unwatches it after the flags are set. If the
 * allocation was freed in between, the flags are cleared again. Returns the watch; NVS_WATCHES if there are too many, and then flags
 * stay. For the helper. */
unsigned nvs_usage_watch(struct nvs_usage *usage, uint64_t base);
/* True if the allocation was freed. `flags`: those that were set. A new allocation at this address may already have another flag, from
 * a later order. 0 bytes: nothing was flagged. */
bool nvs_usage_unwatch(struct nvs_usage *usage, unsigned watch, uint64_t address, uint64_t bytes, unsigned flags);
/* In a child of fork: the parent's helper watches, and nobody here. */
void nvs_usage_forked(struct nvs_usage *usage);

/* The mark of the chunk at this address. */
unsigned nvs_usage_at(const struct nvs_usage *usage, uint64_t address);
/* How many stamps ago it was last used. */
uint32_t nvs_usage_age(const struct nvs_usage *usage, unsigned mark);

/* A launch of which nothing is known. */
void nvs_usage_blind(struct nvs_usage *usage);
/* True if there was one at most `stamps` ago. */
bool nvs_usage_is_blind(const struct nvs_usage *usage, uint32_t stamps);
/* Memory that is used from now on is younger than the rest. */
void nvs_usage_next_stamp(struct nvs_usage *usage);
/* If a mark is older than a quarter of NVS_MARK_STAMPS, sets its age to that: otherwise it would look young again when the stamps start
 * over. To be called for each marked chunk once in half of NVS_MARK_STAMPS. */
void nvs_usage_keep_old(struct nvs_usage *usage, uint64_t address);

#endif
