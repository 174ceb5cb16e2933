/* Address ranges outside the arena: sorted arrays with few entries and rare changes. */
#include "driver/driver.h"

#include <stdlib.h>
#include <string.h>

static struct { struct sim_range *at; size_t count, room; } maps[SIM_RANGE_MAPS];
static pthread_rwlock_t range_lock = PTHREAD_RWLOCK_INITIALIZER;

/* Index of the first range that begins above the address. */
static size_t above(enum sim_range_map map, uint64_t address)
{
    size_t low = 0, high = maps[map].count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (maps[map].at[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool sim_range_add(enum sim_range_map map, uint64_t base, uint64_t size, void *owner)
{
    pthread_rwlock_wrlock(&range_lock);
    size_t at = above(map, base);
    bool free_below = at == 0 || maps[map].at[at - 1].base + maps[map].at[at - 1].size <= base;
    bool free_above = at == maps[map].count || base + size <= maps[map].at[at].base;
    if (free_below && free_above && maps[map].count == maps[map].room) {
        size_t room = maps[map].room == 0 ? 64 : 2 * maps[map].room;
        struct sim_range *grown = realloc(maps[map].at, room * sizeof *grown);
        if (grown != NULL) {
            maps[map].at = grown;
            maps[map].room = room;
        }
    }
    bool added = free_below && free_above && maps[map].count < maps[map].room;
    if (added) {
        memmove(&maps[map].at[at + 1], &maps[map].at[at], (maps[map].count - at) * sizeof(struct sim_range));
        maps[map].at[at] = (struct sim_range){.base = base, .size = size, .owner = owner};
        maps[map].count++;
    }
    pthread_rwlock_unlock(&range_lock);
    return added;
}

static bool find_unlocked(enum sim_range_map map, uint64_t address, size_t *at)
{
    size_t index = above(map, address);
    if (index == 0 || address - maps[map].at[index - 1].base >= maps[map].at[index - 1].size)
        return false;
    *at = index - 1;
    return true;
}

bool sim_range_find(enum sim_range_map map, uint64_t address, struct sim_range *range)
{
    size_t at;
    pthread_rwlock_rdlock(&range_lock);
    bool found = find_unlocked(map, address, &at);
    if (found)
        *range = maps[map].at[at];
    pthread_rwlock_unlock(&range_lock);
    return found;
}

bool sim_range_remove(enum sim_range_map map, uint64_t base, struct sim_range *range)
{
    size_t at;
    pthread_rwlock_wrlock(&range_lock);
    bool found = find_unlocked(map, base, &at) && maps[map].at[at].base == base;
    if (found) {
        *range = maps[map].at[at];
        memmove(&maps[map].at[at], &maps[map].at[at + 1], (--maps[map].count - at) * sizeof(struct sim_range));
    }
    pthread_rwlock_unlock(&range_lock);
    return found;
}
