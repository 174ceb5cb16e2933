/* Memory that the driver knows: allocations, address ranges, what work on the card touches. Included by driver.h. */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include "cuda_api.h"
#include "state/paging.h"

struct sim_advice {                  /* what was said of a piece of managed memory */
    int preferred, prefetched;       /* device ordinal, -1 host, -2 none */
    uint32_t accessed_by, read_mostly;
};
#define SIM_NO_ADVICE ((struct sim_advice){.preferred = -2, .prefetched = -2})

struct sim_allocation {
    uint32_t kind;                   /* SIM_ALLOCATION */
    uint32_t memory;                 /* enum sim_trace_memory */
    uint64_t base, size;             /* as asked for */
    unsigned card;
    CUcontext context;
    uint64_t id;
    unsigned flags;
    CUmemoryPool pool;
    uint64_t charged;
    uint32_t sync_memops;
    struct sim_advice advice;        /* of a small one; of others each chunk has its own */
    bool of_graph;                   /* an allocation node's */
    bool direct;                     /* from a call of the program and not part of another object: goes when its context goes */
};
CUresult sim_memory_new(CUcontext context, uint32_t memory, uint64_t bytes, struct sim_allocation **allocation);
void sim_memory_free(struct sim_allocation *allocation);
/* What was allocated directly in a context that is being destroyed. */
void sim_memory_free_of(CUcontext context);
struct sim_allocation *sim_memory_at(uint64_t address);
bool sim_memory_is_private(uint64_t address); /* the arena's, and not shared with another process */
/* The range must lie within one allocation; NULL if it does not. */
struct sim_allocation *sim_memory_range(uint64_t address, uint64_t bytes);
/* Work on a card reads or writes [address, address + bytes): managed chunks in it become resident. Real nanoseconds. */
uint64_t sim_memory_touch(uint64_t address, uint64_t bytes, uint64_t now_ns, struct sim_moved *moved);
/* A prefetch to a card, or (-1) to the host, that may begin at *begin_ns. How long it takes, and in *begin_ns when the link is free for
 * it. */
uint64_t sim_memory_prefetch(uint64_t address, uint64_t bytes, int to, uint64_t *begin_ns);
struct sim_walk {                    /* a kernel's way over the chunks that it touches; real nanoseconds */
    unsigned card;
    uint64_t base;                   /* the chunks from this address on; 0 = all of the process on the card */
    uint32_t from, count;
    uint64_t chunk_ns;               /* computing per chunk */
    uint64_t budget_ns;              /* the walk stops when this is used up */
    uint64_t clock_ns;               /* now */
    uint64_t used_ns, paged_ns;      /* out: in all, and for moving memory */
};
/* How many chunks it touched. */
uint32_t sim_memory_walk(struct sim_walk *walk);
uint32_t sim_memory_chunks(unsigned card);
/* Memory that this process shares by handle, its own or another's. */
extern _Atomic uint32_t sim_ipc_blocks;
CUresult sim_charge(unsigned card, uint64_t bytes);
void sim_uncharge(unsigned card, uint64_t bytes);
/* Memory outside the arena that the driver knows: pinned and registered host memory, VMM mappings (range.c). */
struct sim_range { uint64_t base, size; void *owner; };
enum sim_range_map { SIM_HOST_RANGES, SIM_RESERVED_RANGES, SIM_MAPPED_RANGES, SIM_RANGE_MAPS };
bool sim_range_add(enum sim_range_map map, uint64_t base, uint64_t size, void *owner);
bool sim_range_find(enum sim_range_map map, uint64_t address, struct sim_range *range);
bool sim_range_remove(enum sim_range_map map, uint64_t base, struct sim_range *range);
struct sim_host { CUcontext context; size_t bytes; unsigned flags; bool ours; }; /* owner in SIM_HOST_RANGES */
bool sim_is_device_address(uint64_t address, unsigned *card);
int sim_ordinal_of(unsigned card);   /* as this process numbers it; -1 = not visible */
void sim_pool_give_back(struct sim_allocation *allocation);
void sim_pool_trim_all(unsigned card);
void sim_pool_forget(CUcontext context);

#endif
