/* What each submission shows about the memory that it uses; for the bodies that hooks/submit.c generates from symbols.def.
 *
 * NVS_USES(symbol) is the statement of that symbol's line below, or nothing. It uses the names of the parameters in symbols.def.
 * NVS_READS(symbol) is the same where a pointer of the program has to be followed: after the driver has accepted the call.
 * Of launches one in many is looked at (gate/sampling.h): NVS_LOOK_IS_DUE(symbol) says whether, NVS_LOOK(symbol) looks, and
 * NVS_PASS(symbol) counts one that is not looked at. A look follows pointers, too. */
#ifndef NVS_USES_H
#define NVS_USES_H

#include "mover/evidence.h"
#include "mover/graphs.h"

#define NVS_SECOND(first, second, ...) second
#define NVS_SECOND_OF(...) NVS_SECOND(__VA_ARGS__)
#define NVS_USES(symbol) NVS_SECOND_OF(NVS_USES_##symbol, (void)0, ~)
#define NVS_READS(symbol) NVS_SECOND_OF(NVS_READS_##symbol, (void)0, ~)

#define NVS_THIRD(first, second, third, ...) third
#define NVS_THIRD_OF(...) NVS_THIRD(__VA_ARGS__)
#define NVS_FOURTH(first, second, third, fourth, ...) fourth
#define NVS_FOURTH_OF(...) NVS_FOURTH(__VA_ARGS__)
#define NVS_LOOK_IS_DUE(symbol) NVS_SECOND_OF(NVS_LOOK_##symbol, false, (void)0, (void)0, ~)
#define NVS_LOOK(symbol) NVS_THIRD_OF(NVS_LOOK_##symbol, false, (void)0, (void)0, ~)
#define NVS_PASS(symbol) NVS_FOURTH_OF(NVS_LOOK_##symbol, false, (void)0, (void)0, ~)

#define NVS_LAUNCHES(other) \
    ~, nvs_sampling_is_due(&self->sampling), nvs_evidence_launch(f, p, other), nvs_sampling_passed(&self->sampling)
#define NVS_LAUNCHES_GRAPH ~, nvs_graphs_launched(g)
/* Nothing is known of what it uses. */
#define NVS_BLIND ~, nvs_usage_blind(&nvs_evidence)
#define NVS_COPIES(to, from) ~, nvs_evidence_copy((CUdeviceptr)(uintptr_t)(to), (CUdeviceptr)(uintptr_t)(from), n)
#define NVS_SETS(bytes) ~, nvs_usage_copied(&nvs_evidence, d, bytes)
#define NVS_MOVES ~, nvs_usage_left_alone(&nvs_evidence, d, n)
#define NVS_MOVES_MANY ~, nvs_evidence_left_alone(d, n, count)
#define NVS_COPIES_MANY ~, nvs_evidence_copies(d, s, n, count)
#define NVS_COPIES_2D ~, nvs_evidence_copy_2d(c)
/* CUDA_MEMCPY3D_PEER differs from CUDA_MEMCPY3D only in the fields that are reserved there. */
#define NVS_COPIES_3D ~, nvs_evidence_copy_3d((const CUDA_MEMCPY3D *)c)

#define NVS_LOOK_cuLaunchKernel NVS_LAUNCHES(extra)
#define NVS_LOOK_cuLaunchKernel_ptsz NVS_LAUNCHES(extra)
#define NVS_LOOK_cuLaunchKernelEx NVS_LAUNCHES(extra)
#define NVS_LOOK_cuLaunchKernelEx_ptsz NVS_LAUNCHES(extra)
#define NVS_LOOK_cuLaunchCooperativeKernel NVS_LAUNCHES(NULL)
#define NVS_LOOK_cuLaunchCooperativeKernel_ptsz NVS_LAUNCHES(NULL)
#define NVS_USES_cuGraphLaunch NVS_LAUNCHES_GRAPH
#define NVS_USES_cuGraphLaunch_ptsz NVS_LAUNCHES_GRAPH
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

#define NVS_USES_cuMemcpyDtoA_v2 NVS_COPIES(0, s)
#define NVS_USES_cuMemcpyDtoA_v2_ptds NVS_COPIES(0, s)
#define NVS_USES_cuMemcpyAtoD_v2 NVS_COPIES(d, 0)
#define NVS_USES_cuMemcpyAtoD_v2_ptds NVS_COPIES(d, 0)
#define NVS_READS_cuMemcpy2D_v2 NVS_COPIES_2D
#define NVS_READS_cuMemcpy2D_v2_ptds NVS_COPIES_2D
#define NVS_READS_cuMemcpy2DUnaligned_v2 NVS_COPIES_2D
#define NVS_READS_cuMemcpy2DUnaligned_v2_ptds NVS_COPIES_2D
#define NVS_READS_cuMemcpy3D_v2 NVS_COPIES_3D
#define NVS_READS_cuMemcpy3D_v2_ptds NVS_COPIES_3D
#define NVS_USES_cuMemcpyPeer NVS_COPIES(d, s)
#define NVS_USES_cuMemcpyPeer_ptds NVS_COPIES(d, s)
#define NVS_READS_cuMemcpy3DPeer NVS_COPIES_3D
#define NVS_READS_cuMemcpy3DPeer_ptds NVS_COPIES_3D
#define NVS_READS_cuMemcpy2DAsync_v2 NVS_COPIES_2D
#define NVS_READS_cuMemcpy2DAsync_v2_ptsz NVS_COPIES_2D
#define NVS_READS_cuMemcpy3DAsync_v2 NVS_COPIES_3D
#define NVS_READS_cuMemcpy3DAsync_v2_ptsz NVS_COPIES_3D
#define NVS_USES_cuMemcpyPeerAsync NVS_COPIES(d, s)
#define NVS_USES_cuMemcpyPeerAsync_ptsz NVS_COPIES(d, s)
#define NVS_READS_cuMemcpy3DPeerAsync NVS_COPIES_3D
#define NVS_READS_cuMemcpy3DPeerAsync_ptsz NVS_COPIES_3D
#define NVS_READS_cuMemcpyBatchAsync NVS_COPIES_MANY
#define NVS_READS_cuMemcpyBatchAsync_ptsz NVS_COPIES_MANY
#define NVS_READS_cuMemcpyBatchAsync_v2 NVS_COPIES_MANY
#define NVS_READS_cuMemcpyBatchAsync_v2_ptsz NVS_COPIES_MANY
#define NVS_USES_cuMemcpyWithAttributesAsync NVS_COPIES(d, s)
#define NVS_USES_cuMemcpyWithAttributesAsync_ptsz NVS_COPIES(d, s)

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
#define NVS_READS_cuMemPrefetchBatchAsync NVS_MOVES_MANY
#define NVS_READS_cuMemPrefetchBatchAsync_ptsz NVS_MOVES_MANY
#define NVS_READS_cuMemDiscardBatchAsync NVS_MOVES_MANY
#define NVS_READS_cuMemDiscardBatchAsync_ptsz NVS_MOVES_MANY
#define NVS_READS_cuMemDiscardAndPrefetchBatchAsync NVS_MOVES_MANY
#define NVS_READS_cuMemDiscardAndPrefetchBatchAsync_ptsz NVS_MOVES_MANY

#endif
