/* From addresses to allocations, and what it means that work on the card touches them. */
#include "arena.h"

/* ---- finding ---- */

static bool chunk_of(uint64_t address, uint32_t *chunk)
{
    uint64_t offset = address - (uint64_t)(uintptr_t)sim_arena.base;
    if (sim_arena.base == NULL || address < (uint64_t)(uintptr_t)sim_arena.base || offset >> SIM_CHUNK_SHIFT >= sim_arena.high)
        return false;
    *chunk = (uint32_t)(offset >> SIM_CHUNK_SHIFT);
    return true;
}

struct sim_allocation *sim_memory_at(uint64_t address)
{
    uint32_t chunk;
    struct sim_allocation *found = NULL;
    pthread_mutex_lock(&sim_arena.lock);
    if (chunk_of(address, &chunk)) {
        struct sim_slab *slab = sim_arena.at[chunk].slab;
        found = slab == NULL ? sim_arena.at[chunk].whole
                             : slab->at[(address & (SIM_CHUNK_BYTES - 1)) >> (SIM_SMALLEST_SHIFT + slab->class)];
    }
    if (found != NULL && address - found->base >= found->size && address != found->base)
        found = NULL;
    pthread_mutex_unlock(&sim_arena.lock);
    return found;
}

struct sim_allocation *sim_memory_range(uint64_t address, uint64_t bytes)
{
    struct sim_allocation *found = sim_memory_at(address);
    return found != NULL && bytes <= found->size - (address - found->base) ? found : NULL;
}

bool sim_memory_is_private(uint64_t address)
{
    uint32_t chunk;
    pthread_mutex_lock(&sim_arena.lock);
    bool found = chunk_of(address, &chunk);
    if (found && sim_arena.at[chunk].whole != NULL)
        found = chunk_of(sim_arena.at[chunk].whole->base, &chunk);
    bool private = found && sim_arena.at[chunk].shared == 0;
    pthread_mutex_unlock(&sim_arena.lock);
    return private;
}

/* ---- touching ---- */

static bool is_managed(uint32_t chunk, unsigned *card)
{
    const struct sim_arena_chunk *at = &sim_arena.at[chunk];
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
    pthread_mutex_lock(&sim_arena.lock);
    for (uint64_t at = address; chunk_of(at, &chunk) && at < address + bytes; at = (at | (SIM_CHUNK_BYTES - 1)) + 1) {
        if (!is_managed(chunk, &card))
            continue;
        sim_card_lock(sim.view.cards[card]);
        if (touch)
            sim_chunk_touch(sim.view.cards[card], sim_arena.at[chunk].paging, moved);
        else
            sim_chunk_evict(sim.view.cards[card], sim_arena.at[chunk].paging, moved);
        sim_card_unlock(sim.view.cards[card]);
    }
    pthread_mutex_unlock(&sim_arena.lock);
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

uint32_t sim_memory_chunks(unsigned card) { return __atomic_load_n(&sim_arena.managed[card].count, __ATOMIC_RELAXED); }

uint32_t sim_memory_walk(unsigned card, uint64_t base, uint32_t from, uint32_t count, uint64_t chunk_ns,
                         uint64_t budget_ns, uint64_t *used_ns, uint64_t *paged_ns)
{
    struct sim_card *state = sim.view.cards[card];
    uint32_t done = 0, chunk;
    unsigned owner;
    pthread_mutex_lock(&sim_arena.lock);
    sim_card_lock(state);
    while (done < count && *used_ns < budget_ns) {
        struct sim_moved moved = {0, 0};
        if (base != 0) {
            if (chunk_of(base + ((uint64_t)(from + done) << SIM_CHUNK_SHIFT), &chunk) && is_managed(chunk, &owner) && owner == card)
                sim_chunk_touch(state, sim_arena.at[chunk].paging, &moved);
        } else if (sim_arena.managed[card].count > 0) {
            chunk = sim_arena.managed[card].chunk[(from + done) % sim_arena.managed[card].count];
            sim_chunk_touch(state, sim_arena.at[chunk].paging, &moved);
        }
        uint64_t cost = sim_moved_ns(sim_config(), &moved);
        *paged_ns += cost;
        *used_ns += cost + chunk_ns;
        done++;
    }
    sim_card_unlock(state);
    pthread_mutex_unlock(&sim_arena.lock);
    return done;
}
