/* Where simulated memory lives in the process, and what it means to the card.
 *
 * Device and managed memory come from one large reservation of address space, divided into chunks of 2 MiB as the card
 * is. Nothing is committed until somebody writes to it, so 10 GiB of simulated memory cost the machine nothing. An
 * allocation of half a chunk or more takes whole chunks; smaller ones of one size share a chunk. From an address the
 * chunk is known by a shift, and from the chunk the allocation: no search, however many there are.
 *
 * A chunk of native memory is charged to the card; one of managed memory is a chunk of the shared paging state
 * (paging.c) whose index is kept here. */
#define _GNU_SOURCE
#include "driver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define ARENA_BYTES (1ull << 40)
#define SMALLEST_SHIFT 9            /* 512 bytes: CUDA's alignment */
#define SMALL_LIMIT (SIM_CHUNK_BYTES / 2)
#define CLASSES 12                  /* 512 bytes … 1 MiB */
#define MEMORIES 7

struct slab {                       /* small allocations of one size within one chunk */
    struct slab *next, **link;      /* among those of its class with room */
    uint32_t chunk, live, objects, hint;
    unsigned class, card, memory;
    struct sim_allocation *at[];
};

struct arena_chunk { struct sim_allocation *whole; struct slab *slab; uint32_t paging, position; };

