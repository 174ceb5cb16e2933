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
    uint32_t doubts; /* how many calls are under way that may destroy it */
} contexts[MOST_CONTEXTS];
static int context_count;
/* The helper calls the driver in this context. Stored under the lock; the thread that has forgotten a context under the lock, or has
 * put it in doubt, waits until it is another one. In the other order the context could be destroyed under the helper's call. */
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

enum nvs_context_state nvs_context_state(CUcontext context)
{
    struct known_context *known = find(context);
    unsigned flags;
    int active = 0;
    if (!known)
        return NVS_CONTEXT_GONE;
    if (known->doubts)
        return NVS_CONTEXT_IN_DOUBT;
    if (!known->is_primary)
        return NVS_CONTEXT_ALIVE;
    bool is_active = nvs_real.cuDevicePrimaryCtxGetState(known->gpu->index, &flags, &active) == CUDA_SUCCESS && active;
    return is_active ? NVS_CONTEXT_ALIVE : NVS_CONTEXT_GONE;
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

static void wait_until_unused(CUcontext context)
{
    while (atomic_load(&in_use) == context && context)
        nvs_sleep_ns(USE_LOOK_NS);
}

void nvs_context_may_end(CUcontext context)
{
    nvs_lock_take(&nvs_streams_lock);
    struct known_context *known = find(context);
    if (known)
        known->doubts++;
    nvs_lock_give(&nvs_streams_lock);
    wait_until_unused(context);
}

void nvs_context_lives_on(CUcontext context)
{
    nvs_lock_take(&nvs_streams_lock);
    struct known_context *known = find(context);
    if (known && known->doubts) /* it may have ended in another thread's call, and a new one have its handle */
        known->doubts--;
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
    wait_until_unused(context);
}

enum nvs_context_use nvs_context_use(const struct nvs_gpu *gpu, CUcontext *context)
{
    enum nvs_context_use use = NVS_CONTEXT_NONE;
    if (!nvs_lock_try(&nvs_streams_lock))
        return NVS_CONTEXT_BUSY;
    for (int i = 0; i < context_count && use != NVS_CONTEXT_USED; i++) {
        enum nvs_context_state state = contexts[i].gpu == gpu ? nvs_context_state(contexts[i].context) : NVS_CONTEXT_GONE;
        if (state == NVS_CONTEXT_ALIVE) {
            *context = contexts[i].context;
            atomic_store(&in_use, *context);
            use = NVS_CONTEXT_USED;
        } else if (state == NVS_CONTEXT_IN_DOUBT) {
            use = NVS_CONTEXT_BUSY;
        }
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
