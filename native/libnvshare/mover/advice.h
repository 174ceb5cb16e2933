/* Where the driver should keep managed memory. */
#ifndef NVS_ADVICE_H
#define NVS_ADVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu.h"
#include "lookup/symbols.h"

/* cuMemAdvise, by whichever of its forms the driver has. `place`: a GPU, or CU_DEVICE_CPU. */
CUresult nvs_advice_give(uint64_t address, uint64_t bytes, CUmem_advise advice, CUdevice place);

/* Peer access: if a GPU uses the memory of another GPU, the driver moves managed pages to it; it would not move device memory. So
 * from the first cuCtxEnablePeerAccess on, the preferred location of converted memory is the GPU that it was allocated on. */
void nvs_advice_peers(void);
/* True since then. */
bool nvs_advice_is_wanted(void);
/* Memory that was converted just now. False if no advice is wanted. */
bool nvs_advice_allocated(const struct nvs_gpu *gpu, uint64_t address, uint64_t bytes);
/* The same after it was noted, for memory that is not advised yet: the helper may hold it on the host already. */
void nvs_advice_noted(const struct nvs_gpu *gpu, uint64_t address, uint64_t bytes);
/* Memory that was held on the host, and does not count as held any more: where it would be if it had never been held. */
CUresult nvs_advice_not_held(const struct nvs_gpu *gpu, uint64_t address, uint64_t bytes);
void nvs_advice_forked(void);

#endif
