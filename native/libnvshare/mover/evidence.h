/* What the program's calls show about the memory that it uses. Called from the hooks, in any thread. */
#ifndef NVS_EVIDENCE_H
#define NVS_EVIDENCE_H

#include "lookup/symbols.h"
#include "mover/usage.h"

extern struct nvs_usage nvs_evidence;

/* If memory can be moved here at all. Before there is a second thread. */
void nvs_evidence_setup(void);

/* Pointers among a kernel's parameters, which are in `params` or in a buffer that `extra` names. Costs calls to the driver: for a
 * launch that is due (gate/sampling.h). */
void nvs_evidence_launch(CUfunction function, void **params, void **extra);
/* True if the driver describes the parameters of kernels, so that launches can be sampled. */
bool nvs_evidence_sees_launches(void);

/* Both sides of copies of other shapes; NULL is none. */
void nvs_evidence_copy_2d(const CUDA_MEMCPY2D *copy);
void nvs_evidence_copy_3d(const CUDA_MEMCPY3D *copy);
void nvs_evidence_copies(const CUdeviceptr *to, const CUdeviceptr *from, const size_t *bytes, size_t count);
/* Ranges that the program itself prefetches or discards. */
void nvs_evidence_left_alone(const CUdeviceptr *at, const size_t *bytes, size_t count);

static inline void nvs_evidence_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    nvs_usage_copied(&nvs_evidence, to, bytes);
    nvs_usage_copied(&nvs_evidence, from, bytes);
}

#endif
