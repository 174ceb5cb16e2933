/* What NVML reports about memory: total = min(limit, card), free = what the account of the process leaves, as cuMemGetInfo (hooks/info.c).
 * But nothing is asked first: memory that a pool returned, or that others of the same limit freed, may still count as used; and for
 * native memory, free may be more than the card has.
 *
 * If the process has not initialised CUDA and its environment has a limit, the scheduler is asked once (helper/limit_query.c). Without an
 * answer, total and free are the limit of the environment. Without a limit there, nothing is changed. */
#ifndef NVS_HOOKS_NVML_H
#define NVS_HOOKS_NVML_H

/* Our function for an NVML name whose real one is `found`, or `found`. */
void *nvs_nvml_route(const char *name, void *found);

#endif
