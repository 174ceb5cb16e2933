#include "gate/contexts.h"

#include <stdatomic.h>

#include "base/log.h"
#include "gate/calls.h"
#include "gate/drain.h"
#include "gate/enter.h"
#include "gate/frees.h"
#include "gate/streams.h"
#include "gpu.h"
#include "memory/memory.h"

enum { MOST_CONTEXTS = 1024 };

static struct known_context {
    CUcontext context;
    uint64_t number; /* struct nvs_context_id */
    struct nvs_gpu *gpu;
    bool is_primary;
    uint32_t doubts; /* the number of calls in progress that may destroy it */
} contexts[MOST_CONTEXTS];
static int context_count;
static uint64_t last_number;
/* The helper calls the driver in the context that it was given by nvs_context_use. */
static struct nvs_call helpers_use;

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

static CUcontext active_primary(int gpu)
{
    unsigned flags;
    int active = 0;
    CUcontext primary = NULL;
    if (nvs_real.cuDevicePrimaryCtxGetState(gpu, &flags, &active) != CUDA_SUCCESS || !active)
        return NULL;
    /* The only way to learn its handle is to retain it for a moment. It is active, so this makes nothing. */
    if (nvs_real.cuDevicePrimaryCtxRetain(&primary, gpu) != CUDA_SUCCESS)
        return NULL;
    nvs_real.cuDevicePrimaryCtxRelease_v2(gpu);
    return primary;
}

/* Another thread may have learned of it while the driver was asked. */
static struct known_context *add(const struct known_context *made)
{
    struct known_context *known = find(made->context);
    if (known || context_count == MOST_CONTEXTS)
        return known;
    known = &contexts[context_count++];
    *known = *made;
    known->number = ++last_number;
    atomic_fetch_add(&known->gpu->contexts, 1);
    if (context_count > 1 || nvs_gpu_count > 1)
        nvs_enter_by_context();
    nvs_memory_changed(known->gpu);
    return known;
}

struct nvs_gpu *nvs_context_known_gpu(CUcontext context)
{
    nvs_lock_take(&nvs_streams_lock);
    struct known_context *known = find(context);
    struct nvs_gpu *gpu = known ? known->gpu : NULL;
    nvs_lock_give(&nvs_streams_lock);
    return gpu;
}

static void say_full(void)
{
    static _Atomic bool has_said;
    if (!atomic_exchange(&has_said, true))
        nvs_warn("this program has more than %d CUDA contexts: work in the others does not wait for its turn", MOST_CONTEXTS);
}

struct nvs_gpu *nvs_context_gpu(CUcontext context)
{
    struct known_context *known;
    struct nvs_gpu *gpu = nvs_context_known_gpu(context);
    if (gpu || !context || !(gpu = ask_driver(context)))
        return gpu;
    struct known_context made = {.context = context, .gpu = gpu, .is_primary = active_primary(gpu->index) == context};
    nvs_lock_take(&nvs_streams_lock);
    known = add(&made);
    nvs_lock_give(&nvs_streams_lock);
    if (!known)
        say_full();
    return known ? gpu : NULL;
}

struct nvs_context_life nvs_context_life(CUcontext context)
{
    struct known_context *known = find(context);
    if (!known)
        return (struct nvs_context_life){NVS_CONTEXT_GONE, -1};
    return (struct nvs_context_life){known->doubts ? NVS_CONTEXT_IN_DOUBT : NVS_CONTEXT_ALIVE, known->is_primary ? known->gpu->index : -1};
}

