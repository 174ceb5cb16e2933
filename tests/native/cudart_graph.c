/* Capture and graphs through the runtime. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "cudart_check.h"
#include "cudart_nvcc.h"

static void a_capture_becomes_a_graph_that_can_be_replayed(void)
{
    enum { BYTES = 4096 };
    static unsigned char host[BYTES];
    void *device;
    int status = -1;
    unsigned long long id = 0;
    size_t count = 0;
    cudaStream_t stream;
    cudaGraph_t graph = NULL, during = NULL;
    cudaGraphExec_t exec = NULL;
    const cudaGraphNode_t *tail = NULL;
    size_t tails = 0;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc(&device, BYTES));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(cudaMemsetAsync(device, 0x77, BYTES, stream));
    LAUNCH(DIM(1), DIM(32), stream, host_spin(100));
    OK(cudaGetLastError());
    OK(cudaStreamIsCapturing(stream, &status));
    CHECK(status == cudaStreamCaptureStatusActive);
#if NVS_CUDART_MAJOR == 12
    OK(cudaStreamGetCaptureInfo(stream, &status, &id));
    CHECK(id != 0);
    OK(cudaStreamGetCaptureInfo_v2(stream, &status, &id, &during, &tail, &tails));
    OK(cudaStreamGetCaptureInfo_v3(stream, &status, &id, &during, &tail, NULL, &tails));
    OK(cudaStreamUpdateCaptureDependencies(stream, NULL, 0, 0));
#else
    OK(cudaStreamGetCaptureInfo(stream, &status, &id, &during, &tail, NULL, &tails));
    OK(cudaStreamUpdateCaptureDependencies(stream, NULL, NULL, 0, 0));
#endif
    CHECK(during != NULL && tails == 1 && tail != NULL && id != 0);
    OK(cudaMemcpyAsync(host, device, BYTES, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    CHECK(host[0] == 0); /* nothing has run */
    OK(cudaGraphGetNodes(graph, NULL, &count));
    CHECK(count == 3);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphUpload(exec, stream));
    for (int i = 0; i < 3; i++)
        OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(host[0] == 0x77 && host[BYTES - 1] == 0x77);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaFree(device));
    OK(cudaStreamDestroy(stream));
}

static void synchronising_spoils_a_capture(void)
{
    int status = 0, mode = cudaStreamCaptureModeRelaxed;
    cudaStream_t stream;
    cudaGraph_t graph = NULL;
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    LAUNCH(DIM(1), DIM(32), stream, host_spin(1));
    GIVES(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream));
    OK(cudaStreamIsCapturing(stream, &status));
    CHECK(status == cudaStreamCaptureStatusInvalidated);
    GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
    CHECK(graph == NULL);
    cudaGetLastError();
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == cudaStreamCaptureModeGlobal);
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == cudaStreamCaptureModeRelaxed);
    OK(cudaStreamDestroy(stream));
}

static void count_call(void *counter)
{
    atomic_fetch_add((_Atomic int *)counter, 1);
}

struct built {
    cudaGraph_t graph;
    cudaGraphNode_t empty, kernel, memset, copy, host;
};

static struct built build(void *device, unsigned char *out, size_t bytes, _Atomic int *counter)
{
    static unsigned long long us = 50;
    static void *args[] = {&us};
    struct built b;
    struct cudaKernelNodeParams kernel = {.func = (void *)host_spin, .gridDim = {1, 1, 1}, .blockDim = {32, 1, 1}, .kernelParams = args};
    struct cudaMemsetParams set = {.dst = device, .value = 0x42, .elementSize = 1, .width = bytes, .height = 1};
    struct cudaHostNodeParams host = {count_call, (void *)counter};
    OK(cudaGraphCreate(&b.graph, 0));
    OK(cudaGraphAddEmptyNode(&b.empty, b.graph, NULL, 0));
    OK(cudaGraphAddKernelNode(&b.kernel, b.graph, &b.empty, 1, &kernel));
    OK(cudaGraphAddMemsetNode(&b.memset, b.graph, &b.kernel, 1, &set));
    OK(cudaGraphAddMemcpyNode1D(&b.copy, b.graph, &b.memset, 1, out, device, bytes, cudaMemcpyDeviceToHost));
    OK(cudaGraphAddHostNode(&b.host, b.graph, NULL, 0, &host));
    return b;
}

