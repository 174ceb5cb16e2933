/* Streams: queues of operations, the two default streams, waiting. */
#define _GNU_SOURCE
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* Streams are recycled with their queue and their counts, which go on growing: whoever still waits for a count of the
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

static CUresult add_to_context(CUcontext context, unsigned flags, int priority, uint64_t thread, CUstream *stream)
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
        SIM_TRY(add_to_context(context, CU_STREAM_DEFAULT, 0, thread, stream));
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
        if (!sim_is(handle, SIM_STREAM))
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

/* ---- submitting ---- */

static bool blocking(const struct CUstream_st *stream) { return (stream->flags & CU_STREAM_NON_BLOCKING) == 0; }

static void push(CUstream stream, const struct sim_op *op)
{
    uint64_t tail = atomic_load_explicit(&stream->tail, memory_order_relaxed);
    stream->queue[tail % SIM_QUEUE] = *op;
    atomic_store(&stream->tail, tail + 1);
    sim_engine_kick(stream->engine, atomic_load(&stream->done.count) == tail);
}

static bool pending(CUstream stream, uint64_t seen)
{
    uint64_t tail = atomic_load_explicit(&stream->tail, memory_order_relaxed);
    return tail != seen && atomic_load_explicit(&stream->done.count, memory_order_acquire) < tail;
}

static void push_wait(CUstream stream, CUstream other, uint64_t now)
{
    struct sim_op op = {.kind = SIM_OP_WAIT_STREAM, .submit_ns = now};
    op.u.stream.stream = other;
    op.u.stream.count = atomic_load_explicit(&other->tail, memory_order_relaxed);
    push(stream, &op);
}

/* The legacy stream waits for all blocking streams, and they for it. */
static void order_with_legacy(CUcontext context, CUstream stream, uint64_t now)
{
    CUstream legacy = context->legacy;
    if (stream == legacy) {
        for (CUstream other = context->streams; other != NULL; other = other->next) {
            if (!blocking(other) || !pending(other, other->seen_by_legacy))
                continue;
            other->seen_by_legacy = atomic_load_explicit(&other->tail, memory_order_relaxed);
            push_wait(legacy, other, now);
        }
    } else if (blocking(stream) && pending(legacy, stream->seen_legacy)) {
        stream->seen_legacy = atomic_load_explicit(&legacy->tail, memory_order_relaxed);
        push_wait(stream, legacy, now);
    }
}

static bool has_room(CUcontext context, CUstream stream)
{
    uint64_t needed = 2;
    if (stream == context->legacy)
        for (CUstream other = context->streams; other != NULL; other = other->next)
            needed++;
    if (needed > SIM_QUEUE)
        needed = SIM_QUEUE;
    uint64_t tail = atomic_load_explicit(&stream->tail, memory_order_relaxed);
    return tail + needed - atomic_load_explicit(&stream->done.count, memory_order_acquire) <= SIM_QUEUE;
}

CUresult sim_submit_counted(CUstream stream, struct sim_op *op, uint64_t *count)
{
    CUcontext context = stream->context;
    op->submit_ns = sim_now_ns();
    pthread_mutex_lock(&context->lock);
    for (;;) {
        if (stream->capture != NULL) {
            CUresult result = sim_capture_op(stream, op);
            pthread_mutex_unlock(&context->lock);
            *count = 0;
            return result;
        }
        if (stream == context->legacy && atomic_load_explicit(&context->capturing_blocking, memory_order_relaxed) != 0) {
            pthread_mutex_unlock(&context->lock);
            return sim_capture_legacy(context);
        }
        if (has_room(context, stream))
            break;
        uint64_t tail = atomic_load(&stream->tail);
        pthread_mutex_unlock(&context->lock);
        sim_stream_wait(stream, tail - SIM_QUEUE / 2);
        pthread_mutex_lock(&context->lock);
    }
    order_with_legacy(context, stream, op->submit_ns);
    push(stream, op);
    *count = atomic_load_explicit(&stream->tail, memory_order_relaxed);
    pthread_mutex_unlock(&context->lock);
    return CUDA_SUCCESS;
}

CUresult sim_submit(CUstream stream, struct sim_op *op)
{
    uint64_t count;
    return sim_submit_counted(stream, op, &count);
}

CUresult sim_submit_wait(CUstream stream, struct sim_op *op)
{
    uint64_t count;
    SIM_TRY(sim_submit_counted(stream, op, &count));
    return sim_stream_wait(stream, count);
}

/* ---- waiting ---- */

void sim_stream_await(CUstream stream, uint64_t count)
{
    if (atomic_load(&stream->done.count) >= count)
        return;
    /* The engine may be sleeping beyond that operation: register first, then have it look again. */
    sim_gate_announce(&stream->done, count);
    sim_engine_kick(stream->engine, true);
    sim_gate_wait(&stream->done, count);
}

CUresult sim_stream_wait(CUstream stream, uint64_t count)
{
    sim_stream_await(stream, count);
    return (CUresult)atomic_load(&stream->context->error);
}

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

static CUresult query(CUstream handle, bool per_thread)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    SIM_TRY(sim_capture_no_sync(stream));
    bool idle = atomic_load(&stream->done.count) == atomic_load(&stream->tail);
    if (stream == stream->context->legacy) {
        pthread_mutex_lock(&stream->context->lock);
        for (CUstream other = stream->context->streams; other != NULL; other = other->next)
            idle &= !blocking(other) || atomic_load(&other->done.count) == atomic_load(&other->tail);
        pthread_mutex_unlock(&stream->context->lock);
    }
    return idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
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
    return add_to_context(context, flags, priority, 0, stream);
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
    /* Work under way goes on. The legacy stream would not find it any more, so it is told to wait for it now. */
    if (blocking(stream) && pending(stream, stream->seen_by_legacy) && has_room(context, context->legacy)
        && context->legacy->capture == NULL)
        push_wait(context->legacy, stream, sim_now_ns());
    stream->kind = 0;
    pthread_mutex_unlock(&context->lock);
    atomic_store(&stream->dying, true);
    sim_engine_kick(context->engine, true);
    return CUDA_SUCCESS;
}
