/* The runtime calls that the checks make, declared for a C program as cuda_runtime_api.h would declare them. */
#ifndef CUDART_RUNTIME_H
#define CUDART_RUNTIME_H

#include "runtime/cudart_api.h"

#define RT(name, ...) cudaError_t name(__VA_ARGS__)

void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device_function, const char *name, int thread_limit, void *tid,
                            void *bid, void *block, void *grid, int *warp);
void __cudaRegisterVar(void **handle, char *host, char *address, const char *name, int ext, size_t bytes, int constant, int global);
void __cudaRegisterManagedVar(void **handle, void **host, char *address, const char *name, int ext, size_t bytes, int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
char __cudaInitModule(void **handle);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream);

const char *cudaGetErrorName(cudaError_t);
const char *cudaGetErrorString(cudaError_t);
RT(cudaGetLastError, void);
RT(cudaPeekAtLastError, void);
RT(cudaRuntimeGetVersion, int *);
RT(cudaDriverGetVersion, int *);
RT(cudaGetDriverEntryPoint, const char *, void **, unsigned long long, int *);
RT(cudaGetDriverEntryPointByVersion, const char *, void **, unsigned, unsigned long long, int *);
RT(cudaGetExportTable, const void **, const cudaUUID_t *);
RT(cudaProfilerStart, void);
RT(cudaProfilerStop, void);

RT(cudaGetDeviceCount, int *);
RT(cudaSetDevice, int);
RT(cudaGetDevice, int *);
RT(cudaInitDevice, int, unsigned, unsigned);
RT(cudaSetDeviceFlags, unsigned);
RT(cudaGetDeviceFlags, unsigned *);
RT(cudaDeviceReset, void);
RT(cudaDeviceSynchronize, void);
RT(cudaDeviceGetAttribute, int *, int, int);
#if NVS_CUDART_MAJOR == 12
RT(cudaGetDeviceProperties_v2, struct cudaDeviceProp *, int);
#define cudaGetDeviceProperties cudaGetDeviceProperties_v2
#else
RT(cudaGetDeviceProperties, struct cudaDeviceProp *, int);
#endif
RT(cudaDeviceGetPCIBusId, char *, int, int);
RT(cudaDeviceGetByPCIBusId, int *, const char *);
RT(cudaDeviceCanAccessPeer, int *, int, int);
RT(cudaDeviceGetP2PAttribute, int *, int, int, int);
RT(cudaDeviceEnablePeerAccess, int, unsigned);
RT(cudaDeviceDisablePeerAccess, int);
RT(cudaDeviceGetLimit, size_t *, int);
RT(cudaDeviceSetLimit, int, size_t);
RT(cudaDeviceGetCacheConfig, int *);
RT(cudaDeviceSetCacheConfig, int);
RT(cudaDeviceGetStreamPriorityRange, int *, int *);
RT(cudaDeviceGetDefaultMemPool, cudaMemPool_t *, int);
RT(cudaDeviceGetMemPool, cudaMemPool_t *, int);
RT(cudaDeviceSetMemPool, int, cudaMemPool_t);
RT(cudaDeviceGraphMemTrim, int);

