/* Graphs and stream capture, with the rules: which calls are refused while a stream captures, and which make the capture invalid. */
#include "simgpu_check.h"

static CUdeviceptr cell;
static volatile unsigned *value;
static CUstream a, b, blocking;

static int calls;
static void count_call(void *data) { calls += *(int *)data; }

static void building(CUcontext context)
{
    CUgraph graph = NULL, clone = NULL, child = NULL, seen_child = NULL;
    CUgraphNode set = NULL, copy = NULL, run = NULL, call = NULL, empty = NULL, nested = NULL, record = NULL, wait = NULL, found = NULL, nodes[16], from[16], to[16];
    CUgraphExec exec = NULL;
    CUgraphNodeType type = 99;
    CUgraphEdgeData edges[16];
    CUevent event = NULL, other = NULL, seen_event = NULL;
    int one = 1;
    unsigned source = 77, enabled = 9;
    size_t count = 16;
    cuuint64_t flags = 9;
    CUDA_MEMSET_NODE_PARAMS memset_params = {.dst = cell, .value = 5, .elementSize = 4, .width = 1, .height = 1}, memset_seen;
    CUDA_MEMCPY3D copy_params = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = &source, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                 .dstDevice = cell + 4, .WidthInBytes = 4, .Height = 1, .Depth = 1}, copy_seen;
    CUDA_KERNEL_NODE_PARAMS kernel_params = {.func = kernel("graph_kernel"), .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1,
                                             .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1}, kernel_seen;
    CUDA_HOST_NODE_PARAMS host_params = {count_call, &one}, host_seen;
    OK(cuEventCreate, &event, 0);
    OK(cuEventCreate, &other, 0);
    OK(cuGraphCreate, &graph, 0);
    IS(BAD_VALUE, cuGraphCreate, &graph, 1);
    OK(cuGraphAddMemsetNode, &set, graph, NULL, 0, &memset_params, context);
    OK(cuGraphAddMemcpyNode, &copy, graph, &set, 1, &copy_params, context);
    OK(cuGraphAddKernelNode_v2, &run, graph, &copy, 1, &kernel_params);
    OK(cuGraphAddHostNode, &call, graph, &run, 1, &host_params);
    OK(cuGraphAddEmptyNode, &empty, graph, &call, 1);
    OK(cuGraphAddEventRecordNode, &record, graph, &empty, 1, event);
    OK(cuGraphAddEventWaitNode, &wait, graph, &record, 1, event);
    OK(cuGraphCreate, &child, 0);
    OK(cuGraphAddHostNode, &nested, child, NULL, 0, &host_params);
    OK(cuGraphAddChildGraphNode, &nested, graph, &wait, 1, child);
    OK(cuGraphDestroy, child);
    OK(cuGraphChildGraphNodeGetGraph, nested, &seen_child);
    TRUE_(seen_child != NULL);
    OK(cuGraphNodeGetType, run, &type);
    TRUE_(type == CU_GRAPH_NODE_TYPE_KERNEL);
    OK(cuGraphGetNodes, graph, nodes, &count);
    TRUE_(count == 8);
    count = 16;
    OK(cuGraphGetRootNodes, graph, nodes, &count);
    TRUE_(count == 1 && nodes[0] == set);
    count = 16;
    OK(cuGraphGetEdges, graph, from, to, &count);
    TRUE_(count == 7 && from[0] == set && to[0] == copy);
    OK(cuGraphGetEdges_v2, graph, from, to, edges, &count);
    count = 16;
    OK(cuGraphNodeGetDependencies, copy, nodes, &count);
    TRUE_(count == 1 && nodes[0] == set);
    OK(cuGraphNodeGetDependencies_v2, copy, nodes, edges, &count);
    OK(cuGraphNodeGetDependentNodes, copy, nodes, &count);
    TRUE_(count == 1 && nodes[0] == run);
    OK(cuGraphNodeGetDependentNodes_v2, copy, nodes, edges, &count);
    OK(cuGraphAddDependencies, graph, &set, &empty, 1);
    OK(cuGraphRemoveDependencies, graph, &set, &empty, 1);
    OK(cuGraphAddDependencies_v2, graph, &set, &empty, NULL, 1);
    OK(cuGraphRemoveDependencies_v2, graph, &set, &empty, NULL, 1);
    IS(BAD_VALUE, cuGraphRemoveDependencies, graph, &set, &empty, 1);
    OK(cuGraphMemsetNodeGetParams, set, &memset_seen);
    OK(cuGraphMemcpyNodeGetParams, copy, &copy_seen);
    OK(cuGraphKernelNodeGetParams_v2, run, &kernel_seen);
    OK(cuGraphHostNodeGetParams, call, &host_seen);
    OK(cuGraphEventRecordNodeGetEvent, record, &seen_event);
    TRUE_(memset_seen.value == 5 && copy_seen.WidthInBytes == 4 && kernel_seen.blockDimX == 32 && host_seen.fn == count_call && seen_event == event);
    OK(cuGraphEventWaitNodeGetEvent, wait, &seen_event);
    memset_params.value = 6;
    OK(cuGraphMemsetNodeSetParams, set, &memset_params);
    OK(cuGraphMemcpyNodeSetParams, copy, &copy_params);
    OK(cuGraphKernelNodeSetParams_v2, run, &kernel_params);
    OK(cuGraphHostNodeSetParams, call, &host_params);
    OK(cuGraphEventRecordNodeSetEvent, record, other);
    OK(cuGraphEventWaitNodeSetEvent, wait, other);
    OK(cuGraphClone, &clone, graph);
    OK(cuGraphNodeFindInClone, &found, run, clone);
    TRUE_(found != run);
    OK(cuGraphDebugDotPrint, clone, "/dev/null", 0);
    OK(cuGraphInstantiateWithFlags, &exec, graph, 0);
    OK(cuGraphExecGetFlags, exec, &flags);
    TRUE_(flags == 0);
    calls = 0;
    PTSZ(CUDA_SUCCESS, cuGraphUpload, exec, a);
    PTSZ(CUDA_SUCCESS, cuGraphLaunch, exec, a);
    OK(cuStreamSynchronize, a);
    TRUE_(value[0] == 6 && value[1] == 77 && calls == 4);
    OK(cuEventQuery, other);
    memset_params.value = 8;
    OK(cuGraphExecMemsetNodeSetParams, exec, set, &memset_params, context);
    OK(cuGraphExecMemcpyNodeSetParams, exec, copy, &copy_params, context);
    OK(cuGraphExecKernelNodeSetParams_v2, exec, run, &kernel_params);
    OK(cuGraphExecHostNodeSetParams, exec, call, &host_params);
    OK(cuGraphNodeSetEnabled, exec, copy, 0);
    OK(cuGraphNodeGetEnabled, exec, copy, &enabled);
    TRUE_(enabled == 0);
    source = 88;
    OK(cuGraphLaunch, exec, a);
    OK(cuStreamSynchronize, a);
    TRUE_(value[0] == 8 && value[1] == 77);
    CUgraphExecUpdateResultInfo info;
    OK(cuGraphExecUpdate_v2, exec, clone, &info);
    OK(cuGraphDestroyNode, empty);
    IS(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2, exec, graph, &info);
    TRUE_(info.result == 2);
    OK(cuGraphAddDependencies, graph, &call, &record, 1);
    OK(cuGraphAddDependencies, graph, &record, &set, 1); /* a circle */
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = 0};
    CUgraphExec circle = NULL;
    PTSZ(BAD_VALUE, cuGraphInstantiateWithParams, &circle, graph, &params);
    TRUE_(params.result_out != 0);
    OK(cuGraphExecDestroy, exec);
    IS(BAD_VALUE, cuGraphExecDestroy, exec);
    OK(cuGraphDestroy, graph);
    OK(cuGraphDestroy, clone);
    OK(cuEventDestroy_v2, event);
    OK(cuEventDestroy_v2, other);
}

