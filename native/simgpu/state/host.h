/* Host memory: chunks with content that are not on the card. Like the pages that a real driver evicts, they count against the process
 * that owns them, no matter which process evicted them. A process has NVSHARE_SIM_HOST_MEMORY for those of one card. */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include "state/card.h"

static inline bool sim_chunk_is_on_host(const struct sim_chunk *chunk) { return !chunk->resident && chunk->stamp != 0; }

/* A chunk has changed. If its owner has more on the host than it may, it is told to end itself: the kernel would kill it. */
void sim_host_count(struct sim_card *card, const struct sim_chunk *chunk, bool was_on_host);
/* False if chunks of the process stay where they are: it has no room, and the node refuses instead of killing. */
bool sim_host_has_room(const struct sim_card *card, const struct sim_slot *slot);
/* A checkpoint takes all native memory of a slot off the card. False if the host has no room for it: the owner is told to end itself, or
 * the node refuses. */
bool sim_host_save(struct sim_card *card, uint32_t slot);
/* How many chunks a slot has on the host, counted again. */
uint64_t sim_host_recount(const struct sim_card *card, uint32_t slot);

#endif
