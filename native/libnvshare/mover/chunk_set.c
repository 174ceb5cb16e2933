#include "mover/chunk_set.h"

#include <stdlib.h>

enum { COPIED = 1, POINTED = 2, USE_BITS = 2, FIRST_CAPACITY = 64 };

/* The place of a chunk, or the free one where it belongs. Neighbours are spread: ranges are usual. */
static uint32_t *place_of(const struct nvs_chunk_set *set, uint32_t chunk)
{
    size_t at = (chunk * UINT32_C(0x9E3779B1)) >> 7 & (set->capacity - 1);
    while (set->places[at] && set->places[at] >> USE_BITS != chunk)
        at = (at + 1) & (set->capacity - 1);
    return &set->places[at];
}

static bool grow(struct nvs_chunk_set *set)
{
    struct nvs_chunk_set bigger = {.capacity = set->capacity ? set->capacity * 2 : FIRST_CAPACITY, .count = set->count};
    bigger.places = calloc(bigger.capacity, sizeof *bigger.places);
    if (!bigger.places)
        return false;
    for (size_t i = 0; i < set->capacity; i++)
        if (set->places[i])
            *place_of(&bigger, set->places[i] >> USE_BITS) = set->places[i];
    free(set->places);
    *set = bigger;
    return true;
}

static bool add(struct nvs_chunk_set *set, uint32_t chunk, unsigned use)
{
    if (set->count * 2 >= set->capacity && !grow(set))
        return false;
    uint32_t *place = place_of(set, chunk);
    if (!*place && set->count == NVS_CHUNK_SET_MOST)
        return false;
    set->count += !*place;
    *place = chunk << USE_BITS | (*place & (COPIED | POINTED)) | use;
    return true;
}

bool nvs_chunk_set_pointed(struct nvs_chunk_set *set, const struct nvs_usage *usage, uint64_t address)
{
    return !(nvs_usage_at(usage, address) & NVS_MARK_MANAGED) || add(set, (uint32_t)(address >> NVS_CHUNK_SHIFT), POINTED);
}

bool nvs_chunk_set_copied(struct nvs_chunk_set *set, const struct nvs_usage *usage, uint64_t address, uint64_t bytes)
{
    if (!bytes || address + bytes < address)
        return true;
    for (uint64_t at = address >> NVS_CHUNK_SHIFT; at <= (address + bytes - 1) >> NVS_CHUNK_SHIFT; at++) {
        if (!(nvs_usage_at(usage, at << NVS_CHUNK_SHIFT) & NVS_MARK_MANAGED))
            return true; /* as nvs_usage_copied: the range leaves our memory */
        if (!add(set, (uint32_t)at, COPIED))
            return false;
    }
    return true;
}

bool nvs_chunk_set_merge(struct nvs_chunk_set *set, const struct nvs_chunk_set *other)
{
    bool has_room = true;
    for (size_t i = 0; i < other->capacity; i++)
        if (other->places[i])
            has_room &= add(set, other->places[i] >> USE_BITS, other->places[i] & (COPIED | POINTED));
    return has_room;
}

void nvs_chunk_set_mark(const struct nvs_chunk_set *set, struct nvs_usage *usage)
{
    for (size_t i = 0; i < set->capacity; i++) {
        uint64_t address = (uint64_t)(set->places[i] >> USE_BITS) << NVS_CHUNK_SHIFT;
        if (set->places[i] & COPIED)
            nvs_usage_copied(usage, address, 1);
        if (set->places[i] & POINTED)
            nvs_usage_pointed(usage, address);
    }
}

void nvs_chunk_set_free(struct nvs_chunk_set *set)
{
    free(set->places);
    *set = (struct nvs_chunk_set){0};
}