RT(cudaMalloc, void **, size_t);
RT(cudaMallocManaged, void **, size_t, unsigned);
RT(cudaMallocPitch, void **, size_t *, size_t, size_t);
RT(cudaMalloc3D, struct cudaPitchedPtr *, struct cudaExtent);
RT(cudaFree, void *);
RT(cudaMallocHost, void **, size_t);
RT(cudaHostAlloc, void **, size_t, unsigned);
RT(cudaFreeHost, void *);
RT(cudaHostRegister, void *, size_t, unsigned);
RT(cudaHostUnregister, void *);
RT(cudaHostGetDevicePointer, void **, void *, unsigned);
RT(cudaHostGetFlags, unsigned *, void *);
RT(cudaMemGetInfo, size_t *, size_t *);
RT(cudaPointerGetAttributes, struct cudaPointerAttributes *, const void *);
RT(cudaMemRangeGetAttribute, void *, size_t, int, const void *, size_t);
RT(cudaMemRangeGetAttributes, void **, size_t *, int *, size_t, const void *, size_t);
RT(cudaMallocAsync, void **, size_t, cudaStream_t);
RT(cudaMallocFromPoolAsync, void **, size_t, cudaMemPool_t, cudaStream_t);
RT(cudaFreeAsync, void *, cudaStream_t);
RT(cudaMemPoolCreate, cudaMemPool_t *, const struct cudaMemPoolProps *);
RT(cudaMemPoolDestroy, cudaMemPool_t);
RT(cudaMemPoolTrimTo, cudaMemPool_t, size_t);
RT(cudaMemPoolSetAttribute, cudaMemPool_t, int, void *);
RT(cudaMemPoolGetAttribute, cudaMemPool_t, int, void *);
RT(cudaMemPoolSetAccess, cudaMemPool_t, const struct cudaMemAccessDesc *, size_t);
RT(cudaMemPoolGetAccess, int *, cudaMemPool_t, struct cudaMemLocation *);
RT(cudaIpcGetMemHandle, cudaIpcMemHandle_t *, void *);
RT(cudaIpcOpenMemHandle, void **, cudaIpcMemHandle_t, unsigned);
RT(cudaIpcCloseMemHandle, void *);
RT(cudaIpcGetEventHandle, cudaIpcEventHandle_t *, cudaEvent_t);
RT(cudaIpcOpenEventHandle, cudaEvent_t *, cudaIpcEventHandle_t);
#if NVS_CUDART_MAJOR == 12
RT(cudaMemAdvise, const void *, size_t, int, int);
RT(cudaMemPrefetchAsync, const void *, size_t, int, cudaStream_t);
#else
RT(cudaMemAdvise, const void *, size_t, int, struct cudaMemLocation);
RT(cudaMemPrefetchAsync, const void *, size_t, struct cudaMemLocation, unsigned, cudaStream_t);
#endif

RT(cudaMemcpy, void *, const void *, size_t, int);
RT(cudaMemcpy_ptds, void *, const void *, size_t, int);
RT(cudaMemcpyAsync, void *, const void *, size_t, int, cudaStream_t);
RT(cudaMemcpyAsync_ptsz, void *, const void *, size_t, int, cudaStream_t);
RT(cudaMemcpy2D, void *, size_t, const void *, size_t, size_t, size_t, int);
RT(cudaMemcpy2DAsync, void *, size_t, const void *, size_t, size_t, size_t, int, cudaStream_t);
RT(cudaMemcpyPeer, void *, int, const void *, int, size_t);
RT(cudaMemcpyPeerAsync, void *, int, const void *, int, size_t, cudaStream_t);
RT(cudaMemcpyToSymbol, const void *, const void *, size_t, size_t, int);
RT(cudaMemcpyFromSymbol, void *, const void *, size_t, size_t, int);
RT(cudaMemcpyToSymbolAsync, const void *, const void *, size_t, size_t, int, cudaStream_t);
RT(cudaMemcpyFromSymbolAsync, void *, const void *, size_t, size_t, int, cudaStream_t);
RT(cudaMemcpy3D, const struct cudaMemcpy3DParms *);
RT(cudaMemcpy3DAsync, const struct cudaMemcpy3DParms *, cudaStream_t);
RT(cudaMemset, void *, int, size_t);
RT(cudaMemsetAsync, void *, int, size_t, cudaStream_t);
RT(cudaMemset2D, void *, size_t, int, size_t, size_t);
RT(cudaMemset2DAsync, void *, size_t, int, size_t, size_t, cudaStream_t);
RT(cudaGetSymbolAddress, void **, const void *);
RT(cudaGetSymbolSize, size_t *, const void *);
RT(cudaMallocArray, cudaArray_t *, const struct cudaChannelFormatDesc *, size_t, size_t, unsigned);
RT(cudaMalloc3DArray, cudaArray_t *, const struct cudaChannelFormatDesc *, struct cudaExtent, unsigned);
RT(cudaFreeArray, cudaArray_t);
RT(cudaArrayGetInfo, struct cudaChannelFormatDesc *, struct cudaExtent *, unsigned *, cudaArray_t);
RT(cudaGetChannelDesc, struct cudaChannelFormatDesc *, cudaArray_const_t);
RT(cudaMemcpy2DToArray, cudaArray_t, size_t, size_t, const void *, size_t, size_t, size_t, int);
RT(cudaMemcpy2DFromArray, void *, size_t, cudaArray_const_t, size_t, size_t, size_t, size_t, int);
struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, int f);

