/* Chunks of the arena; shared by arena.c, allocation.c and residency.c. */
#ifndef SIM_ARENA_H
#define SIM_ARENA_H

#include "driver/driver.h"

#define SIM_SMALLEST_SHIFT 9        /* 512 bytes: CUDA's alignment */
#define SIM_SMALL_LIMIT (SIM_CHUNK_BYTES / 2)
#define SIM_CLASSES 12              /* 512 bytes … 1 MiB */
#define SIM_MEMORIES 7

struct sim_slab {                   /* small allocations of one size within one chunk */
    struct sim_slab *next, **link;  /* among those of its class with room */
    uint32_t chunk, live, objects, hint;
    unsigned class, card, memory;
    struct sim_allocation *at[];
};

struct sim_arena_chunk {
    struct sim_allocation *whole;
    struct sim_slab *slab;
    uint32_t paging, position;
    unsigned card;                  /* of managed memory: whose paging state has it. It migrates (residency.c) */
    struct sim_advice advice;       /* of a chunk of a whole allocation */
    uint64_t shared;                /* of the first chunk: other processes know it by this id (ipc.c) */
};

struct sim_arena {
    pthread_mutex_t lock;
    char *base;
    uint32_t chunks, high, hint;    /* chunks in all, ever used, lowest that may be free */
    struct sim_arena_chunk *at;
    struct sim_slab *roomy[SIM_MAX_CARDS][SIM_MEMORIES][SIM_CLASSES];
    struct { uint32_t *chunk; uint32_t count, room; } managed[SIM_MAX_CARDS]; /* arena chunks that are managed */
    uint64_t ids;
};
extern struct sim_arena sim_arena;

bool sim_arena_reserve(void);       /* the address space, at first use; the lock is held, here and below */
/* Chunks for one use, or -1. Native memory is charged by the caller beforehand, managed memory is given its paging state. */
int64_t sim_arena_take(unsigned card, unsigned memory, uint32_t count);
void sim_arena_give_managed(uint32_t first, uint32_t count);
/* Managed memory goes to another card: its pages are on the host until something brings them in there. False if that card takes no more.
 * No card's lock is held: two are never held at the same time, because other processes may take them in the other order. */
bool sim_arena_migrate(uint32_t chunk, unsigned card);
void sim_ipc_take_back(uint32_t first, uint32_t count);
/* Files that processes of the node share. */
void sim_ipc_path(uint64_t id, char *path, size_t size);
int sim_ipc_make_file(uint64_t id, uint64_t length);

#endif
