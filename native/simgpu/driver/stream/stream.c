/* Streams: making and destroying them, the two default streams, waiting for one. What goes into them is in submit.c. */
#define _GNU_SOURCE
#include "driver/driver.h"

#include <stdlib.h>
#include <string.h>

/* Streams are recycled with their queue and their counts, which go on growing: a thread that still waits for a count of the
 * stream that was here before finds it reached. */
static CUstream recycled;
static pthread_mutex_t recycle_lock = PTHREAD_MUTEX_INITIALIZER;

void sim_stream_recycle(CUstream stream)
{
    pthread_mutex_lock(&recycle_lock);
    stream->next = recycled;
    recycled = stream;
    pthread_mutex_unlock(&recycle_lock);
}

static CUstream blank_stream(void)
{
    pthread_mutex_lock(&recycle_lock);
    CUstream stream = recycled;
    if (stream != NULL)
        recycled = stream->next;
    pthread_mutex_unlock(&recycle_lock);
    if (stream == NULL) {
        stream = calloc(1, sizeof *stream);
        struct sim_op *queue = malloc(SIM_QUEUE * sizeof *queue);
        if (stream == NULL || queue == NULL) {
            free(stream);
            free(queue);
            return NULL;
        }
        stream->queue = queue;
    }
    stream->next = stream->engine_next = NULL;
    stream->thread = 0;
    stream->seen_legacy = 0;
    stream->seen_by_legacy = atomic_load(&stream->tail);
    stream->capture = NULL;
    memset(stream->attributes, 0, sizeof stream->attributes);
    atomic_store(&stream->dying, false);
    stream->ready_ns = 0;
    stream->started = false;
    stream->graph_at = 0;
    stream->blocked_since_ns = 0;
    return stream;
}

CUresult sim_stream_make(CUcontext context, unsigned flags, int priority, CUstream *made)
{
    CUstream stream = blank_stream();
    if (stream == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->kind = SIM_STREAM;
    stream->flags = flags;
    stream->priority = priority;
    stream->context = context;
    stream->engine = context->engine;
    stream->id = atomic_fetch_add(&sim.ids, 1) + 1;
    stream->number = atomic_fetch_add(&sim.stream_numbers, 1);
    sim_engine_add_stream(context->engine, stream);
    *made = stream;
    return CUDA_SUCCESS;
}

CUresult sim_stream_add(CUcontext context, unsigned flags, int priority, uint64_t thread, CUstream *stream)
{
    SIM_TRY(sim_stream_make(context, flags, priority, stream));
    (*stream)->thread = thread;
    pthread_mutex_lock(&context->lock);
    (*stream)->next = context->streams;
    context->streams = *stream;
    pthread_mutex_unlock(&context->lock);
    return CUDA_SUCCESS;
}

/* Each thread has a default stream of its own in each context; made at first use. */
static CUresult thread_stream(CUcontext context, CUstream *stream)
{
    static __thread struct { CUcontext context; uint64_t id; CUstream stream; } last;
    uint64_t thread = sim_thread_token();
    if (last.context == context && last.id == context->id && sim_is(last.stream, SIM_STREAM)) {
        *stream = last.stream;
        return CUDA_SUCCESS;
    }
    *stream = NULL;
    pthread_mutex_lock(&context->lock);
    for (CUstream at = context->streams; at != NULL && *stream == NULL; at = at->next)
        if (at->thread == thread)
            *stream = at;
    pthread_mutex_unlock(&context->lock);
    if (*stream == NULL)
        SIM_TRY(sim_stream_add(context, CU_STREAM_DEFAULT, 0, thread, stream));
    last.context = context;
    last.id = context->id;
    last.stream = *stream;
    return CUDA_SUCCESS;
}

CUresult sim_stream_resolve(CUstream handle, bool per_thread, CUstream *stream)
{
    CUcontext context;
    SIM_ENTER();
    if ((uintptr_t)handle > 2) {
        if (!sim_is_live(handle, SIM_STREAM))
            return CUDA_ERROR_INVALID_HANDLE;
        *stream = handle;
        return (CUresult)atomic_load_explicit(&handle->context->error, memory_order_relaxed);
    }
    SIM_TRY(sim_current(&context));
    if (handle == CU_STREAM_PER_THREAD || (handle == NULL && per_thread))
        return thread_stream(context, stream);
    *stream = context->legacy;
    return CUDA_SUCCESS;
}

/* ---- waiting ---- */

static CUresult synchronize(CUstream handle, bool per_thread)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    SIM_TRY(sim_capture_no_sync(stream));
    if (stream == stream->context->legacy) {
        struct sim_op op = {.kind = SIM_OP_NOTHING}; /* orders after the blocking streams */
        return sim_submit_wait(stream, &op);
    }
    SIM_TRY(sim_stream_wait(stream, atomic_load(&stream->tail)));
    sim_pool_trim_all(stream->context->card);
    return CUDA_SUCCESS;
}

/* The legacy stream is as busy as any stream that it waits for. */
static bool is_idle(CUstream stream)
{
    bool idle = atomic_load(&stream->done.count) == atomic_load(&stream->tail);
    if (idle && stream == stream->context->legacy) {
        pthread_mutex_lock(&stream->context->lock);
        for (CUstream other = stream->context->streams; other != NULL; other = other->next)
            idle &= !sim_stream_is_blocking(other) || atomic_load(&other->done.count) == atomic_load(&other->tail);
        pthread_mutex_unlock(&stream->context->lock);
    }
    return idle;
}

static CUresult query(CUstream handle, bool per_thread)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    SIM_TRY(sim_capture_no_sync(stream));
    sim_context_pass_lock(stream->context);
    if (is_idle(stream))
        return CUDA_SUCCESS;
    sim_engine_catch_up(stream->engine);
    return is_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamSynchronize(CUstream stream) { return synchronize(stream, false); }
CUresult cuStreamSynchronize_ptsz(CUstream stream) { return synchronize(stream, true); }
CUresult cuStreamQuery(CUstream stream) { return query(stream, false); }
CUresult cuStreamQuery_ptsz(CUstream stream) { return query(stream, true); }

/* ---- making and destroying ---- */

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    if (stream == NULL || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    return sim_stream_add(context, flags, priority, 0, stream);
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    SIM_ENTER();
    if ((uintptr_t)stream <= 2 || !sim_is(stream, SIM_STREAM))
        return CUDA_ERROR_INVALID_HANDLE;
    CUcontext context = stream->context;
    SIM_TRY(sim_capture_no_sync(stream));
    pthread_mutex_lock(&context->lock);
    for (CUstream *link = &context->streams; *link != NULL; link = &(*link)->next) {
        if (*link == stream) {
            *link = stream->next;
            break;
        }
    }
    sim_submit_destroyed(stream);
    stream->kind = 0;
    pthread_mutex_unlock(&context->lock);
    atomic_store(&stream->dying, true);
    sim_engine_kick(context->engine, true);
    return CUDA_SUCCESS;
}

/* The form from before CUDA 4.0: it waits for the work of the stream. */
CUresult cuStreamDestroy(CUstream stream)
{
    SIM_ENTER();
    if ((uintptr_t)stream > 2 && sim_is(stream, SIM_STREAM)) {
        SIM_TRY(sim_capture_no_sync(stream));
        SIM_TRY(sim_stream_wait(stream, atomic_load(&stream->tail)));
    }
    return cuStreamDestroy_v2(stream);
}