RT(cudaStreamCreate, cudaStream_t *);
RT(cudaStreamCreateWithFlags, cudaStream_t *, unsigned);
RT(cudaStreamCreateWithPriority, cudaStream_t *, unsigned, int);
RT(cudaStreamDestroy, cudaStream_t);
RT(cudaStreamGetPriority, cudaStream_t, int *);
RT(cudaStreamGetFlags, cudaStream_t, unsigned *);
RT(cudaStreamGetId, cudaStream_t, unsigned long long *);
RT(cudaStreamGetId_ptsz, cudaStream_t, unsigned long long *);
RT(cudaStreamSynchronize, cudaStream_t);
RT(cudaStreamQuery, cudaStream_t);
RT(cudaStreamQuery_ptsz, cudaStream_t);
RT(cudaStreamWaitEvent, cudaStream_t, cudaEvent_t, unsigned);
RT(cudaStreamAddCallback, cudaStream_t, cudaStreamCallback_t, void *, unsigned);
RT(cudaStreamAttachMemAsync, cudaStream_t, void *, size_t, unsigned);
RT(cudaLaunchHostFunc, cudaStream_t, cudaHostFn_t, void *);
RT(cudaEventCreate, cudaEvent_t *);
RT(cudaEventCreateWithFlags, cudaEvent_t *, unsigned);
RT(cudaEventDestroy, cudaEvent_t);
RT(cudaEventQuery, cudaEvent_t);
RT(cudaEventSynchronize, cudaEvent_t);
RT(cudaEventElapsedTime, float *, cudaEvent_t, cudaEvent_t);
RT(cudaEventRecord, cudaEvent_t, cudaStream_t);
RT(cudaEventRecordWithFlags, cudaEvent_t, cudaStream_t, unsigned);
RT(cudaThreadExchangeStreamCaptureMode, int *);
RT(cudaStreamBeginCapture, cudaStream_t, int);
RT(cudaStreamEndCapture, cudaStream_t, cudaGraph_t *);
RT(cudaStreamIsCapturing, cudaStream_t, int *);
#if NVS_CUDART_MAJOR == 12
RT(cudaStreamGetCaptureInfo, cudaStream_t, int *, unsigned long long *);
RT(cudaStreamGetCaptureInfo_v2, cudaStream_t, int *, unsigned long long *, cudaGraph_t *, const cudaGraphNode_t **, size_t *);
RT(cudaStreamGetCaptureInfo_v3, cudaStream_t, int *, unsigned long long *, cudaGraph_t *, const cudaGraphNode_t **,
   const CUgraphEdgeData **, size_t *);
RT(cudaStreamUpdateCaptureDependencies, cudaStream_t, cudaGraphNode_t *, size_t, unsigned);
RT(cudaGraphNodeGetDependencies, cudaGraphNode_t, cudaGraphNode_t *, size_t *);
RT(cudaGraphGetEdges, cudaGraph_t, cudaGraphNode_t *, cudaGraphNode_t *, size_t *);
RT(cudaGraphAddDependencies, cudaGraph_t, const cudaGraphNode_t *, const cudaGraphNode_t *, size_t);
#else
RT(cudaStreamGetCaptureInfo, cudaStream_t, int *, unsigned long long *, cudaGraph_t *, const cudaGraphNode_t **,
   const CUgraphEdgeData **, size_t *);