static void generic_nodes(void)
{
    CUgraph graph = NULL;
    CUgraphNode node = NULL;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    params.u.kernel = (CUDA_KERNEL_NODE_PARAMS){.func = kernel("graph_kernel"), .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1,
                                                .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1};
    OK(cuGraphCreate, &graph, 0);
    OK(cuGraphAddNode, &node, graph, NULL, 0, &params);
    OK(cuGraphAddNode_v2, &node, graph, &node, NULL, 1, &params);
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    IS(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddNode, &node, graph, NULL, 0, &params);
    OK(cuGraphDestroy, graph);
    IS(BAD_VALUE, cuGraphDestroy, graph);
}

static void user_objects(void)
{
    CUgraph graph = NULL;
    CUuserObject object = NULL;
    int one = 1;
    calls = 0;
    OK(cuGraphCreate, &graph, 0);
    OK(cuUserObjectCreate, &object, &one, count_call, 1, 1);
    OK(cuUserObjectRetain, object, 1);
    OK(cuGraphRetainUserObject, graph, object, 1, 0);
    OK(cuGraphRetainUserObject, graph, object, 1, 1); /* the caller's own moves */
    OK(cuGraphReleaseUserObject, graph, object, 1);
    OK(cuUserObjectRelease, object, 1);
    TRUE_(calls == 0);
    OK(cuGraphDestroy, graph);
    TRUE_(calls == 1);
}

