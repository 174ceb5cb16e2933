/* What each submission shows about the memory that it uses; for the bodies that hooks/submit.c generates from symbols.def.
 *
 * NVS_USES(symbol) is the statement of that symbol's line below, or nothing. It uses the names of the parameters in symbols.def.
 * Of launches one in many is looked at (gate/sampling.h). */
#ifndef NVS_USES_H
#define NVS_USES_H

#include "mover/evidence.h"

#define NVS_SECOND(first, second, ...) second
#define NVS_SECOND_OF(...) NVS_SECOND(__VA_ARGS__)
#define NVS_USES(symbol) NVS_SECOND_OF(NVS_USES_##symbol, (void)0, ~)

#define NVS_LAUNCHES(other) \
    ~, do { \
        if (entered && NVS_UNLIKELY(nvs_sampling_is_due(&nvs_thread_self->sampling))) \
            nvs_evidence_launch(f, p, other); \
    } while (0)
/* Nothing is known of what it uses. */
#define NVS_BLIND ~, nvs_usage_blind(&nvs_evidence)
#define NVS_COPIES(to, from) ~, nvs_evidence_copy((CUdeviceptr)(uintptr_t)(to), (CUdeviceptr)(uintptr_t)(from), n)
#define NVS_SETS(bytes) ~, nvs_usage_copied(&nvs_evidence, d, bytes)
#define NVS_MOVES ~, nvs_usage_left_alone(&nvs_evidence, d, n)

#define NVS_USES_cuLaunchKernel NVS_LAUNCHES(extra)
#define NVS_USES_cuLaunchKernel_ptsz NVS_LAUNCHES(extra)
#define NVS_USES_cuLaunchKernelEx NVS_LAUNCHES(extra)
#define NVS_USES_cuLaunchKernelEx_ptsz NVS_LAUNCHES(extra)
#define NVS_USES_cuLaunchCooperativeKernel NVS_LAUNCHES(NULL)
#define NVS_USES_cuLaunchCooperativeKernel_ptsz NVS_LAUNCHES(NULL)
#define NVS_USES_cuGraphLaunch NVS_BLIND
#define NVS_USES_cuGraphLaunch_ptsz NVS_BLIND
#define NVS_USES_cuLaunch NVS_BLIND
#define NVS_USES_cuLaunchGrid NVS_BLIND
#define NVS_USES_cuLaunchGridAsync NVS_BLIND

#define NVS_USES_cuMemcpy NVS_COPIES(d, s)
#define NVS_USES_cuMemcpy_ptds NVS_COPIES(d, s)
#define NVS_USES_cuMemcpyHtoD_v2 NVS_COPIES(d, s)
#define NVS_USES_cuMemcpyHtoD_v2_ptds NVS_COPIES(d, s)
#define NVS_USES_cuMemcpyDtoH_v2 NVS_COPIES(d, s)
#define NVS_USES_cuMemcpyDtoH_v2_ptds NVS_COPIES(d, s)
#define NVS_USES_cuMemcpyDtoD_v2 NVS_COPIES(d, s)
#define NVS_USES_cuMemcpyDtoD_v2_ptds NVS_COPIES(d, s)
#define NVS_USES_cuMemcpyAsync NVS_COPIES(d, s)
#define NVS_USES_cuMemcpyAsync_ptsz NVS_COPIES(d, s)
#define NVS_USES_cuMemcpyHtoDAsync_v2 NVS_COPIES(d, s)
#define NVS_USES_cuMemcpyHtoDAsync_v2_ptsz NVS_COPIES(d, s)
#define NVS_USES_cuMemcpyDtoHAsync_v2 NVS_COPIES(d, s)
#define NVS_USES_cuMemcpyDtoHAsync_v2_ptsz NVS_COPIES(d, s)
#define NVS_USES_cuMemcpyDtoDAsync_v2 NVS_COPIES(d, s)
#define NVS_USES_cuMemcpyDtoDAsync_v2_ptsz NVS_COPIES(d, s)

#define NVS_USES_cuMemsetD8_v2 NVS_SETS(n)
#define NVS_USES_cuMemsetD8_v2_ptds NVS_SETS(n)
#define NVS_USES_cuMemsetD8Async NVS_SETS(n)
#define NVS_USES_cuMemsetD8Async_ptsz NVS_SETS(n)
#define NVS_USES_cuMemsetD2D8_v2 NVS_SETS(pitch * h)
#define NVS_USES_cuMemsetD2D8_v2_ptds NVS_SETS(pitch * h)
#define NVS_USES_cuMemsetD2D8Async NVS_SETS(pitch * h)
#define NVS_USES_cuMemsetD2D8Async_ptsz NVS_SETS(pitch * h)
#define NVS_USES_cuMemsetD16_v2 NVS_SETS(2 * n)
#define NVS_USES_cuMemsetD16_v2_ptds NVS_SETS(2 * n)
#define NVS_USES_cuMemsetD16Async NVS_SETS(2 * n)
#define NVS_USES_cuMemsetD16Async_ptsz NVS_SETS(2 * n)
#define NVS_USES_cuMemsetD2D16_v2 NVS_SETS(pitch * h)
#define NVS_USES_cuMemsetD2D16_v2_ptds NVS_SETS(pitch * h)
#define NVS_USES_cuMemsetD2D16Async NVS_SETS(pitch * h)
#define NVS_USES_cuMemsetD2D16Async_ptsz NVS_SETS(pitch * h)
#define NVS_USES_cuMemsetD32_v2 NVS_SETS(4 * n)
#define NVS_USES_cuMemsetD32_v2_ptds NVS_SETS(4 * n)
#define NVS_USES_cuMemsetD32Async NVS_SETS(4 * n)
#define NVS_USES_cuMemsetD32Async_ptsz NVS_SETS(4 * n)
#define NVS_USES_cuMemsetD2D32_v2 NVS_SETS(pitch * h)
#define NVS_USES_cuMemsetD2D32_v2_ptds NVS_SETS(pitch * h)
#define NVS_USES_cuMemsetD2D32Async NVS_SETS(pitch * h)
#define NVS_USES_cuMemsetD2D32Async_ptsz NVS_SETS(pitch * h)

#define NVS_USES_cuMemPrefetchAsync NVS_MOVES
#define NVS_USES_cuMemPrefetchAsync_ptsz NVS_MOVES
#define NVS_USES_cuMemPrefetchAsync_v2 NVS_MOVES
#define NVS_USES_cuMemPrefetchAsync_v2_ptsz NVS_MOVES

#endif