RT(cudaStreamUpdateCaptureDependencies, cudaStream_t, cudaGraphNode_t *, const CUgraphEdgeData *, size_t, unsigned);
RT(cudaGraphNodeGetDependencies, cudaGraphNode_t, cudaGraphNode_t *, CUgraphEdgeData *, size_t *);
RT(cudaGraphGetEdges, cudaGraph_t, cudaGraphNode_t *, cudaGraphNode_t *, CUgraphEdgeData *, size_t *);
RT(cudaGraphAddDependencies, cudaGraph_t, const cudaGraphNode_t *, const cudaGraphNode_t *, const CUgraphEdgeData *, size_t);
#endif

RT(cudaGraphCreate, cudaGraph_t *, unsigned);
RT(cudaGraphDestroy, cudaGraph_t);
RT(cudaGraphClone, cudaGraph_t *, cudaGraph_t);
RT(cudaGraphGetNodes, cudaGraph_t, cudaGraphNode_t *, size_t *);
RT(cudaGraphGetRootNodes, cudaGraph_t, cudaGraphNode_t *, size_t *);
RT(cudaGraphNodeGetType, cudaGraphNode_t, int *);
RT(cudaGraphDestroyNode, cudaGraphNode_t);
RT(cudaGraphAddEmptyNode, cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t);
RT(cudaGraphAddHostNode, cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, const struct cudaHostNodeParams *);
RT(cudaGraphAddChildGraphNode, cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, cudaGraph_t);
RT(cudaGraphAddKernelNode, cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, const struct cudaKernelNodeParams *);
RT(cudaGraphAddMemsetNode, cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, const struct cudaMemsetParams *);
RT(cudaGraphAddMemcpyNode, cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, const struct cudaMemcpy3DParms *);
RT(cudaGraphAddMemcpyNode1D, cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, void *, const void *, size_t, int);
RT(cudaGraphInstantiate, cudaGraphExec_t *, cudaGraph_t, unsigned long long);
RT(cudaGraphInstantiateWithFlags, cudaGraphExec_t *, cudaGraph_t, unsigned long long);
RT(cudaGraphExecUpdate, cudaGraphExec_t, cudaGraph_t, cudaGraphExecUpdateResultInfo *);
RT(cudaGraphExecDestroy, cudaGraphExec_t);
RT(cudaGraphLaunch, cudaGraphExec_t, cudaStream_t);
RT(cudaGraphUpload, cudaGraphExec_t, cudaStream_t);
RT(cudaGraphDebugDotPrint, cudaGraph_t, const char *, unsigned);

RT(cudaLaunchKernel, const void *, dim3, dim3, void **, size_t, cudaStream_t);
RT(cudaLaunchKernel_ptsz, const void *, dim3, dim3, void **, size_t, cudaStream_t);
RT(cudaLaunchCooperativeKernel, const void *, dim3, dim3, void **, size_t, cudaStream_t);
RT(cudaLaunchKernelExC, const cudaLaunchConfig_t *, const void *, void **);
RT(cudaFuncGetAttributes, struct cudaFuncAttributes *, const void *);
RT(cudaFuncSetAttribute, const void *, int, int);
RT(cudaFuncSetCacheConfig, const void *, int);
RT(cudaGetFuncBySymbol, cudaFunction_t *, const void *);
RT(cudaGetKernel, cudaKernel_t *, const void *);
RT(cudaOccupancyMaxActiveBlocksPerMultiprocessor, int *, const void *, int, size_t);
RT(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, int *, const void *, int, size_t, unsigned);
RT(cudaOccupancyAvailableDynamicSMemPerBlock, size_t *, const void *, int, int);

