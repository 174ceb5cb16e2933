#include "streams.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "drain.h"
#include "passage.h"
#include "process.h"
#include "session.h"

enum { BUCKETS = 256, MOST_CONTEXTS = 1024 };

struct nvs_lock nvs_streams_lock;
_Atomic int nvs_captures;

static struct nvs_stream *buckets[BUCKETS];

static struct known_context {
    CUcontext context;
    struct nvs_gpu *gpu;
    bool is_primary;
} contexts[MOST_CONTEXTS];
static int context_count;

static struct known_context *context_find(CUcontext context)
{
    for (int i = 0; i < context_count; i++)
        if (contexts[i].context == context)
            return &contexts[i];
    return NULL;
}

static struct nvs_gpu *gpu_of_context(CUcontext context)
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

static struct known_context *context_learn(CUcontext context)
{
    struct known_context *known = context_find(context);
    if (known || !context)
        return known;
    struct nvs_gpu *gpu = context_count < MOST_CONTEXTS ? gpu_of_context(context) : NULL;
    if (!gpu)
        return NULL;
    known = &contexts[context_count++];
    *known = (struct known_context){.context = context, .gpu = gpu, .is_primary = is_primary(context, gpu->index)};
    atomic_fetch_add(&gpu->contexts, 1);
    if (context_count > 1 || nvs_gpu_count > 1)
        atomic_fetch_or(&nvs_passage_mode, NVS_BY_CONTEXT);
    nvs_memory_changed(gpu);
    return known;
}

bool nvs_context_is_alive(CUcontext context)
{
    struct known_context *known = context_find(context);
    unsigned flags;
    int active = 0;
    if (!known || !known->is_primary)
        return known != NULL;
    return nvs_real.cuDevicePrimaryCtxGetState(known->gpu->index, &flags, &active) == CUDA_SUCCESS && active;
}

CUcontext nvs_primary_context(int gpu)
{
    CUcontext found = NULL;
    nvs_lock_take(&nvs_streams_lock);
    for (int i = 0; i < context_count; i++)
        if (contexts[i].is_primary && contexts[i].gpu->index == gpu)
            found = contexts[i].context;
    nvs_lock_give(&nvs_streams_lock);
    return found;
}

static struct nvs_stream **bucket_of(uintptr_t handle, CUcontext context)
{
    uintptr_t key = handle > 2 ? handle : (uintptr_t)context + handle;
    return &buckets[(key ^ key >> 7 ^ key >> 15) % BUCKETS];
}

static CUcontext context_of_handle(uintptr_t handle)
{
    CUcontext context = NULL;
    if (handle > 2 && nvs_real.cuStreamGetCtx((CUstream)handle, &context) == CUDA_SUCCESS && context)
        return context;
    nvs_real.cuCtxGetCurrent(&context);
    return context;
}

struct nvs_stream *nvs_stream_find(uintptr_t handle, bool create)
{
    CUcontext context = NULL;
    if (handle <= 2 && (nvs_real.cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context))
        return NULL;
    struct nvs_stream **bucket = bucket_of(handle, context);
    for (struct nvs_stream *at = *bucket; at; at = at->next)
        if (at->handle == handle && (handle > 2 || at->context == context))
            return at;
    struct known_context *known = create ? context_learn(context_of_handle(handle)) : NULL;
    struct nvs_stream *made = known ? calloc(1, sizeof *made) : NULL;
    if (!made)
        return NULL;
    *made = (struct nvs_stream){.next = *bucket, .handle = handle, .context = known->context, .gpu = known->gpu};
    return *bucket = made;
}

static struct nvs_stream *first_from(int bucket)
{
    while (bucket < BUCKETS && !buckets[bucket])
        bucket++;
    return bucket < BUCKETS ? buckets[bucket] : NULL;
}

struct nvs_stream *nvs_stream_first(void) { return first_from(0); }

struct nvs_stream *nvs_stream_after(const struct nvs_stream *stream)
{
    return stream->next ? stream->next : first_from((int)(bucket_of(stream->handle, stream->context) - buckets) + 1);
}

