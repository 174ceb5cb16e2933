/* Arrays, mipmaps and executable graphs: device memory that has no address. */
#include <stdlib.h>

#include "hooks/hooks.h"
#include "memory/memory.h"
#include "mover/graphs.h"

enum { ARRAY_SPARSE = 0x40, ARRAY_DEFERRED_MAPPING = 0x80 };
enum { MAX_NESTED_GRAPHS = 16 };

static uint64_t element_bytes(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    default: /* 32-bit formats, and formats of newer CUDA versions: none has more bytes per channel */
        return 4;
    }
}

static uint64_t at_least_one(uint64_t n) { return n ? n : 1; }

static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    if (d->Flags & (ARRAY_SPARSE | ARRAY_DEFERRED_MAPPING))
        return 0; /* backed by cuMemCreate later, if at all */
    return d->Width * at_least_one(d->Height) * at_least_one(d->Depth) * at_least_one(d->NumChannels) * element_bytes(d->Format);
}

static uint64_t mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
    CUDA_ARRAY3D_DESCRIPTOR level = *d;
    uint64_t bytes = 0;
    for (unsigned i = 0; i < levels && i < 32; i++) {
        bytes += array_bytes(&level);
        level.Width = at_least_one(level.Width / 2);
        level.Height = level.Height ? at_least_one(level.Height / 2) : 0;
        level.Depth = level.Depth ? at_least_one(level.Depth / 2) : 0;
    }
    return bytes;
}

static CUresult note_or_return(CUresult result, struct nvs_gpu *gpu, enum nvs_kind kind, const void *handle, uint64_t bytes)
{
    CUcontext context = NULL;
    nvs_real.cuCtxGetCurrent(&context);
    if (result != CUDA_SUCCESS)
        nvs_memory_return(gpu, bytes, false);
    else
        nvs_memory_note(&(struct nvs_ledger_entry){.key = (uintptr_t)handle, .bytes = bytes, .owner = (uintptr_t)context,
                                            .gpu = (uint16_t)gpu->index, .kind = (uint8_t)kind});
    return result;
}

/* The body of every function that creates something: charge `bytes`, make the driver's `call`, note `*handle` or return the charge. */
#define CHARGE(kind, handle, bytes, call) \
    do { \
        struct nvs_gpu *gpu = nvs_gpu_current(); \
        uint64_t size = gpu ? (bytes) : 0; \
        if (!size) \
            return call; \
        CUresult reserved = nvs_memory_reserve(gpu, size, false); \
        if (reserved != CUDA_SUCCESS) \
            return reserved; \
        CUresult result = call; \
        return note_or_return(result, gpu, kind, result == CUDA_SUCCESS ? *(handle) : NULL, size); \
    } while (0)

static CUresult uncharge(CUresult result, bool is_ours, const struct nvs_ledger_entry *entry)
{
    if (is_ours && result == CUDA_SUCCESS)
        nvs_memory_return_entry(entry);
    else if (is_ours)
        nvs_memory_note(entry);
    return result;
}

CUresult cuArrayCreate_v2(CUarray *a, const CUDA_ARRAY_DESCRIPTOR *desc)
{
    NVS_BEGIN_HOOK(cuArrayCreate_v2(a, desc));
    CUDA_ARRAY3D_DESCRIPTOR full = {0};
    if (desc)
        full = (CUDA_ARRAY3D_DESCRIPTOR){.Width = desc->Width, .Height = desc->Height, .Format = desc->Format, .NumChannels = desc->NumChannels};
    CHARGE(NVS_KIND_ARRAY, a, array_bytes(&full), nvs_real.cuArrayCreate_v2(a, desc));
}

CUresult cuArray3DCreate_v2(CUarray *a, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    NVS_BEGIN_HOOK(cuArray3DCreate_v2(a, desc));
    CHARGE(NVS_KIND_ARRAY, a, desc ? array_bytes(desc) : 0, nvs_real.cuArray3DCreate_v2(a, desc));
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *a, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels)
{
    NVS_BEGIN_HOOK(cuMipmappedArrayCreate(a, desc, levels));
    CHARGE(NVS_KIND_MIPMAP, a, desc ? mipmap_bytes(desc, levels) : 0, nvs_real.cuMipmappedArrayCreate(a, desc, levels));
}

