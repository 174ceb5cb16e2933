/* Streams, events and capture. Handles and flags are the driver's; what the runtime adds is the context and, in the
 * _ptsz forms, that stream 0 is the thread's own. */
#include <string.h>

#include "runtime/runtime.h"

RT_CALL(cudaStreamCreate, (cudaStream_t * stream), RT_PASS(StreamCreate, stream, 0))
RT_CALL(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags), RT_PASS(StreamCreate, stream, flags))
RT_CALL(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned flags, int priority),
        RT_PASS(StreamCreateWithPriority, stream, flags, priority))
RT_CALL(cudaStreamDestroy, (cudaStream_t stream), RT_PASS(StreamDestroy, stream))
RT_CALL2(cudaStreamGetPriority, _ptsz, (cudaStream_t stream, int *priority), RT_PASS(StreamGetPriority, stream, priority))
RT_CALL2(cudaStreamGetFlags, _ptsz, (cudaStream_t stream, unsigned *flags), RT_PASS(StreamGetFlags, stream, flags))
RT_CALL2(cudaStreamGetId, _ptsz, (cudaStream_t stream, unsigned long long *id), RT_PASS(StreamGetId, stream, id))
RT_CALL2(cudaStreamSynchronize, _ptsz, (cudaStream_t stream), RT_PASS(StreamSynchronize, stream))
RT_CALL2(cudaStreamQuery, _ptsz, (cudaStream_t stream), RT_PASS(StreamQuery, stream))
RT_CALL2(cudaStreamWaitEvent, _ptsz, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
         RT_PASS(StreamWaitEvent, stream, event, flags))
RT_CALL2(cudaStreamAddCallback, _ptsz, (cudaStream_t stream, cudaStreamCallback_t callback, void *user, unsigned flags),
         RT_PASS(StreamAddCallback, stream, (CUstreamCallback)callback, user, flags))
RT_CALL2(cudaStreamAttachMemAsync, _ptsz, (cudaStream_t stream, void *pointer, size_t length, unsigned flags),
         RT_PASS(StreamAttachMemAsync, stream, rt_address(pointer), length, flags))
RT_CALL2(cudaLaunchHostFunc, _ptsz, (cudaStream_t stream, cudaHostFn_t function, void *user),
         RT_PASS(LaunchHostFunc, stream, function, user))

RT_CALL2(cudaStreamGetAttribute, _ptsz, (cudaStream_t stream, int which, void *value),
         RT_PASS(StreamGetAttribute, stream, which, (CUstreamAttrValue *)value))
RT_CALL2(cudaStreamSetAttribute, _ptsz, (cudaStream_t stream, int which, const void *value),
         RT_PASS(StreamSetAttribute, stream, which, (const CUstreamAttrValue *)value))
RT_CALL2(cudaStreamCopyAttributes, _ptsz, (cudaStream_t to, cudaStream_t from), RT_PASS(StreamCopyAttributes, to, from))

RT_CALL(cudaEventCreate, (cudaEvent_t * event), RT_PASS(EventCreate, event, 0))
RT_CALL(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), RT_PASS(EventCreate, event, flags))
RT_CALL(cudaEventDestroy, (cudaEvent_t event), RT_PASS(EventDestroy, event))
RT_CALL(cudaEventQuery, (cudaEvent_t event), RT_PASS(EventQuery, event))
RT_CALL(cudaEventSynchronize, (cudaEvent_t event), RT_PASS(EventSynchronize, event))
RT_CALL(cudaEventElapsedTime, (float *ms, cudaEvent_t start, cudaEvent_t end), RT_PASS(EventElapsedTime, ms, start, end))
RT_CALL2(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream), RT_PASS(EventRecord, event, stream))
RT_CALL2(cudaEventRecordWithFlags, _ptsz, (cudaEvent_t event, cudaStream_t stream, unsigned flags),
         RT_PASS(EventRecordWithFlags, event, stream, flags))
RT_CALL(cudaIpcGetEventHandle, (cudaIpcEventHandle_t * handle, cudaEvent_t event), RT_PASS(IpcGetEventHandle, handle, event))
RT_CALL(cudaIpcOpenEventHandle, (cudaEvent_t * event, cudaIpcEventHandle_t handle), RT_PASS(IpcOpenEventHandle, event, handle))

RT_CALL0(cudaThreadExchangeStreamCaptureMode, (int *mode), RT_PASS(ThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *)mode))
RT_CALL2(cudaStreamBeginCapture, _ptsz, (cudaStream_t stream, int mode), RT_PASS(StreamBeginCapture, stream, (CUstreamCaptureMode)mode))
RT_CALL2(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t *graph), RT_PASS(StreamEndCapture, stream, graph))
RT_CALL2(cudaStreamIsCapturing, _ptsz, (cudaStream_t stream, int *status),
         RT_PASS(StreamIsCapturing, stream, (CUstreamCaptureStatus *)status))

#if NVS_CUDART_MAJOR == 12
RT_CALL2(cudaStreamGetCaptureInfo, _ptsz, (cudaStream_t stream, int *status, unsigned long long *id),
         RT_PASS(StreamGetCaptureInfo, stream, (CUstreamCaptureStatus *)status, id, NULL, NULL, NULL))
RT_CALL2(cudaStreamGetCaptureInfo_v2, _ptsz,
         (cudaStream_t stream, int *status, unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **nodes, size_t *count),
         RT_PASS(StreamGetCaptureInfo, stream, (CUstreamCaptureStatus *)status, id, graph, nodes, count))
RT_CALL2(cudaStreamGetCaptureInfo_v3, _ptsz,
         (cudaStream_t stream, int *status, unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **nodes,
          const CUgraphEdgeData **edges, size_t *count),
         RT_PASS(StreamGetCaptureInfoEdges, stream, (CUstreamCaptureStatus *)status, id, graph, nodes, edges, count))
RT_CALL2(cudaStreamUpdateCaptureDependencies, _ptsz, (cudaStream_t stream, cudaGraphNode_t *nodes, size_t count, unsigned flags),
         RT_PASS(StreamUpdateCaptureDependencies, stream, nodes, count, flags))
#else
RT_CALL2(cudaStreamGetCaptureInfo, _ptsz,
         (cudaStream_t stream, int *status, unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **nodes,
          const CUgraphEdgeData **edges, size_t *count),
         RT_PASS(StreamGetCaptureInfoEdges, stream, (CUstreamCaptureStatus *)status, id, graph, nodes, edges, count))
RT_CALL2(cudaStreamUpdateCaptureDependencies, _ptsz,
         (cudaStream_t stream, cudaGraphNode_t *nodes, const CUgraphEdgeData *edges, size_t count, unsigned flags),
         RT_PASS(StreamUpdateCaptureDependenciesEdges, stream, nodes, edges, count, flags))
#endif
