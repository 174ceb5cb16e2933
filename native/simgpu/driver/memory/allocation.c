/* Allocations in the arena: small ones share a chunk with others of their size, large ones take whole chunks. */
#define _GNU_SOURCE
#include "driver/memory/arena.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Managed memory moves, and a pool on the host has none of the card's. */
static bool takes_of_card(uint32_t memory) { return memory != SIM_TRACE_MANAGED && memory != SIM_TRACE_PINNED; }

/* ---- small allocations ---- */

static unsigned class_of(uint64_t bytes)
{
    unsigned class = 0;
    while ((1ull << (SIM_SMALLEST_SHIFT + class)) < bytes)
        class++;
    return class;
}

static void link_slab(struct sim_slab *slab)
{
    struct sim_slab **head = &sim_arena.roomy[slab->card][slab->memory][slab->class];
    slab->next = *head;
    slab->link = head;
    if (*head != NULL)
        (*head)->link = &slab->next;
    *head = slab;
}

static void unlink_slab(struct sim_slab *slab)
{
    *slab->link = slab->next;
    if (slab->next != NULL)
        slab->next->link = slab->link;
}

static struct sim_slab *new_slab(unsigned card, unsigned memory, unsigned class)
{
    uint32_t objects = (uint32_t)(SIM_CHUNK_BYTES >> (SIM_SMALLEST_SHIFT + class));
    struct sim_slab *slab = calloc(1, sizeof *slab + objects * sizeof slab->at[0]);
    if (slab == NULL)
        return NULL;
    int64_t chunk = sim_arena_take(card, memory, 1);
    if (chunk < 0) {
        free(slab);
        return NULL;
    }
    slab->chunk = (uint32_t)chunk;
    slab->objects = objects;
    slab->class = class;
    slab->card = card;
    slab->memory = memory;
    sim_arena.at[chunk].slab = slab;
    link_slab(slab);
    return slab;
}

static void place_small(struct sim_slab *slab, struct sim_allocation *allocation)
{
    while (slab->at[slab->hint] != NULL)
        slab->hint = slab->hint + 1 == slab->objects ? 0 : slab->hint + 1;
    slab->at[slab->hint] = allocation;
    allocation->base = (uint64_t)(uintptr_t)sim_arena.base + ((uint64_t)slab->chunk << SIM_CHUNK_SHIFT)
                     + ((uint64_t)slab->hint << (SIM_SMALLEST_SHIFT + slab->class));
    if (++slab->live == slab->objects)
        unlink_slab(slab);
}

/* Returns the bytes to give back to the card. */
static uint64_t remove_small(struct sim_slab *slab, const struct sim_allocation *allocation)
{
    uint32_t index = (uint32_t)((allocation->base & (SIM_CHUNK_BYTES - 1)) >> (SIM_SMALLEST_SHIFT + slab->class));
    slab->at[index] = NULL;
    slab->hint = index;
    if (slab->live-- == slab->objects)
        link_slab(slab);
    if (slab->live > 0)
        return 0;
    unlink_slab(slab);
    if (slab->memory == SIM_TRACE_MANAGED)
        sim_arena_give_managed(slab->chunk, 1);
    sim_ipc_take_back(slab->chunk, 1);
    sim_arena.at[slab->chunk].slab = NULL;
    if (slab->chunk < sim_arena.hint)
        sim_arena.hint = slab->chunk;
    uint64_t charged = takes_of_card(slab->memory) ? SIM_CHUNK_BYTES : 0;
    free(slab);
    return charged;
}

