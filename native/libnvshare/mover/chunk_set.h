/* A set of chunks of 2 MiB (mover/usage.h), each with how it is used: what an instance of a graph uses. Pure.
 *
 * Bounded: a program may have thousands of graphs, and each of them any number of nodes. */
#ifndef NVS_CHUNK_SET_H
#define NVS_CHUNK_SET_H

#include <stddef.h>

#include "mover/usage.h"

enum { NVS_CHUNK_SET_MOST = 1 << 16 }; /* chunks: 128 GiB */

struct nvs_chunk_set {
    uint32_t *places; /* open addressing; 0 is free */
    size_t capacity, count;
};

/* Each adds what is managed of it. False if the set is full, or if there is no memory for it. */
bool nvs_chunk_set_pointed(struct nvs_chunk_set *set, const struct nvs_usage *usage, uint64_t address);
bool nvs_chunk_set_copied(struct nvs_chunk_set *set, const struct nvs_usage *usage, uint64_t address, uint64_t bytes);
bool nvs_chunk_set_merge(struct nvs_chunk_set *set, const struct nvs_chunk_set *other);
/* All of it is used now. */
void nvs_chunk_set_mark(const struct nvs_chunk_set *set, struct nvs_usage *usage);
/* It is empty then. */
void nvs_chunk_set_free(struct nvs_chunk_set *set);

#endif
