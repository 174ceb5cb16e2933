/* What the program's calls show about the memory that it uses. Called from the hooks, in any thread. */
#ifndef NVS_EVIDENCE_H
#define NVS_EVIDENCE_H

#include "lookup/symbols.h"
#include "mover/usage.h"

extern struct nvs_usage nvs_evidence;

/* If memory can be moved here at all. Before there is a second thread. */
void nvs_evidence_setup(void);

/* Pointers among a kernel's parameters. Costs calls to the driver: for a launch that is due (gate/sampling.h). `extra`: the
 * parameters are in it instead, and cannot be told apart. */
void nvs_evidence_launch(CUfunction function, void **params, void **extra);
/* The driver says what a kernel's parameters are, so that launches can be looked at. */
bool nvs_evidence_sees_launches(void);

static inline void nvs_evidence_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    nvs_usage_copied(&nvs_evidence, to, bytes);
    nvs_usage_copied(&nvs_evidence, from, bytes);
}

#endif
