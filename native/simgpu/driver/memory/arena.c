/* Where simulated memory lives in the process, and what it means to the card.
 *
 * Device and managed memory come from one large reservation of address space, divided into chunks of 2 MiB as the card
 * is. Nothing is committed until it is written, so 10 GiB of simulated memory cost the machine nothing. An
 * allocation of half a chunk or more takes whole chunks; smaller ones of one size share a chunk. From an address the
 * chunk is known by a shift, and from the chunk the allocation: no search, however many there are.
 *
 * A chunk of native memory is charged to the card; one of managed memory is a chunk of the shared paging state
 * (paging.c) whose index is kept here. */
#define _GNU_SOURCE
#include "driver/memory/arena.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define ARENA_BYTES (1ull << 40)

struct sim_arena sim_arena = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool sim_arena_reserve(void)
{
    if (sim_arena.base != NULL)
        return true;
    /* A process may be limited in address space: take less then. */
    for (uint64_t bytes = ARENA_BYTES; bytes >= 1ull << 30; bytes /= 2) {
        void *at = mmap(NULL, bytes + SIM_CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED)
            continue;
        madvise(at, bytes + SIM_CHUNK_BYTES, MADV_DONTDUMP);
        madvise(at, bytes + SIM_CHUNK_BYTES, MADV_NOHUGEPAGE);
        sim_arena.chunks = (uint32_t)(bytes >> SIM_CHUNK_SHIFT);
        sim_arena.at = mmap(NULL, sim_arena.chunks * sizeof *sim_arena.at, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (sim_arena.at == MAP_FAILED)
            return false;
        sim_arena.base = (char *)(((uintptr_t)at + SIM_CHUNK_BYTES - 1) & ~(uintptr_t)(SIM_CHUNK_BYTES - 1));
        return true;
    }
    return false;
}

static bool is_free(uint32_t chunk) { return sim_arena.at[chunk].whole == NULL && sim_arena.at[chunk].slab == NULL; }

/* First fit. */
static int64_t find_run(uint32_t count)
{
    uint32_t length = 0;
    while (sim_arena.hint < sim_arena.high && !is_free(sim_arena.hint))
        sim_arena.hint++;
    for (uint32_t i = sim_arena.hint; i < sim_arena.high; i++) {
        length = is_free(i) ? length + 1 : 0;
        if (length == count)
            return i + 1 - count;
    }
    uint32_t first = sim_arena.high - length; /* the free end grows */
    if ((uint64_t)first + count > sim_arena.chunks)
        return -1;
    sim_arena.high = first + count;
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
    uint32_t at = sim_arena.managed[card].count;
    __atomic_store_n(&sim_arena.managed[card].count, at + 1, __ATOMIC_RELAXED); /* read without the lock by sim_memory_chunks */
    sim_arena.managed[card].chunk[at] = chunk;
    sim_arena.at[chunk].position = at;
}

static void unlist_managed(unsigned card, uint32_t chunk)
{
    uint32_t last = sim_arena.managed[card].count - 1, at = sim_arena.at[chunk].position;
    __atomic_store_n(&sim_arena.managed[card].count, last, __ATOMIC_RELAXED);
    sim_arena.managed[card].chunk[at] = sim_arena.managed[card].chunk[last];
    sim_arena.at[sim_arena.managed[card].chunk[at]].position = at;
}

static bool make_listable(unsigned card, uint32_t count)
{
    uint32_t needed = sim_arena.managed[card].count + count;
    if (needed <= sim_arena.managed[card].room)
        return true;
    uint32_t room = needed > 2 * sim_arena.managed[card].room ? needed : 2 * sim_arena.managed[card].room;
    uint32_t *grown = realloc(sim_arena.managed[card].chunk, room * sizeof *grown);
    if (grown == NULL)
        return false;
    sim_arena.managed[card].chunk = grown;
    sim_arena.managed[card].room = room;
    return true;
}

static void give_chunk(uint32_t chunk)
{
    sim_chunk_release(sim.view.cards[sim_arena.at[chunk].card], sim_arena.at[chunk].paging);
    unlist_managed(sim_arena.at[chunk].card, chunk);
}

void sim_arena_give_managed(uint32_t first, uint32_t count)
{
    for (uint32_t i = first, end = first + count; i < end;) {
        unsigned card = sim_arena.at[i].card;
        sim_card_lock(sim.view.cards[card]);
        for (; i < end && sim_arena.at[i].card == card; i++)
            give_chunk(i);
        sim_card_unlock(sim.view.cards[card]);
    }
}

static void keep_managed(unsigned card, uint32_t chunk, uint32_t paging)
{
    sim_arena.at[chunk].paging = paging;
    sim_arena.at[chunk].card = card;
    list_managed(card, chunk);
}

bool sim_arena_migrate(uint32_t chunk, unsigned card)
{
    struct sim_card *from = sim.view.cards[sim_arena.at[chunk].card], *to = sim.view.cards[card];
    if (sim.view.slots[card] < 0 || !make_listable(card, 1))
        return false;
    sim_card_lock(to);
    int64_t paging = sim_chunk_take(to, (unsigned)sim.view.slots[card]);
    sim_card_unlock(to);
    if (paging < 0)
        return false;
    sim_card_lock(from);
    bool has_content = from->chunks[sim_arena.at[chunk].paging].stamp != 0;
    give_chunk(chunk);
    sim_card_unlock(from);
    keep_managed(card, chunk, (uint32_t)paging);
    if (has_content) {
        sim_card_lock(to);
        sim_chunk_populate(to, (uint32_t)paging);
        sim_card_unlock(to);
    }
    return true;
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
        keep_managed(card, first + done, (uint32_t)paging);
    }
    sim_card_unlock(state);
    if (done < count)
        sim_arena_give_managed(first, done);
    return done == count;
}

int64_t sim_arena_take(unsigned card, unsigned memory, uint32_t count)
{
    int64_t first = find_run(count);
    if (first >= 0 && memory == SIM_TRACE_MANAGED && !take_managed(card, (uint32_t)first, count))
        return -1;
    return first;
}
