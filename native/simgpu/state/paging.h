/* Physical memory of a card: native charges, and residency of managed chunks. Pure bookkeeping on the shared state, all
 * under the card's lock; what a movement costs in time is for the caller to wait. */
#ifndef SIM_PAGING_H
#define SIM_PAGING_H

#include "state/card.h"

struct sim_moved { uint64_t faults, evictions; }; /* chunks moved in and out */

/* Charges native memory, moving managed chunks out to make room. -ENOMEM if the native total would exceed the card. */
int sim_native_charge(struct sim_card *card, unsigned slot, uint64_t bytes, struct sim_moved *moved);
void sim_native_release(struct sim_card *card, unsigned slot, uint64_t bytes);

/* A managed chunk for the slot, not resident. Its index, or -1 when the node holds no more. */
int64_t sim_chunk_take(struct sim_card *card, unsigned slot);
void sim_chunk_release(struct sim_card *card, uint32_t chunk);
/* Work on the card reads or writes the chunk: if it is not resident it becomes so, as the most recently used one. */
void sim_chunk_touch(struct sim_card *card, uint32_t chunk, struct sim_moved *moved);
/* It gets memory on the host, if it has none anywhere. */
void sim_chunk_populate(struct sim_card *card, uint32_t chunk);
void sim_chunk_evict(struct sim_card *card, uint32_t chunk, struct sim_moved *moved);

/* Everything a slot held goes back. */
void sim_slot_clear(struct sim_card *card, unsigned slot);
/* Recomputes sums and lists from the slots' and chunks' own facts, after a process died with the lock held. */
void sim_card_rebuild(struct sim_card *card);
/* Whether every sum and list is right; walks everything, for tests. */
bool sim_card_consistent(const struct sim_card *card);

/* Real nanoseconds that the movement takes. */
uint64_t sim_moved_ns(const struct sim_config *config, const struct sim_moved *moved);
uint64_t sim_chunks_ns(const struct sim_config *config, uint64_t chunks, double bandwidth);
/* A transfer that may begin at `from_ns` uses one direction of the link: after those that are there already. When it begins. */
uint64_t sim_link_book(struct sim_card *card, enum sim_direction direction, uint64_t from_ns, uint64_t length_ns);

#endif
