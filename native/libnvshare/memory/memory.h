/* Charging allocations to GPUs: the accounts with their locks. memory/entries.h has the allocations themselves. */
#ifndef NVS_MEMORY_H
#define NVS_MEMORY_H

#include "gpu.h"
#include "lookup/symbols.h"
#include "memory/ledger.h"

/* Charges `bytes` before the driver is asked for them. CUDA_ERROR_OUT_OF_MEMORY if the limit or the size of the card
 * forbids it, or if the budget does not suffice and the scheduler grants no more or does not answer. May wait for that answer. */
CUresult nvs_memory_reserve(struct nvs_gpu *gpu, uint64_t bytes, bool swappable);
/* The driver has refused memory that cannot be evicted: prints one line that names the settings, only once. */
void nvs_memory_say_fixed(void);
/* The same for device memory that is to become managed memory, unless it is small: *is_small. What programs share by IPC handle, or
 * let a stream write to or wait for, is small and must be native. It is charged as unswappable, and counted until
 * nvs_memory_return_small, nvs_memory_return_entry or nvs_memory_small_is_converted. */
CUresult nvs_memory_reserve_converted(struct nvs_gpu *gpu, uint64_t bytes, bool *is_small);
/* Correct a charge after the driver's call. nvs_memory_add charges even over the limit: the memory exists. */
void nvs_memory_add(struct nvs_gpu *gpu, uint64_t bytes, bool swappable);
void nvs_memory_return(struct nvs_gpu *gpu, uint64_t bytes, bool swappable);
void nvs_memory_return_small(struct nvs_gpu *gpu, uint64_t bytes);
/* A small allocation has become managed memory after all. */
void nvs_memory_small_is_converted(struct nvs_gpu *gpu, uint64_t bytes);

/* Sets how many contexts the account counts. With the account's lock held, before its room is looked at. */
void nvs_memory_count_contexts(struct nvs_gpu *gpu);

/* Returns the charge of an entry that was taken out of the ledger. */
void nvs_memory_return_entry(const struct nvs_ledger_entry *entry);

/* True if all device memory of this process stays native: by NVSHARE_MEMORY_MODE, because the GPU does not page managed memory, or
 * because the process uses a video encoder, which refuses managed memory. */
bool nvs_memory_stays_native(const struct nvs_gpu *gpu);

/* Memory or contexts on the GPU have changed: the helper reports it. Only the first change since the last report wakes the helper.
 * Pairs with the helper, which clears memory_changed before it reads the figures (the account under its lock): a later change finds
 * the mark cleared and wakes it again. In the other order a change could go unreported. */
void nvs_memory_changed(struct nvs_gpu *gpu);

#endif
