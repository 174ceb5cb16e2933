/* Inside the simulated NVML: one view of the node per process, opened by the first nvmlInit and closed by the last
 * nvmlShutdown. A device handle is the address of the mapped card. */
#ifndef NVML_H
#define NVML_H

#include "state/node.h"
#include "nvml/nvml_api.h"

#define NVML_API __attribute__((visibility("default")))

/* 0 when NVML is initialised. */
nvmlReturn_t nvml_ready(void);
/* The node; only while ready. */
struct sim_view *nvml_view(void);
/* True for the card whose MIG instances all others are. */
int nvml_is_split(nvmlDevice_t device);
/* The index of a handle, or -1 if it is none of ours. */
int nvml_index(nvmlDevice_t device);
/* Ready, and the handle is good. */
nvmlReturn_t nvml_check(nvmlDevice_t device);
/* The card's lock held, after what dead processes held was given back. */
struct sim_card *nvml_lock(nvmlDevice_t device);
/* A string into a caller's buffer: INSUFFICIENT_SIZE if it does not fit. */
nvmlReturn_t nvml_copy(const char *text, char *buffer, unsigned length);
/* What should be done to a card after its last injected error. */
unsigned nvml_recovery_action(const struct sim_card *card);

#endif
