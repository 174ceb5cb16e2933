/* Charging allocations to GPUs: the shell around account and ledger. */
#ifndef NVS_MEMORY_H
#define NVS_MEMORY_H

#include "ledger.h"
#include "process.h"
#include "symbols.h"

/* Charges `bytes` before the driver is asked for them. CUDA_ERROR_OUT_OF_MEMORY if the limit forbids it. May ask the
 * scheduler. */
CUresult nvs_memory_reserve(struct nvs_gpu *gpu, uint64_t bytes, bool swappable);
/* Corrects a charge by facts: more is noted even over the limit. */
void nvs_memory_add(struct nvs_gpu *gpu, uint64_t bytes, bool swappable);
void nvs_memory_return(struct nvs_gpu *gpu, uint64_t bytes, bool swappable);

void nvs_memory_note(const struct nvs_entry *entry);
bool nvs_memory_take(enum nvs_kind kind, uint64_t key, struct nvs_entry *taken);
bool nvs_memory_look(enum nvs_kind kind, uint64_t key, struct nvs_entry *found);
/* Adds to a handle's references and returns what is left of them; at 0 the entry is taken out into *entry. -1 if there
 * is none. */
int nvs_memory_count(enum nvs_kind kind, uint64_t key, int change, struct nvs_entry *entry);

/* A context is gone and with it what was allocated in it. */
void nvs_memory_context_gone(CUcontext context);
void nvs_memory_forked(void);

#endif