static CUstreamCaptureStatus status_of(CUstream stream)
{
    CUstreamCaptureStatus status = 9;
    OK(cuStreamIsCapturing, stream, &status);
    return status;
}

static void capturing(void)
{
    CUgraph graph = NULL, into = NULL;
    CUgraphExec exec = NULL;
    CUevent fork = NULL, join = NULL;
    CUstreamCaptureStatus status = 9;
    cuuint64_t id = 0;
    CUgraph seen = NULL;
    const CUgraphNode *tips = NULL;
    const CUgraphEdgeData *edges = NULL;
    size_t count = 0;
    int one = 1;
    OK(cuEventCreate, &fork, CU_EVENT_DISABLE_TIMING);
    OK(cuEventCreate, &join, CU_EVENT_DISABLE_TIMING);
    value[0] = 0;
    calls = 0;
    OK(cuStreamBeginCapture_v2, a, CU_STREAM_CAPTURE_MODE_GLOBAL);
    IS(CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture_v2, a, CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cuMemsetD32Async, cell, 3, 1, a);
    OK(cuLaunchKernel, kernel("captured"), 1, 1, 1, 1, 1, 1, 0, a, NULL, NULL);
    OK(cuEventRecord, fork, a);
    OK(cuStreamWaitEvent, b, fork, 0); /* b joins */
    TRUE_(status_of(b) == CU_STREAM_CAPTURE_STATUS_ACTIVE && status_of(blocking) == CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuLaunchHostFunc, b, count_call, &one);
    OK(cuEventRecord, join, b);
    OK(cuStreamWaitEvent, a, join, 0);
    PTSZ(CUDA_SUCCESS, cuStreamIsCapturing, a, &status);
    PTSZ(CUDA_SUCCESS, cuStreamGetCaptureInfo, a, &status, &id);
    TRUE_(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id != 0);
    PTSZ(CUDA_SUCCESS, cuStreamGetCaptureInfo_v2, a, &status, &id, &seen, &tips, &count);
    PTSZ(CUDA_SUCCESS, cuStreamGetCaptureInfo_v3, a, &status, &id, &seen, &tips, &edges, &count);
    TRUE_(count == 2 && seen != NULL);
    CUgraphNode tip = tips[0];
    PTSZ(CUDA_SUCCESS, cuStreamUpdateCaptureDependencies, a, &tip, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
    PTSZ(CUDA_SUCCESS, cuStreamUpdateCaptureDependencies_v2, a, &tip, NULL, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
    IS(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture, b, &graph);
    OK(cuStreamEndCapture, a, &graph);
    TRUE_(value[0] == 0 && calls == 0); /* nothing has run */
    IS(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery, fork);
    OK(cuGraphInstantiateWithFlags, &exec, graph, 0);
    OK(cuGraphDestroy, graph);
    OK(cuGraphLaunch, exec, a);
    OK(cuGraphExecDestroy, exec); /* runs on all the same */
    OK(cuStreamSynchronize, a);
    TRUE_(value[0] == 3 && calls == 1);
    OK(cuGraphCreate, &into, 0);
    OK(cuStreamBeginCaptureToGraph, a, into, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuLaunchKernel, kernel("captured"), 1, 1, 1, 1, 1, 1, 0, a, NULL, NULL);
    OK(cuStreamEndCapture, a, &graph);
    TRUE_(graph == into);
    OK(cuStreamBeginCaptureToGraph_ptsz, a, into, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuStreamEndCapture_ptsz, a, &graph);
    count = 0;
    OK(cuGraphGetNodes, into, NULL, &count);
    TRUE_(count == 1);
    OK(cuGraphDestroy, into);
    OK(cuEventRecord, fork, a); /* an ordinary event again */
    OK(cuEventSynchronize, fork);
    OK(cuEventDestroy_v2, fork);
    OK(cuEventDestroy_v2, join);
}

/* The calls of CUDA 10 and 11. */
static void first_versions(void)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUgraphNode failed = (CUgraphNode)8;
    char log[8] = "x";
    PTSZ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture, CU_STREAM_LEGACY);
    OK(cuStreamBeginCapture, a);
    OK(cuLaunchKernel, kernel("captured"), 1, 1, 1, 1, 1, 1, 0, a, NULL, NULL);
    OK(cuStreamEndCapture, a, &graph);
    OK(cuGraphInstantiate, &exec, graph, &failed, log, sizeof log);
    TRUE_(failed == NULL && log[0] == '\0');
    OK(cuGraphExecDestroy, exec);
    OK(cuGraphInstantiate_v2, &exec, graph, NULL, NULL, 0);
    OK(cuGraphExecDestroy, exec);
    OK(cuGraphDestroy, graph);
}