static CUresult allocate_small(struct sim_allocation *allocation)
{
    unsigned class = class_of(allocation->size), card = allocation->card, memory = allocation->memory;
    pthread_mutex_lock(&sim_arena.lock);
    struct sim_slab *slab = sim_arena.roomy[card][memory][class];
    if (slab == NULL && takes_of_card(memory)) {
        pthread_mutex_unlock(&sim_arena.lock); /* charging may take simulated time */
        SIM_TRY(sim_charge(card, SIM_CHUNK_BYTES));
        pthread_mutex_lock(&sim_arena.lock);
        slab = new_slab(card, memory, class);
        if (slab == NULL)
            sim_uncharge(card, SIM_CHUNK_BYTES);
    } else if (slab == NULL) {
        slab = new_slab(card, memory, class);
    }
    if (slab != NULL)
        place_small(slab, allocation);
    pthread_mutex_unlock(&sim_arena.lock);
    return slab != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- whole chunks ---- */

static CUresult allocate_large(struct sim_allocation *allocation)
{
    uint64_t count = (allocation->size + SIM_CHUNK_BYTES - 1) >> SIM_CHUNK_SHIFT;
    if (count > sim_arena.chunks)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool native = takes_of_card(allocation->memory);
    if (native)
        SIM_TRY(sim_charge(allocation->card, count << SIM_CHUNK_SHIFT));
    pthread_mutex_lock(&sim_arena.lock);
    int64_t first = sim_arena_take(allocation->card, allocation->memory, (uint32_t)count);
    for (uint64_t i = 0; first >= 0 && i < count; i++)
        sim_arena.at[(uint64_t)first + i].whole = allocation, sim_arena.at[(uint64_t)first + i].advice = SIM_NO_ADVICE;
    pthread_mutex_unlock(&sim_arena.lock);
    if (first < 0) {
        if (native)
            sim_uncharge(allocation->card, count << SIM_CHUNK_SHIFT);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    allocation->base = (uint64_t)(uintptr_t)sim_arena.base + ((uint64_t)first << SIM_CHUNK_SHIFT);
    allocation->charged = native ? count << SIM_CHUNK_SHIFT : 0;
    return CUDA_SUCCESS;
}

static void release_large(struct sim_allocation *allocation, uint32_t first)
{
    uint32_t count = (uint32_t)((allocation->size + SIM_CHUNK_BYTES - 1) >> SIM_CHUNK_SHIFT);
    sim_ipc_take_back(first, count);
    madvise((void *)(uintptr_t)allocation->base, (size_t)count << SIM_CHUNK_SHIFT, MADV_DONTNEED);
    if (allocation->memory == SIM_TRACE_MANAGED)
        sim_arena_give_managed(first, count);
    for (uint32_t i = first; i < first + count; i++)
        sim_arena.at[i].whole = NULL;
    if (first < sim_arena.hint)
        sim_arena.hint = first;
}

CUresult sim_memory_new(CUcontext context, uint32_t memory, uint64_t bytes, struct sim_allocation **made)
{
    pthread_mutex_lock(&sim_arena.lock);
    bool ready = sim_arena_reserve();
    uint64_t id = ++sim_arena.ids;
    pthread_mutex_unlock(&sim_arena.lock);
    struct sim_allocation *allocation = ready ? sim_handle_new(SIM_ALLOCATION, sizeof *allocation) : NULL;
    if (allocation == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    allocation->memory = memory;
    allocation->size = bytes;
    allocation->card = context->card;
    allocation->context = context;
    allocation->id = id;
    allocation->advice = SIM_NO_ADVICE;
    CUresult result = bytes <= SIM_SMALL_LIMIT ? allocate_small(allocation) : allocate_large(allocation);
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
    uint32_t chunk = (uint32_t)((allocation->base - (uint64_t)(uintptr_t)sim_arena.base) >> SIM_CHUNK_SHIFT);
    sim_trace_point(SIM_TRACE_FREE, allocation->card, allocation->size, allocation->base, allocation->memory);
    pthread_mutex_lock(&sim_arena.lock);
    uint64_t charged = allocation->charged;
    if (sim_arena.at[chunk].slab != NULL)
        charged = remove_small(sim_arena.at[chunk].slab, allocation);
    else
        release_large(allocation, chunk);
    pthread_mutex_unlock(&sim_arena.lock);
    if (charged > 0)
        sim_uncharge(allocation->card, charged);
    sim_handle_free(allocation);
}

/* The first allocation of the context in a chunk; the arena is locked. */
static struct sim_allocation *of_context(const struct sim_arena_chunk *at, CUcontext context)
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
            pthread_mutex_lock(&sim_arena.lock);
            bool past = chunk >= sim_arena.high;
            found = past ? NULL : of_context(&sim_arena.at[chunk], context);
            pthread_mutex_unlock(&sim_arena.lock);
            if (past)
                return;
            if (found != NULL)
                sim_memory_free(found);
        } while (found != NULL);
    }
}