static struct {
    pthread_mutex_t lock;
    char *base;
    uint32_t chunks, high, hint;    /* chunks in all, ever used, lowest that may be free */
    struct arena_chunk *at;
    struct slab *roomy[SIM_MAX_CARDS][MEMORIES][CLASSES];
    struct { uint32_t *chunk; uint32_t count, room; } managed[SIM_MAX_CARDS]; /* arena chunks that are managed */
    uint64_t ids;
} arena = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool reserve(void)
{
    if (arena.base != NULL)
        return true;
    /* A process may be limited in address space: take less then. */
    for (uint64_t bytes = ARENA_BYTES; bytes >= 1ull << 30; bytes /= 2) {
        void *at = mmap(NULL, bytes + SIM_CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED)
            continue;
        madvise(at, bytes + SIM_CHUNK_BYTES, MADV_DONTDUMP);
        madvise(at, bytes + SIM_CHUNK_BYTES, MADV_NOHUGEPAGE);
        arena.chunks = (uint32_t)(bytes >> SIM_CHUNK_SHIFT);
        arena.at = mmap(NULL, arena.chunks * sizeof *arena.at, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (arena.at == MAP_FAILED)
            return false;
        arena.base = (char *)(((uintptr_t)at + SIM_CHUNK_BYTES - 1) & ~(uintptr_t)(SIM_CHUNK_BYTES - 1));
        return true;
    }
    return false;
}

static bool is_free(uint32_t chunk) { return arena.at[chunk].whole == NULL && arena.at[chunk].slab == NULL; }

/* First fit. */
static int64_t find_run(uint32_t count)
{
    uint32_t length = 0;
    while (arena.hint < arena.high && !is_free(arena.hint))
        arena.hint++;
    for (uint32_t i = arena.hint; i < arena.high; i++) {
        length = is_free(i) ? length + 1 : 0;
        if (length == count)
            return i + 1 - count;
    }
    uint32_t first = arena.high - length; /* the free end grows */
    if ((uint64_t)first + count > arena.chunks)
        return -1;
    arena.high = first + count;
    return first;
}

/* ---- what chunks mean to the card ---- */

static void wait_moved(const struct sim_moved *moved)
{
    uint64_t until = sim_now_ns() + sim_moved_ns(sim_config(), moved);
    struct timespec at = {.tv_sec = (time_t)(until / 1000000000ull), .tv_nsec = (long)(until % 1000000000ull)};
    if (moved->faults + moved->evictions > 0)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

CUresult sim_charge(unsigned card, uint64_t bytes)
{
    struct sim_card *state = sim.view.cards[card];
    unsigned slot = (unsigned)sim.view.slots[card];
    struct sim_moved moved = {0, 0};
    sim_card_lock(state);
    int error = sim_native_charge(state, slot, bytes, &moved);
    if (error != 0 && sim_card_reap(state, sim.view.card_fds[card], (int)slot) > 0)
        error = sim_native_charge(state, slot, bytes, &moved);
    sim_card_unlock(state);
    wait_moved(&moved);
    return error == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void sim_uncharge(unsigned card, uint64_t bytes)
{
    sim_card_lock(sim.view.cards[card]);
    sim_native_release(sim.view.cards[card], (unsigned)sim.view.slots[card], bytes);
    sim_card_unlock(sim.view.cards[card]);
}

static void list_managed(unsigned card, uint32_t chunk)
{
    uint32_t at = arena.managed[card].count;
    __atomic_store_n(&arena.managed[card].count, at + 1, __ATOMIC_RELAXED); /* read without the lock by sim_memory_chunks */
    arena.managed[card].chunk[at] = chunk;
    arena.at[chunk].position = at;
}

static void unlist_managed(unsigned card, uint32_t chunk)
{
    uint32_t last = arena.managed[card].count - 1, at = arena.at[chunk].position;
    __atomic_store_n(&arena.managed[card].count, last, __ATOMIC_RELAXED);
    arena.managed[card].chunk[at] = arena.managed[card].chunk[last];
    arena.at[arena.managed[card].chunk[at]].position = at;
}

static bool make_listable(unsigned card, uint32_t count)
{
    uint32_t needed = arena.managed[card].count + count;
    if (needed <= arena.managed[card].room)
        return true;
    uint32_t room = needed > 2 * arena.managed[card].room ? needed : 2 * arena.managed[card].room;
    uint32_t *grown = realloc(arena.managed[card].chunk, room * sizeof *grown);
    if (grown == NULL)
        return false;
    arena.managed[card].chunk = grown;
    arena.managed[card].room = room;
    return true;
}

static void give_managed(unsigned card, uint32_t first, uint32_t count)
{
    struct sim_card *state = sim.view.cards[card];
    sim_card_lock(state);
    for (uint32_t i = first; i < first + count; i++) {
        sim_chunk_release(state, arena.at[i].paging);
        unlist_managed(card, i);
    }
    sim_card_unlock(state);
}

static bool take_managed(unsigned card, uint32_t first, uint32_t count)
{
    struct sim_card *state = sim.view.cards[card];
    if (!make_listable(card, count))
        return false;
    uint32_t done = 0;
    sim_card_lock(state);
    for (; done < count; done++) {
        int64_t paging = sim_chunk_take(state, (unsigned)sim.view.slots[card]);
        if (paging < 0)
            break;
        arena.at[first + done].paging = (uint32_t)paging;
        list_managed(card, first + done);
    }
    sim_card_unlock(state);
    if (done < count)
        give_managed(card, first, done);
    return done == count;
}

/* Chunks for one use; the arena is locked. Native memory is charged by the caller beforehand. */
static int64_t take_chunks(unsigned card, unsigned memory, uint32_t count)
{
    int64_t first = find_run(count);
    if (first >= 0 && memory == SIM_TRACE_MANAGED && !take_managed(card, (uint32_t)first, count))
        return -1;
    return first;
}

/* ---- small allocations ---- */

static unsigned class_of(uint64_t bytes)
{
    unsigned class = 0;
    while ((1ull << (SMALLEST_SHIFT + class)) < bytes)
        class++;
    return class;
}

static void link_slab(struct slab *slab)
{
    struct slab **head = &arena.roomy[slab->card][slab->memory][slab->class];
    slab->next = *head;
    slab->link = head;
    if (*head != NULL)
        (*head)->link = &slab->next;
    *head = slab;
}

static void unlink_slab(struct slab *slab)
{
    *slab->link = slab->next;
    if (slab->next != NULL)
        slab->next->link = slab->link;
}

static struct slab *new_slab(unsigned card, unsigned memory, unsigned class)
{
    uint32_t objects = (uint32_t)(SIM_CHUNK_BYTES >> (SMALLEST_SHIFT + class));
    struct slab *slab = calloc(1, sizeof *slab + objects * sizeof slab->at[0]);
    if (slab == NULL)
        return NULL;
    int64_t chunk = take_chunks(card, memory, 1);
    if (chunk < 0) {
        free(slab);
        return NULL;
    }
    slab->chunk = (uint32_t)chunk;
    slab->objects = objects;
    slab->class = class;
    slab->card = card;
    slab->memory = memory;
    arena.at[chunk].slab = slab;
    link_slab(slab);
    return slab;
}

static void place_small(struct slab *slab, struct sim_allocation *allocation)
{
    while (slab->at[slab->hint] != NULL)
        slab->hint = slab->hint + 1 == slab->objects ? 0 : slab->hint + 1;
    slab->at[slab->hint] = allocation;
    allocation->base = (uint64_t)(uintptr_t)arena.base + ((uint64_t)slab->chunk << SIM_CHUNK_SHIFT)
                     + ((uint64_t)slab->hint << (SMALLEST_SHIFT + slab->class));
    if (++slab->live == slab->objects)
        unlink_slab(slab);
}

/* Returns the bytes to give back to the card. */
static uint64_t remove_small(struct slab *slab, const struct sim_allocation *allocation)
{
    uint32_t index = (uint32_t)((allocation->base & (SIM_CHUNK_BYTES - 1)) >> (SMALLEST_SHIFT + slab->class));
    slab->at[index] = NULL;
    slab->hint = index;
    if (slab->live-- == slab->objects)
        link_slab(slab);
    if (slab->live > 0)
        return 0;
    unlink_slab(slab);
    if (slab->memory == SIM_TRACE_MANAGED)
        give_managed(slab->card, slab->chunk, 1);
    arena.at[slab->chunk].slab = NULL;
    if (slab->chunk < arena.hint)
        arena.hint = slab->chunk;
    uint64_t charged = slab->memory == SIM_TRACE_MANAGED ? 0 : SIM_CHUNK_BYTES;
    free(slab);
    return charged;
}

static CUresult allocate_small(struct sim_allocation *allocation)
{
    unsigned class = class_of(allocation->size), card = allocation->card, memory = allocation->memory;
    pthread_mutex_lock(&arena.lock);
    struct slab *slab = arena.roomy[card][memory][class];
    if (slab == NULL && memory != SIM_TRACE_MANAGED) {
        pthread_mutex_unlock(&arena.lock); /* charging may take simulated time */
        SIM_TRY(sim_charge(card, SIM_CHUNK_BYTES));
        pthread_mutex_lock(&arena.lock);
        slab = new_slab(card, memory, class);
        if (slab == NULL)
            sim_uncharge(card, SIM_CHUNK_BYTES);
    } else if (slab == NULL) {
        slab = new_slab(card, memory, class);
    }
    if (slab != NULL)
        place_small(slab, allocation);
    pthread_mutex_unlock(&arena.lock);
    return slab != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- whole chunks ---- */

static CUresult allocate_large(struct sim_allocation *allocation)
{
    uint64_t count = (allocation->size + SIM_CHUNK_BYTES - 1) >> SIM_CHUNK_SHIFT;
    if (count > arena.chunks)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool native = allocation->memory != SIM_TRACE_MANAGED;
    if (native)
        SIM_TRY(sim_charge(allocation->card, count << SIM_CHUNK_SHIFT));
    pthread_mutex_lock(&arena.lock);
    int64_t first = take_chunks(allocation->card, allocation->memory, (uint32_t)count);
    for (uint64_t i = 0; first >= 0 && i < count; i++)
        arena.at[(uint64_t)first + i].whole = allocation;
    pthread_mutex_unlock(&arena.lock);
    if (first < 0) {
        if (native)
            sim_uncharge(allocation->card, count << SIM_CHUNK_SHIFT);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    allocation->base = (uint64_t)(uintptr_t)arena.base + ((uint64_t)first << SIM_CHUNK_SHIFT);
    allocation->charged = native ? count << SIM_CHUNK_SHIFT : 0;
    return CUDA_SUCCESS;
}

static void release_large(struct sim_allocation *allocation, uint32_t first)
{
    uint32_t count = (uint32_t)((allocation->size + SIM_CHUNK_BYTES - 1) >> SIM_CHUNK_SHIFT);
    madvise((void *)(uintptr_t)allocation->base, (size_t)count << SIM_CHUNK_SHIFT, MADV_DONTNEED);
    if (allocation->memory == SIM_TRACE_MANAGED)
        give_managed(allocation->card, first, count);
    for (uint32_t i = first; i < first + count; i++)
        arena.at[i].whole = NULL;
    if (first < arena.hint)
        arena.hint = first;
}

CUresult sim_memory_new(CUcontext context, uint32_t memory, uint64_t bytes, struct sim_allocation **made)
{
    pthread_mutex_lock(&arena.lock);
    bool ready = reserve();
    uint64_t id = ++arena.ids;
    pthread_mutex_unlock(&arena.lock);
    struct sim_allocation *allocation = ready ? sim_handle_new(SIM_ALLOCATION, sizeof *allocation) : NULL;
    if (allocation == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    allocation->memory = memory;
    allocation->size = bytes;
    allocation->card = context->card;
    allocation->context = context;
    allocation->id = id;
    allocation->preferred = allocation->prefetched = -2;
    CUresult result = bytes <= SMALL_LIMIT ? allocate_small(allocation) : allocate_large(allocation);
    if (result != CUDA_SUCCESS) {
        sim_handle_free(allocation);
        return result;
    }
    sim_trace_point(SIM_TRACE_ALLOC, context->card, bytes, allocation->base, memory);
    *made = allocation;
    return CUDA_SUCCESS;
}

void sim_memory_free(struct sim_allocation *allocation)
{
    uint32_t chunk = (uint32_t)((allocation->base - (uint64_t)(uintptr_t)arena.base) >> SIM_CHUNK_SHIFT);
    sim_trace_point(SIM_TRACE_FREE, allocation->card, allocation->size, allocation->base, allocation->memory);
    pthread_mutex_lock(&arena.lock);
    uint64_t charged = allocation->charged;
    if (arena.at[chunk].slab != NULL)
        charged = remove_small(arena.at[chunk].slab, allocation);
    else
        release_large(allocation, chunk);
    pthread_mutex_unlock(&arena.lock);
    if (charged > 0)
        sim_uncharge(allocation->card, charged);
    sim_handle_free(allocation);
}

/* The first allocation of the context in a chunk; the arena is locked. */
static struct sim_allocation *of_context(const struct arena_chunk *at, CUcontext context)
{
    if (at->slab == NULL)
        return at->whole != NULL && at->whole->context == context && at->whole->direct ? at->whole : NULL;
    for (uint32_t i = 0; i < at->slab->objects; i++)
        if (at->slab->at[i] != NULL && at->slab->at[i]->context == context && at->slab->at[i]->direct)
            return at->slab->at[i];
    return NULL;
}

void sim_memory_free_of(CUcontext context)
{
    for (uint32_t chunk = 0;; chunk++) {
        struct sim_allocation *found;
        do { /* a chunk may hold many, and freeing needs the lock */
            pthread_mutex_lock(&arena.lock);
            bool past = chunk >= arena.high;
            found = past ? NULL : of_context(&arena.at[chunk], context);
            pthread_mutex_unlock(&arena.lock);
            if (past)
                return;
            if (found != NULL)
                sim_memory_free(found);
        } while (found != NULL);
    }
}

/* ---- finding ---- */

static bool chunk_of(uint64_t address, uint32_t *chunk)
{
    uint64_t offset = address - (uint64_t)(uintptr_t)arena.base;
    if (arena.base == NULL || address < (uint64_t)(uintptr_t)arena.base || offset >> SIM_CHUNK_SHIFT >= arena.high)
        return false;
    *chunk = (uint32_t)(offset >> SIM_CHUNK_SHIFT);
    return true;
}

struct sim_allocation *sim_memory_at(uint64_t address)
{
    uint32_t chunk;
    struct sim_allocation *found = NULL;
    pthread_mutex_lock(&arena.lock);
    if (chunk_of(address, &chunk)) {
        struct slab *slab = arena.at[chunk].slab;
        found = slab == NULL ? arena.at[chunk].whole
                             : slab->at[(address & (SIM_CHUNK_BYTES - 1)) >> (SMALLEST_SHIFT + slab->class)];
    }
    if (found != NULL && address - found->base >= found->size && address != found->base)
        found = NULL;
    pthread_mutex_unlock(&arena.lock);
    return found;
}

struct sim_allocation *sim_memory_range(uint64_t address, uint64_t bytes)
{
    struct sim_allocation *found = sim_memory_at(address);
    return found != NULL && bytes <= found->size - (address - found->base) ? found : NULL;
}

/* ---- touching ---- */

static bool is_managed(uint32_t chunk, unsigned *card)
{
    const struct arena_chunk *at = &arena.at[chunk];
    if (at->slab != NULL && at->slab->memory == SIM_TRACE_MANAGED)
        *card = at->slab->card;
    else if (at->whole != NULL && at->whole->memory == SIM_TRACE_MANAGED)
        *card = at->whole->card;
    else
        return false;
    return true;
}

static void each_chunk(uint64_t address, uint64_t bytes, struct sim_moved *moved, bool touch)
{
    uint32_t chunk;
    unsigned card;
    if (bytes == 0)
        return;
    pthread_mutex_lock(&arena.lock);
    for (uint64_t at = address; chunk_of(at, &chunk) && at < address + bytes; at = (at | (SIM_CHUNK_BYTES - 1)) + 1) {
        if (!is_managed(chunk, &card))
            continue;
        sim_card_lock(sim.view.cards[card]);
        if (touch)
            sim_chunk_touch(sim.view.cards[card], arena.at[chunk].paging, moved);
        else
            sim_chunk_evict(sim.view.cards[card], arena.at[chunk].paging, moved);
        sim_card_unlock(sim.view.cards[card]);
    }
    pthread_mutex_unlock(&arena.lock);
}

uint64_t sim_memory_touch(uint64_t address, uint64_t bytes, struct sim_moved *moved)
{
    struct sim_moved before = *moved;
    each_chunk(address, bytes, moved, true);
    struct sim_moved own = {moved->faults - before.faults, moved->evictions - before.evictions};
    return sim_moved_ns(sim_config(), &own);
}

void sim_memory_evict(uint64_t address, uint64_t bytes, struct sim_moved *moved)
{
    each_chunk(address, bytes, moved, false);
}

uint32_t sim_memory_chunks(unsigned card) { return __atomic_load_n(&arena.managed[card].count, __ATOMIC_RELAXED); }

uint32_t sim_memory_walk(unsigned card, uint64_t base, uint32_t from, uint32_t count, uint64_t chunk_ns,
                         uint64_t budget_ns, uint64_t *used_ns, uint64_t *paged_ns)
{
    struct sim_card *state = sim.view.cards[card];
    uint32_t done = 0, chunk;
    unsigned owner;
    pthread_mutex_lock(&arena.lock);
    sim_card_lock(state);
    while (done < count && *used_ns < budget_ns) {
        struct sim_moved moved = {0, 0};
        if (base != 0) {
            if (chunk_of(base + ((uint64_t)(from + done) << SIM_CHUNK_SHIFT), &chunk) && is_managed(chunk, &owner) && owner == card)
                sim_chunk_touch(state, arena.at[chunk].paging, &moved);
        } else if (arena.managed[card].count > 0) {
            chunk = arena.managed[card].chunk[(from + done) % arena.managed[card].count];
            sim_chunk_touch(state, arena.at[chunk].paging, &moved);
        }
        uint64_t cost = sim_moved_ns(sim_config(), &moved);
        *paged_ns += cost;
        *used_ns += cost + chunk_ns;
        done++;
    }
    sim_card_unlock(state);
    pthread_mutex_unlock(&arena.lock);
    return done;
}