/* A graph launched into a capturing stream becomes part of the new graph. */
static void graph_within_a_capture(void)
{
    CUgraph inner = NULL, outer = NULL;
    CUgraphExec exec = NULL, both = NULL;
    CUgraphNode node = NULL;
    CUgraphNodeType type = 99;
    size_t count = 1;
    value[0] = value[1] = 0;
    OK(cuStreamBeginCapture_v2, a, CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuMemsetD32Async, cell, 11, 1, a);
    OK(cuStreamEndCapture, a, &inner);
    OK(cuGraphInstantiateWithFlags, &exec, inner, 0);
    OK(cuStreamBeginCapture_v2, b, CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuGraphLaunch, exec, b);
    OK(cuMemcpyDtoDAsync_v2, cell + 4, cell, 4, b);
    OK(cuStreamEndCapture, b, &outer);
    TRUE_(value[0] == 0);
    OK(cuGraphGetRootNodes, outer, &node, &count);
    OK(cuGraphNodeGetType, node, &type);
    TRUE_(count == 1 && type == CU_GRAPH_NODE_TYPE_GRAPH);
    OK(cuGraphExecDestroy, exec);
    OK(cuGraphInstantiateWithFlags, &both, outer, 0);
    OK(cuGraphLaunch, both, a);
    OK(cuStreamSynchronize, a);
    TRUE_(value[0] == 11 && value[1] == 11);
    OK(cuGraphExecDestroy, both);
    OK(cuGraphDestroy, inner);
    OK(cuGraphDestroy, outer);
}

/* Runs a call that must be refused with `refusal` in a fresh capture of `stream` and must make it invalid. */
#define INVALIDATES(stream, mode, refusal, function, ...) \
    do { \
        CUgraph graph_ = (CUgraph)8; \
        OK(cuStreamBeginCapture_v2, stream, mode); \
        OK(cuLaunchKernel, kernel("captured"), 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL); \
        IS(refusal, function, ##__VA_ARGS__); \
        TRUE_(status_of(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED); \
        IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuLaunchKernel, kernel("captured"), 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL); \
        IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, stream, &graph_); \
        TRUE_(graph_ == NULL && status_of(stream) == CU_STREAM_CAPTURE_STATUS_NONE); \
    } while (0)
