/* From addresses to allocations, and what it means that work on the card touches them. */
#include "driver/memory/arena.h"

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

/* The advice for a managed chunk, and the card where it is or that it was evicted from; NULL if the chunk is not managed. */
static const struct sim_advice *managed_at(uint32_t chunk, unsigned *card)
{
    static const struct sim_advice none = SIM_NO_ADVICE; /* small ones share chunks: their advice has no effect */
    const struct sim_arena_chunk *at = &sim_arena.at[chunk];
    if (at->slab != NULL && at->slab->memory == SIM_TRACE_MANAGED) {
        *card = at->slab->card;
        return &none;
    }
    if (at->whole == NULL || at->whole->memory != SIM_TRACE_MANAGED)
        return NULL;
    *card = at->card;
    return &at->advice;
}

/* Memory that the card reads over the link instead of moving it: it is to stay on the host, or it is there and mapped. */
static bool is_remote(const struct sim_advice *advice, unsigned card, const struct sim_chunk *chunk)
{
    int ordinal = sim_ordinal_of(card);
    bool is_mapped = ordinal >= 0 && (advice->accessed_by & 1u << ordinal) != 0 && chunk->stamp != 0;
    return !chunk->resident && (advice->preferred == -1 || is_mapped);
}

/* Real nanoseconds that one chunk costs the work that touches it at `now_ns`. The card's lock is held. */
static uint64_t touch_chunk(unsigned card, uint32_t chunk, const struct sim_advice *advice, uint64_t now_ns,
                            struct sim_moved *moved)
{
    struct sim_card *state = sim.view.cards[card];
    struct sim_chunk *paged = &state->chunks[sim_arena.at[chunk].paging];
    uint64_t link_ns = sim_chunks_ns(sim_config(), 1, sim_config()->copy_bandwidth);
    if (is_remote(advice, card, paged)) {
        sim_chunk_populate(state, sim_arena.at[chunk].paging);
        sim_link_book(state, SIM_TO_DEVICE, now_ns, link_ns);
        return link_ns;
    }
    struct sim_moved own = {0, 0};
    sim_chunk_touch(state, sim_arena.at[chunk].paging, &own);
    if (own.faults > 0)
        sim_link_book(state, SIM_TO_DEVICE, now_ns, own.faults * link_ns);
    if (own.evictions > 0)
        sim_link_book(state, SIM_TO_HOST, now_ns, own.evictions * link_ns);
    moved->faults += own.faults;
    moved->evictions += own.evictions;
    uint64_t arrival_ns = paged->arrives_ns > now_ns ? paged->arrives_ns - now_ns : 0;
    return arrival_ns + sim_moved_ns(sim_config(), &own);
}

/* The same for one that is at another card. As a driver does, it is moved to the card that touches it, unless it should stay where it is
 * or is mapped for this card: then the bytes come over the link. No card's lock is held. */
static uint64_t touch_elsewhere(unsigned card, uint32_t chunk, const struct sim_advice *advice, uint64_t now_ns, struct sim_moved *moved)
{
    unsigned at = sim_arena.at[chunk].card;
    int here = sim_ordinal_of(card), there = sim_ordinal_of(at);
    bool is_mapped = here >= 0 && (advice->accessed_by & 1u << here) != 0;
    bool stays = is_mapped || (there >= 0 && advice->preferred == there);
    uint64_t link_ns = stays || !sim_arena_migrate(chunk, card) ? sim_chunks_ns(sim_config(), 1, sim_config()->copy_bandwidth) : 0;
    unsigned place = link_ns > 0 ? at : card;
    sim_card_lock(sim.view.cards[place]);
    uint64_t cost = touch_chunk(place, chunk, advice, now_ns, moved);
    sim_card_unlock(sim.view.cards[place]);
    return cost + link_ns;
}

uint64_t sim_memory_touch(uint64_t address, uint64_t bytes, uint64_t now_ns, struct sim_moved *moved)
{
    uint64_t cost = 0;
    uint32_t chunk;
    unsigned card;
    pthread_mutex_lock(&sim_arena.lock);
    for (uint64_t at = address; bytes > 0 && chunk_of(at, &chunk) && at < address + bytes; at = (at | (SIM_CHUNK_BYTES - 1)) + 1) {
        const struct sim_advice *advice = managed_at(chunk, &card);
        if (advice == NULL)
            continue;
        sim_card_lock(sim.view.cards[card]);
        cost += touch_chunk(card, chunk, advice, now_ns + cost, moved);
        sim_card_unlock(sim.view.cards[card]);
    }
    pthread_mutex_unlock(&sim_arena.lock);
    return cost;
}

uint32_t sim_memory_chunks(unsigned card) { return __atomic_load_n(&sim_arena.managed[card].count, __ATOMIC_RELAXED); }

