/* Managed memory that the program frees in stream order. The driver can free managed memory only at once, so each such free
 * waits for an event on its stream. The next calls of the program that allocate, free or ask for free memory do what is due. */
#ifndef NVS_FREES_H
#define NVS_FREES_H

#include <stdbool.h>
#include <stdint.h>

#include "lookup/symbols.h"
#include "memory/ledger.h"

/* True if the free will be done when the stream has reached this point; the entry was removed from the ledger. False if no event
 * can be recorded on the stream: it captures, or is not valid. */
bool nvs_frees_after(const struct nvs_ledger_entry *entry, uintptr_t stream);
/* True if the address will be freed: it is no longer the program's. */
bool nvs_frees_has(uint64_t address);
/* Frees what is due. Called with no lock held. */
void nvs_frees_do(void);
/* The context is about to end, and its memory with it. With nvs_streams_lock held. */
void nvs_frees_forget_context(CUcontext context);
void nvs_frees_forked(void);

#endif