RT(cudaLibraryLoadData, cudaLibrary_t *, const void *, int *, void **, unsigned, int *, void **, unsigned);
RT(cudaLibraryLoadFromFile, cudaLibrary_t *, const char *, int *, void **, unsigned, int *, void **, unsigned);
RT(cudaLibraryUnload, cudaLibrary_t);
RT(cudaLibraryGetKernel, cudaKernel_t *, cudaLibrary_t, const char *);
RT(cudaLibraryGetKernelCount, unsigned *, cudaLibrary_t);
RT(cudaLibraryEnumerateKernels, cudaKernel_t *, unsigned, cudaLibrary_t);
RT(cudaLibraryGetGlobal, void **, size_t *, cudaLibrary_t, const char *);
RT(cudaLibraryGetManaged, void **, size_t *, cudaLibrary_t, const char *);
RT(cudaFuncGetName, const char **, const void *);
RT(cudaKernelSetAttributeForDevice, cudaKernel_t, int, int, int);

RT(cudaGraphKernelNodeGetParams, cudaGraphNode_t, struct cudaKernelNodeParams *);
RT(cudaGraphKernelNodeSetParams, cudaGraphNode_t, const struct cudaKernelNodeParams *);
RT(cudaGraphExecKernelNodeSetParams, cudaGraphExec_t, cudaGraphNode_t, const struct cudaKernelNodeParams *);
RT(cudaGraphMemsetNodeGetParams, cudaGraphNode_t, struct cudaMemsetParams *);
RT(cudaGraphMemsetNodeSetParams, cudaGraphNode_t, const struct cudaMemsetParams *);
RT(cudaGraphExecMemsetNodeSetParams, cudaGraphExec_t, cudaGraphNode_t, const struct cudaMemsetParams *);
RT(cudaGraphHostNodeGetParams, cudaGraphNode_t, struct cudaHostNodeParams *);
RT(cudaGraphHostNodeSetParams, cudaGraphNode_t, const struct cudaHostNodeParams *);
RT(cudaGraphExecHostNodeSetParams, cudaGraphExec_t, cudaGraphNode_t, const struct cudaHostNodeParams *);
RT(cudaGraphChildGraphNodeGetGraph, cudaGraphNode_t, cudaGraph_t *);
RT(cudaGraphAddEventRecordNode, cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, cudaEvent_t);
RT(cudaGraphEventRecordNodeGetEvent, cudaGraphNode_t, cudaEvent_t *);
RT(cudaGraphAddEventWaitNode, cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, cudaEvent_t);
RT(cudaGraphEventWaitNodeGetEvent, cudaGraphNode_t, cudaEvent_t *);
RT(cudaGraphAddMemAllocNode, cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, void *);
RT(cudaGraphMemAllocNodeGetParams, cudaGraphNode_t, void *);
RT(cudaGraphAddMemFreeNode, cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, void *);
RT(cudaGraphMemFreeNodeGetParams, cudaGraphNode_t, void *);
RT(cudaGraphNodeSetEnabled, cudaGraphExec_t, cudaGraphNode_t, unsigned);
RT(cudaGraphNodeGetEnabled, cudaGraphExec_t, cudaGraphNode_t, unsigned *);
RT(cudaGraphInstantiateWithParams, cudaGraphExec_t *, cudaGraph_t, void *);
RT(cudaGraphExecGetFlags, cudaGraphExec_t, unsigned long long *);
RT(cudaUserObjectCreate, CUuserObject *, void *, cudaHostFn_t, unsigned, unsigned);
RT(cudaUserObjectRetain, CUuserObject, unsigned);
RT(cudaUserObjectRelease, CUuserObject, unsigned);
RT(cudaGraphRetainUserObject, cudaGraph_t, CUuserObject, unsigned, unsigned);
RT(cudaGraphReleaseUserObject, cudaGraph_t, CUuserObject, unsigned);
RT(cudaStreamGetAttribute, cudaStream_t, int, void *);
RT(cudaStreamSetAttribute, cudaStream_t, int, const void *);
RT(cudaStreamCopyAttributes, cudaStream_t, cudaStream_t);
RT(cudaCtxResetPersistingL2Cache, void);
#if NVS_CUDART_MAJOR == 12
RT(cudaThreadSynchronize, void);
#endif

#undef RT
#endif