static uint32_t window_of(const struct nvs_stream *stream)
{
    if (!nvs_session_paces())
        return NVS_PACE_MOST; /* nobody to make way for */
    return stream->pace.window ? stream->pace.window : 1;
}

bool nvs_stream_use(uintptr_t handle, uint32_t spent, struct nvs_stream_use *use)
{
    nvs_lock_take(&nvs_streams_lock);
    struct nvs_stream *stream = nvs_stream_find(handle, true);
    if (!stream || (nvs_stream_may_capture(stream) && nvs_stream_captures(stream))) {
        nvs_lock_give(&nvs_streams_lock);
        return false;
    }
    stream->submitted += spent;
    if (stream->submitted >= window_of(stream) && !stream->is_pacing) {
        stream->submitted = 0;
        if (nvs_session_paces())
            nvs_stream_pace(stream); /* gives and takes the lock */
        stream = nvs_stream_find(handle, true);
    }
    if (stream) {
        uint32_t window = window_of(stream);
        *use = (struct nvs_stream_use){.gpu = stream->gpu, .handle = handle};
        use->window = stream->submitted < window ? window - stream->submitted : 1;
    }
    nvs_lock_give(&nvs_streams_lock);
    return stream != NULL;
}

bool nvs_stream_note(const struct nvs_stream_use *use)
{
    nvs_lock_take(&nvs_streams_lock);
    struct nvs_stream *stream = nvs_stream_find(use->handle, true);
    if (stream && !stream->is_noted) {
        stream->is_noted = true;
        stream->gpu->noted_streams++;
    }
    nvs_lock_give(&nvs_streams_lock);
    return stream != NULL;
}

void nvs_context_seen(CUcontext context)
{
    nvs_lock_take(&nvs_streams_lock);
    context_learn(context);
    nvs_lock_give(&nvs_streams_lock);
}

/* The events go with the stream; what is still running on it leaves one behind. */
static void stream_end(struct nvs_stream *stream, bool context_lives)
{
    if (context_lives) {
        if (stream->is_noted)
            nvs_drain_leave_orphan(stream);
        nvs_drain_drop_events(stream);
    }
    if (stream->is_capturing)
        atomic_fetch_sub(&nvs_captures, 1);
    if (stream->is_noted)
        stream->gpu->noted_streams--;
    nvs_gate_forget_streams(stream->gpu);
    free(stream);
}

void nvs_stream_gone(CUstream handle)
{
    nvs_lock_take(&nvs_streams_lock);
    for (struct nvs_stream **at = bucket_of((uintptr_t)handle, NULL); *at; at = &(*at)->next)
        if ((*at)->handle == (uintptr_t)handle) {
            struct nvs_stream *gone = *at;
            *at = gone->next;
            stream_end(gone, nvs_context_is_alive(gone->context));
            break;
        }
    nvs_lock_give(&nvs_streams_lock);
}

void nvs_context_gone(CUcontext context)
{
    nvs_lock_take(&nvs_streams_lock);
    struct known_context *known = context_find(context);
    for (int i = 0; known && i < BUCKETS; i++)
        for (struct nvs_stream **at = &buckets[i]; *at;) {
            struct nvs_stream *gone = *at;
            if (gone->context != context) {
                at = &gone->next;
                continue;
            }
            *at = gone->next;
            stream_end(gone, false);
        }
    if (known) {
        nvs_drain_forget_context(context);
        atomic_fetch_sub(&known->gpu->contexts, 1);
        nvs_memory_changed(known->gpu);
        *known = contexts[--context_count];
    }
    nvs_lock_give(&nvs_streams_lock);
}

void nvs_streams_forked(void)
{
    nvs_streams_lock = (struct nvs_lock){0};
    memset(buckets, 0, sizeof buckets); /* the records belong to the parent's contexts: left where they are */
    context_count = 0;
    atomic_store(&nvs_captures, 0);
}
