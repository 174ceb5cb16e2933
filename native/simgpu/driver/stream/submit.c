/* Submitting operations to streams, in the order that the legacy stream asks for, and waiting until they are retired. */
#include "driver/driver.h"

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
            if (!sim_stream_is_blocking(other) || !pending(other, other->seen_by_legacy))
                continue;
            other->seen_by_legacy = atomic_load_explicit(&other->tail, memory_order_relaxed);
            push_wait(legacy, other, now);
        }
    } else if (sim_stream_is_blocking(stream) && pending(legacy, stream->seen_legacy)) {
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

void sim_stream_await(CUstream stream, struct sim_engine *engine, uint64_t count)
{
    if (atomic_load(&stream->done.count) >= count)
        return;
    /* The engine may be sleeping beyond that operation: register first, then have it look again. */
    sim_counter_announce(&stream->done, count);
    sim_engine_kick(engine, true);
    sim_counter_wait(&stream->done, count);
}

CUresult sim_stream_wait(CUstream stream, uint64_t count)
{
    sim_stream_await(stream, stream->engine, count);
    return (CUresult)atomic_load(&stream->context->error);
}

/* Work of a stream that is being destroyed goes on. The legacy stream would not find it any more, so it is told now to
 * wait for it. The context's lock is held. */
void sim_submit_destroyed(CUstream stream)
{
    CUstream legacy = stream->context->legacy;
    if (sim_stream_is_blocking(stream) && pending(stream, stream->seen_by_legacy) && has_room(stream->context, legacy)
        && legacy->capture == NULL)
        push_wait(legacy, stream, sim_now_ns());
}