/* The arena's number of the walk's i-th chunk; false if no managed memory is there. Small memory of other cards is left alone. */
static bool walked_chunk(const struct sim_walk *walk, uint32_t i, uint32_t *chunk)
{
    unsigned owner;
    if (walk->base != 0)
        return chunk_of(walk->base + ((uint64_t)i << SIM_CHUNK_SHIFT), chunk) && managed_at(*chunk, &owner) != NULL
            && (owner == walk->card || sim_arena.at[*chunk].slab == NULL);
    if (sim_arena.managed[walk->card].count == 0)
        return false;
    *chunk = sim_arena.managed[walk->card].chunk[i % sim_arena.managed[walk->card].count];
    return true;
}

/* With the lock of the walk's card held, which is given back for a while if the chunk is at another card. */
static uint64_t touch_walked(const struct sim_walk *walk, uint32_t chunk)
{
    struct sim_moved moved = {0, 0};
    uint64_t now_ns = walk->clock_ns + walk->used_ns;
    unsigned at = walk->card;
    const struct sim_advice *advice = managed_at(chunk, &at);
    if (at == walk->card)
        return touch_chunk(walk->card, chunk, advice, now_ns, &moved);
    sim_card_unlock(sim.view.cards[walk->card]);
    uint64_t cost = touch_elsewhere(walk->card, chunk, advice, now_ns, &moved);
    sim_card_lock(sim.view.cards[walk->card]);
    return cost;
}

uint32_t sim_memory_walk(struct sim_walk *walk)
{
    struct sim_card *state = sim.view.cards[walk->card];
    uint32_t done = 0, chunk;
    pthread_mutex_lock(&sim_arena.lock);
    sim_card_lock(state);
    while (done < walk->count && walk->used_ns < walk->budget_ns) {
        if (walked_chunk(walk, walk->from + done, &chunk)) {
            uint64_t cost = touch_walked(walk, chunk);
            walk->paged_ns += cost;
            walk->used_ns += cost;
        }
        walk->used_ns += walk->chunk_ns;
        done++;
    }
    sim_card_unlock(state);
    pthread_mutex_unlock(&sim_arena.lock);
    return done;
}

/* ---- prefetching ---- */

/* Real nanoseconds that it takes to bring the chunk onto the card, those of the evictions that make room for it included: the
 * driver evicts before it copies. Memory that was never written is only given pages. */
static uint64_t bring_in(struct sim_card *state, uint32_t index)
{
    struct sim_chunk *chunk = &state->chunks[index];
    bool has_content = chunk->stamp != 0;
    struct sim_moved moved = {0, 0};
    if (chunk->resident)
        return 0;
    sim_chunk_touch(state, index, &moved);
    if (!chunk->resident)
        return 0; /* native memory fills the card */
    return sim_chunks_ns(sim_config(), moved.evictions, sim_config()->evict_bandwidth)
         + sim_chunks_ns(sim_config(), 1, has_content ? sim_config()->copy_bandwidth : sim_config()->device_bandwidth);
}

static uint64_t push_out(struct sim_card *state, uint32_t index)
{
    struct sim_chunk *chunk = &state->chunks[index];
    struct sim_moved moved = {0, 0};
    sim_chunk_evict(state, index, &moved);
    if (!chunk->resident)
        sim_chunk_populate(state, index);
    return sim_chunks_ns(sim_config(), moved.evictions, sim_config()->evict_bandwidth);
}

uint64_t sim_memory_prefetch(uint64_t address, uint64_t bytes, int to, uint64_t *begin_ns)
{
    bool to_device = to >= 0;
    enum sim_direction direction = to_device ? SIM_TO_DEVICE : SIM_TO_HOST;
    uint64_t taken_ns = 0, begin = *begin_ns;
    uint32_t chunk;
    unsigned card;
    pthread_mutex_lock(&sim_arena.lock);
    for (uint64_t at = address; chunk_of(at, &chunk) && at < address + bytes; at = (at | (SIM_CHUNK_BYTES - 1)) + 1) {
        if (managed_at(chunk, &card) == NULL)
            continue;
        if (to_device && card != (unsigned)to && sim_arena.at[chunk].slab == NULL && sim_arena_migrate(chunk, (unsigned)to))
            card = (unsigned)to;
        struct sim_card *state = sim.view.cards[card];
        uint32_t index = sim_arena.at[chunk].paging;
        sim_card_lock(state);
        uint64_t cost = to_device ? bring_in(state, index) : push_out(state, index);
        if (cost > 0) {
            uint64_t start = sim_link_book(state, direction, begin + taken_ns, cost);
            if (taken_ns == 0)
                *begin_ns = begin = start;
            taken_ns = start + cost - begin;
            state->chunks[index].arrives_ns = to_device ? start + cost : 0;
            if (to_device)
                __atomic_store_n(&state->slots[state->chunks[index].owner - 1].arriving_until_ns, start + cost, __ATOMIC_RELAXED);
        }
        sim_card_unlock(state);
    }
    pthread_mutex_unlock(&sim_arena.lock);
    return taken_ns;
}