/* One that is allowed and leaves the capture good. */
#define ALLOWED(stream, mode, function, ...) \
    do { \
        CUgraph good_ = NULL; \
        OK(cuStreamBeginCapture_v2, stream, mode); \
        OK(cuLaunchKernel, kernel("captured"), 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL); \
        IS(CUDA_SUCCESS, function, ##__VA_ARGS__); \
        OK(cuStreamEndCapture, stream, &good_); \
        OK(cuGraphDestroy, good_); \
    } while (0)

#define UNSUPPORTED CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
#define GLOBAL CU_STREAM_CAPTURE_MODE_GLOBAL
#define THREAD_LOCAL CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
#define RELAXED CU_STREAM_CAPTURE_MODE_RELAXED

static void forbidden_calls(CUcontext context)
{
    CUdeviceptr pointer = 0;
    CUevent plain = NULL;
    OK(cuEventCreate, &plain, 0);
    OK(cuEventRecord, plain, b);
    OK(cuEventSynchronize, plain);
    INVALIDATES(a, RELAXED, UNSUPPORTED, cuStreamSynchronize, a);
    INVALIDATES(a, RELAXED, UNSUPPORTED, cuStreamQuery, a);
    INVALIDATES(a, RELAXED, UNSUPPORTED, cuCtxSynchronize);
    INVALIDATES(a, RELAXED, UNSUPPORTED, cuCtxSynchronize_v2, context);
    INVALIDATES(a, GLOBAL, UNSUPPORTED, cuMemAlloc_v2, &pointer, 16);
    INVALIDATES(a, THREAD_LOCAL, UNSUPPORTED, cuMemAlloc_v2, &pointer, 16);
    INVALIDATES(a, GLOBAL, UNSUPPORTED, cuEventQuery, plain);
    INVALIDATES(a, GLOBAL, UNSUPPORTED, cuMemcpyDtoH_v2, &pointer, cell, 4);
    INVALIDATES(blocking, RELAXED, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamSynchronize, NULL);
    INVALIDATES(blocking, RELAXED, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemsetD8Async, cell, 0, 4, NULL);
    INVALIDATES(a, RELAXED, CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent, a, plain, 0);
    ALLOWED(a, RELAXED, cuMemAlloc_v2, &pointer, 16);
    OK(cuMemFree_v2, pointer);
    ALLOWED(a, RELAXED, cuEventQuery, plain);
    ALLOWED(a, RELAXED, cuStreamSynchronize, b);
    ALLOWED(a, RELAXED, cuMemsetD8Async, cell, 0, 4, NULL); /* a does not block the legacy stream */
    IS(UNSUPPORTED, cuStreamBeginCapture_v2_ptsz, CU_STREAM_LEGACY, GLOBAL);
    OK(cuStreamBeginCapture_v2_ptsz, NULL, RELAXED); /* the thread's own stream can be captured */
    CUgraph graph = NULL;
    OK(cuStreamEndCapture_ptsz, NULL, &graph);
    OK(cuGraphDestroy, graph);
    OK(cuEventDestroy_v2, plain);
}

struct elsewhere { CUcontext context; CUstreamCaptureMode mode; CUresult result; int what; };

static void *from_another_thread(void *data)
{
    struct elsewhere *here = data;
    CUdeviceptr pointer = 0;
    CUgraph graph = NULL;
    cuCtxSetCurrent(here->context);
    cuThreadExchangeStreamCaptureMode(&here->mode);
    here->result = here->what == 0 ? cuMemAlloc_v2(&pointer, 16) : here->what == 1 ? cuStreamEndCapture(a, &graph) : cuCtxSynchronize();
    if (here->what == 0 && here->result == CUDA_SUCCESS)
        cuMemFree_v2(pointer);
    return NULL;
}

static CUresult elsewhere(CUcontext context, CUstreamCaptureMode mode, int what)
{
    struct elsewhere data = {context, mode, CUDA_ERROR_UNKNOWN, what};
    pthread_t thread;
    pthread_create(&thread, NULL, from_another_thread, &data);
    pthread_join(thread, NULL);
    return data.result;
}

static void other_threads(CUcontext context)
{
    CUgraph graph = NULL;
    CUstreamCaptureMode mode = RELAXED;
    OK(cuThreadExchangeStreamCaptureMode, &mode);
    TRUE_(mode == GLOBAL);
    OK(cuThreadExchangeStreamCaptureMode, &mode);
    TRUE_(mode == RELAXED);
    OK(cuStreamBeginCapture_v2, a, GLOBAL);
    TRUE_(elsewhere(context, RELAXED, 0) == CUDA_SUCCESS);
    TRUE_(elsewhere(context, THREAD_LOCAL, 0) == CUDA_SUCCESS);
    TRUE_(elsewhere(context, GLOBAL, 1) == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    OK(cuStreamEndCapture, a, &graph);
    OK(cuGraphDestroy, graph);
    OK(cuStreamBeginCapture_v2, a, GLOBAL);
    TRUE_(elsewhere(context, GLOBAL, 0) == UNSUPPORTED);
    IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, a, &graph);
    OK(cuStreamBeginCapture_v2, a, THREAD_LOCAL);
    TRUE_(elsewhere(context, GLOBAL, 0) == CUDA_SUCCESS);
    TRUE_(elsewhere(context, RELAXED, 2) == UNSUPPORTED); /* a context may not be synchronised from anywhere */
    IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, a, &graph);
}

