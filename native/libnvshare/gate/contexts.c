#include "gate/contexts.h"

#include <stdatomic.h>

#include "gate/drain.h"
#include "gate/enter.h"
#include "gate/frees.h"
#include "gate/streams.h"
#include "gpu.h"
#include "memory/memory.h"

enum { MOST_CONTEXTS = 1024 };
#define USE_LOOK_NS 20000

static struct known_context {
    CUcontext context;
    struct nvs_gpu *gpu;
    bool is_primary;
} contexts[MOST_CONTEXTS];
static int context_count;
/* The helper calls the driver in this context. Stored under the lock; the thread that has forgotten a context under the lock waits
 * until it is another one. In the other order the context could be destroyed under the helper's call. */
static _Atomic(CUcontext) in_use;

static struct known_context *find(CUcontext context)
{
    for (int i = 0; i < context_count; i++)
        if (contexts[i].context == context)
            return &contexts[i];
    return NULL;
}

static struct nvs_gpu *ask_driver(CUcontext context)
{
    CUcontext popped;
    CUdevice device = -1;
    if (nvs_real.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return NULL;
    CUresult result = nvs_real.cuCtxGetDevice(&device);
    nvs_real.cuCtxPopCurrent_v2(&popped);
    return result == CUDA_SUCCESS && device >= 0 && device < nvs_gpu_count ? &nvs_gpus[device] : NULL;
}

static bool is_primary(CUcontext context, int gpu)
{
    unsigned flags;
    int active = 0;
    CUcontext primary = NULL;
    if (nvs_real.cuDevicePrimaryCtxGetState(gpu, &flags, &active) != CUDA_SUCCESS || !active)
        return false;
    /* The only way to learn its handle is to retain it for a moment. It is active, so this makes nothing. */
    if (nvs_real.cuDevicePrimaryCtxRetain(&primary, gpu) != CUDA_SUCCESS)
        return false;
    nvs_real.cuDevicePrimaryCtxRelease_v2(gpu);
    return primary == context;
}

static struct known_context *learn(CUcontext context)
{
    struct known_context *known = find(context);
    if (known || !context)
        return known;
    struct nvs_gpu *gpu = context_count < MOST_CONTEXTS ? ask_driver(context) : NULL;
    if (!gpu)
        return NULL;
    known = &contexts[context_count++];
    *known = (struct known_context){.context = context, .gpu = gpu, .is_primary = is_primary(context, gpu->index)};
    atomic_fetch_add(&gpu->contexts, 1);
    if (context_count > 1 || nvs_gpu_count > 1)
        nvs_enter_by_context();
    nvs_memory_changed(gpu);
    return known;
}

struct nvs_gpu *nvs_context_gpu(CUcontext context)
{
    struct known_context *known = learn(context);
    return known ? known->gpu : NULL;
}

bool nvs_context_is_alive(CUcontext context)
{
    struct known_context *known = find(context);
    unsigned flags;
    int active = 0;
    if (!known || !known->is_primary)
        return known != NULL;
    return nvs_real.cuDevicePrimaryCtxGetState(known->gpu->index, &flags, &active) == CUDA_SUCCESS && active;
}

CUcontext nvs_context_primary(int gpu)
{
    CUcontext found = NULL;
    nvs_lock_take(&nvs_streams_lock);
    for (int i = 0; i < context_count; i++)
        if (contexts[i].is_primary && contexts[i].gpu->index == gpu)
            found = contexts[i].context;
    nvs_lock_give(&nvs_streams_lock);
    return found;
}

void nvs_context_seen(CUcontext context)
{
    nvs_lock_take(&nvs_streams_lock);
    learn(context);
    nvs_lock_give(&nvs_streams_lock);
}

void nvs_context_gone(CUcontext context)
{
    nvs_lock_take(&nvs_streams_lock);
    struct known_context *known = find(context);
    if (known) {
        nvs_streams_forget_context(context);
        nvs_drain_forget_context(context);
        nvs_frees_forget_context(context);
        atomic_fetch_sub(&known->gpu->contexts, 1);
        nvs_memory_changed(known->gpu);
        *known = contexts[--context_count];
    }
    nvs_lock_give(&nvs_streams_lock);
    while (atomic_load(&in_use) == context && context)
        nvs_sleep_ns(USE_LOOK_NS);
}

enum nvs_context_use nvs_context_use(const struct nvs_gpu *gpu, CUcontext *context)
{
    enum nvs_context_use use = NVS_CONTEXT_NONE;
    if (!nvs_lock_try(&nvs_streams_lock))
        return NVS_CONTEXT_BUSY;
    for (int i = 0; i < context_count && use == NVS_CONTEXT_NONE; i++)
        if (contexts[i].gpu == gpu && nvs_context_is_alive(contexts[i].context)) {
            *context = contexts[i].context;
            atomic_store(&in_use, *context);
            use = NVS_CONTEXT_USED;
        }
    nvs_lock_give(&nvs_streams_lock);
    return use;
}

void nvs_context_use_end(void) { atomic_store(&in_use, NULL); }

void nvs_contexts_forked(void)
{
    context_count = 0;
    atomic_store(&in_use, NULL);
}