static void look_at(struct built *b)
{
    cudaGraphNode_t nodes[8], from[8], to[8];
    size_t count = 8;
    int type = -1;
    OK(cudaGraphGetNodes(b->graph, nodes, &count));
    CHECK(count == 5);
    count = 8;
    OK(cudaGraphGetRootNodes(b->graph, nodes, &count));
    CHECK(count == 2);
    OK(cudaGraphNodeGetType(b->kernel, &type));
    CHECK(type == 0);
    OK(cudaGraphNodeGetType(b->empty, &type));
    CHECK(type == 5);
    size_t edges = 8, before = 8;
#if NVS_CUDART_MAJOR == 12
    OK(cudaGraphAddDependencies(b->graph, &b->copy, &b->host, 1));
    OK(cudaGraphGetEdges(b->graph, from, to, &edges));
    OK(cudaGraphNodeGetDependencies(b->memset, nodes, &before));
#else
    OK(cudaGraphAddDependencies(b->graph, &b->copy, &b->host, NULL, 1));
    OK(cudaGraphGetEdges(b->graph, from, to, NULL, &edges));
    OK(cudaGraphNodeGetDependencies(b->memset, nodes, NULL, &before));
#endif
    CHECK(edges == 4 && before == 1 && nodes[0] == b->kernel);
}

static void a_graph_can_be_built_by_hand(void)
{
    enum { BYTES = 256 };
    static unsigned char out[BYTES];
    _Atomic int counter = 0;
    void *device;
    cudaGraph_t clone, parent;
    cudaGraphNode_t child, boxed;
    cudaGraphExec_t exec;
    cudaGraphExecUpdateResultInfo info;
    struct cudaMemcpy3DParms box = {.kind = cudaMemcpyDeviceToDevice, .extent = {BYTES / 2, 1, 1}};
    char path[] = "/tmp/nvshare-graph-XXXXXX";
    int fd = mkstemp(path);
    OK(cudaMalloc(&device, BYTES));
    struct built b = build(device, out, BYTES, &counter);
    look_at(&b);
    OK(cudaGraphDebugDotPrint(b.graph, path, 0));
    CHECK(fd >= 0 && lseek(fd, 0, SEEK_END) > 0);
    OK(cudaGraphClone(&clone, b.graph));
    OK(cudaGraphCreate(&parent, 0));
    OK(cudaGraphAddChildGraphNode(&child, parent, NULL, 0, clone));
    box.srcPtr = (struct cudaPitchedPtr){device, BYTES / 2, BYTES / 2, 1};
    box.dstPtr = (struct cudaPitchedPtr){(char *)device + BYTES / 2, BYTES / 2, BYTES / 2, 1};
    OK(cudaGraphAddMemcpyNode(&boxed, parent, &child, 1, &box));
    OK(cudaGraphInstantiateWithFlags(&exec, parent, 0));
    OK(cudaGraphExecUpdate(exec, parent, &info));
    OK(cudaGraphLaunch(exec, 0));
    OK(cudaDeviceSynchronize());
    CHECK(atomic_load(&counter) == 1 && out[0] == 0x42 && out[BYTES - 1] == 0x42);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroyNode(b.host));
    OK(cudaGraphDestroy(b.graph));
    OK(cudaGraphDestroy(clone));
    OK(cudaGraphDestroy(parent));
    OK(cudaFree(device));
    close(fd);
    unlink(path);
}