static void joining(void)
{
    CUgraph graph = NULL;
    CUevent fork = NULL, second = NULL;
    OK(cuEventCreate, &fork, CU_EVENT_DISABLE_TIMING);
    OK(cuEventCreate, &second, CU_EVENT_DISABLE_TIMING);
    OK(cuStreamBeginCapture_v2, a, RELAXED);
    OK(cuLaunchKernel, kernel("captured"), 1, 1, 1, 1, 1, 1, 0, a, NULL, NULL);
    OK(cuEventRecord, fork, a);
    OK(cuStreamWaitEvent, b, fork, 0);
    OK(cuLaunchKernel, kernel("captured"), 1, 1, 1, 1, 1, 1, 0, b, NULL, NULL);
    IS(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture, a, &graph); /* b never came back */
    TRUE_(status_of(b) == CU_STREAM_CAPTURE_STATUS_NONE);
    IS(CUDA_ERROR_CAPTURED_EVENT, cuStreamWaitEvent, b, fork, 0); /* of a capture that is over */
    OK(cuStreamBeginCapture_v2, a, RELAXED);
    OK(cuStreamBeginCapture_v2, b, RELAXED);
    OK(cuEventRecord, second, b);
    IS(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent, a, second, 0);
    IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, a, &graph);
    IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, b, &graph);
    IS(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture, b, &graph);
    OK(cuEventDestroy_v2, fork);
    OK(cuEventDestroy_v2, second);
}

int main(void)
{
    setenv("NVSHARE_SIM_SCALE", "0.1", 1);
    CUcontext context = start();
    OK(cuMemAlloc_v2, &cell, 64);
    OK(cuMemsetD8_v2, cell, 0, 64);
    value = (volatile unsigned *)(uintptr_t)cell;
    OK(cuStreamCreate, &a, CU_STREAM_NON_BLOCKING);
    OK(cuStreamCreate, &b, CU_STREAM_NON_BLOCKING);
    OK(cuStreamCreate, &blocking, CU_STREAM_DEFAULT);
    building(context);
    generic_nodes();
    user_objects();
    capturing();
    graph_within_a_capture();
    first_versions();
    forbidden_calls(context);
    other_threads(context);
    joining();
    return done();
}