CUresult cuArrayDestroy(CUarray a)
{
    NVS_BEGIN_HOOK(cuArrayDestroy(a));
    struct nvs_ledger_entry entry;
    bool is_ours = nvs_memory_take(NVS_KIND_ARRAY, (uintptr_t)a, &entry);
    return uncharge(nvs_real.cuArrayDestroy(a), is_ours, &entry);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray a)
{
    NVS_BEGIN_HOOK(cuMipmappedArrayDestroy(a));
    struct nvs_ledger_entry entry;
    bool is_ours = nvs_memory_take(NVS_KIND_MIPMAP, (uintptr_t)a, &entry);
    return uncharge(nvs_real.cuMipmappedArrayDestroy(a), is_ours, &entry);
}

/* The sum of the graph's allocation nodes. The driver needs less if it places several of them at one address. */
static uint64_t graph_bytes(CUgraph graph, int depth)
{
    size_t count = 0;
    uint64_t bytes = 0;
    if (depth > MAX_NESTED_GRAPHS || nvs_real.cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS || !count)
        return 0;
    CUgraphNode *nodes = calloc(count, sizeof *nodes);
    if (nodes && nvs_real.cuGraphGetNodes(graph, nodes, &count) == CUDA_SUCCESS)
        for (size_t i = 0; i < count; i++) {
            CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
            CUDA_MEM_ALLOC_NODE_PARAMS params = {0};
            CUgraph child;
            nvs_real.cuGraphNodeGetType(nodes[i], &type);
            if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && nvs_real.cuGraphMemAllocNodeGetParams(nodes[i], &params) == CUDA_SUCCESS)
                bytes += params.bytesize;
            else if (type == CU_GRAPH_NODE_TYPE_GRAPH && nvs_real.cuGraphChildGraphNodeGetGraph(nodes[i], &child) == CUDA_SUCCESS)
                bytes += graph_bytes(child, depth + 1);
        }
    free(nodes);
    return bytes;
}

static CUresult instantiated(CUresult result, const CUgraphExec *exec, CUgraph graph)
{
    if (result == CUDA_SUCCESS)
        nvs_graphs_instantiated(*exec, graph);
    return result;
}

#define INSTANTIATE(symbol, params, args) \
    CUresult symbol params \
    { \
        NVS_BEGIN_HOOK(symbol args); \
        CHARGE(NVS_KIND_GRAPH_EXEC, x, graph_bytes(g, 0), instantiated(nvs_real.symbol args, x, g)); \
    }
INSTANTIATE(cuGraphInstantiate, (CUgraphExec *x, CUgraph g, CUgraphNode *err, char *log, size_t n), (x, g, err, log, n))
INSTANTIATE(cuGraphInstantiate_v2, (CUgraphExec *x, CUgraph g, CUgraphNode *err, char *log, size_t n), (x, g, err, log, n))
INSTANTIATE(cuGraphInstantiateWithFlags, (CUgraphExec *x, CUgraph g, unsigned long long flags), (x, g, flags))
INSTANTIATE(cuGraphInstantiateWithParams, (CUgraphExec *x, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p), (x, g, p))
INSTANTIATE(cuGraphInstantiateWithParams_ptsz, (CUgraphExec *x, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p), (x, g, p))

CUresult cuGraphExecDestroy(CUgraphExec x)
{
    NVS_BEGIN_HOOK(cuGraphExecDestroy(x));
    struct nvs_ledger_entry entry;
    nvs_graphs_forget(x);
    bool is_ours = nvs_memory_take(NVS_KIND_GRAPH_EXEC, (uintptr_t)x, &entry);
    return uncharge(nvs_real.cuGraphExecDestroy(x), is_ours, &entry);
}