static void nodes_can_be_looked_at_and_changed(void)
{
    enum { BYTES = 64 };
    static unsigned char out[BYTES];
    _Atomic int first = 0, second = 0;
    void *device;
    unsigned enabled = 9;
    unsigned long long flags = 99;
    struct cudaKernelNodeParams kernel;
    struct cudaMemsetParams set;
    struct cudaHostNodeParams host;
    CUDA_GRAPH_INSTANTIATE_PARAMS how = {0};
    cudaGraphExec_t exec;
    OK(cudaMalloc(&device, BYTES));
    struct built b = build(device, out, BYTES, &first);
    OK(cudaGraphKernelNodeGetParams(b.kernel, &kernel));
    CHECK(kernel.func == (void *)host_spin && kernel.blockDim.x == 32);
    kernel.blockDim.x = 64;
    OK(cudaGraphKernelNodeSetParams(b.kernel, &kernel));
    OK(cudaGraphMemsetNodeGetParams(b.memset, &set));
    CHECK(set.dst == device && set.value == 0x42 && set.width == BYTES);
    set.value = 0x43;
    OK(cudaGraphMemsetNodeSetParams(b.memset, &set));
    OK(cudaGraphHostNodeGetParams(b.host, &host));
    CHECK(host.fn == count_call && host.userData == (void *)&first);
    OK(cudaGraphHostNodeSetParams(b.host, &host));
    OK(cudaGraphInstantiateWithParams(&exec, b.graph, &how));
    OK(cudaGraphExecGetFlags(exec, &flags));
    CHECK(flags == 0);
    set.value = 0x44;
    host.userData = (void *)&second;
    OK(cudaGraphKernelNodeGetParams(b.kernel, &kernel)); /* the parameters were the node's own: they went when it was changed */
    OK(cudaGraphExecKernelNodeSetParams(exec, b.kernel, &kernel));
    OK(cudaGraphExecMemsetNodeSetParams(exec, b.memset, &set));
    OK(cudaGraphExecHostNodeSetParams(exec, b.host, &host));
    OK(cudaGraphNodeSetEnabled(exec, b.kernel, 0));
    OK(cudaGraphNodeGetEnabled(exec, b.kernel, &enabled));
    CHECK(enabled == 0);
    OK(cudaGraphLaunch(exec, 0));
    OK(cudaDeviceSynchronize());
    CHECK(out[0] == 0x44 && first == 0 && second == 1);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(b.graph));
    OK(cudaFree(device));
}

static void events_memory_and_owners_in_graphs(void)
{
    CUDA_MEM_ALLOC_NODE_PARAMS memory = {.poolProps = {.allocType = 1, .location = {1, 0}}, .bytesize = 1 << 20}, seen;
    _Atomic int destroyed = 0;
    cudaGraph_t graph, child, found = NULL;
    cudaGraphNode_t record, wait, allocate, release, boxed;
    cudaGraphExec_t exec;
    cudaEvent_t event, got = NULL;
    CUuserObject object;
    CUdeviceptr freed = 0;
    OK(cudaEventCreate(&event));
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphCreate(&child, 0));
    OK(cudaGraphAddChildGraphNode(&boxed, graph, NULL, 0, child));
    OK(cudaGraphChildGraphNodeGetGraph(boxed, &found));
    CHECK(found != NULL);
    OK(cudaGraphAddEventRecordNode(&record, graph, NULL, 0, event));
    OK(cudaGraphEventRecordNodeGetEvent(record, &got));
    CHECK(got == event);
    got = NULL;
    OK(cudaGraphAddEventWaitNode(&wait, graph, &record, 1, event));
    OK(cudaGraphEventWaitNodeGetEvent(wait, &got));
    CHECK(got == event);
    OK(cudaGraphAddMemAllocNode(&allocate, graph, &wait, 1, &memory));
    OK(cudaGraphMemAllocNodeGetParams(allocate, &seen));
    CHECK(memory.dptr != 0 && seen.dptr == memory.dptr && seen.bytesize == 1 << 20);
    OK(cudaGraphAddMemFreeNode(&release, graph, &allocate, 1, (void *)(uintptr_t)memory.dptr));
    OK(cudaGraphMemFreeNodeGetParams(release, &freed));
    CHECK(freed == memory.dptr);
    OK(cudaUserObjectCreate(&object, (void *)&destroyed, count_call, 1, 1));
    OK(cudaUserObjectRetain(object, 1));
    OK(cudaUserObjectRelease(object, 1));
    OK(cudaGraphRetainUserObject(graph, object, 1, 1 /* the caller's reference moves */));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, 0));
    OK(cudaDeviceSynchronize());
    OK(cudaEventQuery(event));
    OK(cudaGraphExecDestroy(exec));
    CHECK(atomic_load(&destroyed) == 0);
    OK(cudaGraphReleaseUserObject(graph, object, 1));
    CHECK(atomic_load(&destroyed) == 1);
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphDestroy(child));
    OK(cudaEventDestroy(event));
}

int main(void)
{
    a_capture_becomes_a_graph_that_can_be_replayed();
    synchronising_spoils_a_capture();
    a_graph_can_be_built_by_hand();
    nodes_can_be_looked_at_and_changed();
    events_memory_and_owners_in_graphs();
    return failures != 0;
}