bool nvs_context_goes_on(const struct nvs_context_life *life)
{
    unsigned flags;
    int active = 0;
    return life->primary_of < 0 || (nvs_real.cuDevicePrimaryCtxGetState(life->primary_of, &flags, &active) == CUDA_SUCCESS && active);
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

CUcontext nvs_context_learn_primary(int gpu)
{
    CUcontext known = nvs_context_primary(gpu);
    if (known)
        return known;
    nvs_context_seen(active_primary(gpu));
    return nvs_context_primary(gpu);
}

void nvs_context_seen(CUcontext context) { nvs_context_gpu(context); }

void nvs_context_may_end(CUcontext context)
{
    nvs_lock_take(&nvs_streams_lock);
    struct known_context *known = find(context);
    if (known) {
        known->doubts++;
        nvs_calls_await_context(context);
    }
    nvs_lock_give(&nvs_streams_lock);
}

void nvs_context_lives_on(CUcontext context)
{
    nvs_lock_take(&nvs_streams_lock);
    struct known_context *known = find(context);
    if (known && known->doubts) /* it may have ended in another thread's call, and a new one have its handle */
        known->doubts--;
    nvs_lock_give(&nvs_streams_lock);
}

static void forget(CUcontext context)
{
    struct known_context *known = find(context);
    if (!known)
        return; /* another thread has forgotten it meanwhile */
    nvs_streams_forget_context(context);
    nvs_drain_forget_context(context);
    nvs_frees_forget_context(context);
    atomic_fetch_sub(&known->gpu->contexts, 1);
    nvs_memory_changed(known->gpu);
    *known = contexts[--context_count];
}

/* In doubt until no call uses it, so that the helper begins none. */
void nvs_context_gone(CUcontext context)
{
    nvs_lock_take(&nvs_streams_lock);
    struct known_context *known = find(context);
    if (known) {
        known->doubts++;
        nvs_calls_await_context(context);
        forget(context);
    }
    nvs_lock_give(&nvs_streams_lock);
}

bool nvs_context_ended(CUcontext context)
{
    nvs_lock_take(&nvs_streams_lock);
    nvs_calls_await_context(context);
    struct known_context *known = find(context);
    bool is_new = known && !known->doubts;
    if (!is_new)
        forget(context);
    nvs_lock_give(&nvs_streams_lock);
    return !is_new;
}

/* USED: the lock is released. NONE: the context has ended. */
static enum nvs_context_use begin_use(const struct known_context *known, struct nvs_context_id *id)
{
    struct nvs_context_life life = nvs_context_life(known->context);
    if (life.state == NVS_CONTEXT_IN_DOUBT)
        return NVS_CONTEXT_BUSY;
    struct nvs_context_id found = {known->context, known->number};
    helpers_use = (struct nvs_call){.context = known->context};
    nvs_call_begin(&helpers_use);
    if (nvs_context_goes_on(&life)) {
        *id = found;
        return NVS_CONTEXT_USED;
    }
    nvs_call_end(&helpers_use);
    return NVS_CONTEXT_NONE;
}

static enum nvs_context_use begin_use_again(struct nvs_context_id *id)
{
    struct known_context *known = find(id->handle);
    return known && known->number == id->number ? begin_use(known, id) : NVS_CONTEXT_NONE;
}

/* The first one of the GPU that can be used; BUSY if there is only one that may be destroyed. */
static enum nvs_context_use begin_use_of_another(const struct nvs_gpu *gpu, struct nvs_context_id *id)
{
    uint64_t before = id->number;
    enum nvs_context_use use = NVS_CONTEXT_NONE;
    for (int i = 0; use != NVS_CONTEXT_USED && i < context_count; i++) {
        bool is_candidate = contexts[i].gpu == gpu && contexts[i].number != before;
        enum nvs_context_use one = is_candidate ? begin_use(&contexts[i], id) : NVS_CONTEXT_NONE;
        if (one != NVS_CONTEXT_NONE)
            use = one;
    }
    return use;
}

enum nvs_context_use nvs_context_use(const struct nvs_gpu *gpu, struct nvs_context_id *id)
{
    if (!nvs_lock_try(&nvs_streams_lock))
        return NVS_CONTEXT_BUSY;
    enum nvs_context_use use = begin_use_again(id);
    if (use == NVS_CONTEXT_NONE)
        use = begin_use_of_another(gpu, id);
    if (use != NVS_CONTEXT_USED)
        nvs_lock_give(&nvs_streams_lock);
    return use;
}

void nvs_context_use_end(void)
{
    nvs_call_end(&helpers_use);
    nvs_lock_give(&nvs_streams_lock);
}

void nvs_contexts_forked(void)
{
    context_count = 0;
    nvs_calls_forked();
}
