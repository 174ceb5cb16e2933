/* What each kind of operation does when it reaches the head of its stream. Kernels are in kernel.c, copies in transfer.c. */
#include "driver/engine/engine.h"
#include "driver/graph/graph.h"

static uint64_t latest(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* The operation at the head: one of a graph's while a graph launch is at the head. */
const struct sim_op *sim_operation_peek(CUstream stream, uint32_t k)
{
    uint64_t head = atomic_load_explicit(&stream->done.count, memory_order_relaxed);
    const struct sim_op *first = &stream->queue[head % SIM_QUEUE];
    if (first->kind == SIM_OP_GRAPH && head < atomic_load_explicit(&stream->tail, memory_order_acquire)) {
        const struct CUgraphExec_st *exec = first->u.graph.exec;
        return stream->graph_at + k < exec->count ? &exec->operations[stream->graph_at + k] : NULL;
    }
    if (head + k >= atomic_load_explicit(&stream->tail, memory_order_acquire))
        return NULL;
    return &stream->queue[(head + k) % SIM_QUEUE];
}

/* ---- host functions ---- */

static void run_host(void *data)
{
    const struct sim_op *op = data;
    if (op->u.host.callback != NULL)
        op->u.host.callback(op->u.host.stream, CUDA_SUCCESS, op->u.host.data);
    else
        op->u.host.function(op->u.host.data);
}

static bool step_host(struct sim_engine *engine, CUstream stream, struct sim_op *op, uint64_t now)
{
    if (!stream->started) {
        stream->started = true;
        stream->begin_ns = latest(op->submit_ns, stream->ready_ns);
        stream->record = sim_trace_write(&(struct sim_trace_record){
            .kind = SIM_TRACE_HOST, .card = engine->card, .begin_ns = stream->begin_ns, .stream = stream->number});
        stream->job = sim_job_start(run_host, op, sizeof *op, true);
    }
    if (stream->job == NULL || !sim_job_done(stream->job))
        return false;
    sim_job_free(stream->job);
    stream->job = NULL;
    stream->end_ns = now;
    if (stream->record != NULL)
        __atomic_store_n(&stream->record->end_ns, now, __ATOMIC_RELEASE);
    return true;
}

/* ---- events, other streams, values in memory ---- */

/* Operations of graphs carry no number: the event is recorded when the node runs, and refers to no queue entry. */
static bool step_event(CUstream stream, struct sim_op *op)
{
    CUevent event = op->u.event.event;
    uint64_t number = op->u.event.number != 0 ? op->u.event.number : atomic_fetch_add(&event->recorded, 1) + 1;
    stream->end_ns = latest(op->submit_ns, stream->ready_ns);
    if (number > atomic_load(&event->completed.count)) { /* else a later record was faster */
        atomic_store(&event->time_ns, stream->end_ns);
        sim_counter_raise(&event->completed, number);
        sim_event_tell_completed(event, number);
    }
    if (op->u.event.number != 0)
        sim_event_release(event);
    return true;
}

static bool step_wait_event(CUstream stream, struct sim_op *op)
{
    CUevent event = op->u.event.event;
    CUstream other = op->u.event.stream;
    uint64_t number = op->u.event.number != 0 ? op->u.event.number : atomic_load(&event->recorded);
    if (other != NULL ? atomic_load(&other->done.count) < op->u.event.count : atomic_load(&event->completed.count) < number)
        return false;
    bool newest = other == NULL || atomic_load(&event->completed.count) == op->u.event.number;
    stream->end_ns = latest(stream->ready_ns, newest ? atomic_load(&event->time_ns) : other->ready_ns);
    if (op->u.event.number != 0)
        sim_event_release(event);
    return true;
}

static bool step_wait_stream(CUstream stream, struct sim_op *op)
{
    CUstream other = op->u.stream.stream;
    if (atomic_load(&other->done.count) < op->u.stream.count)
        return false;
    stream->end_ns = latest(stream->ready_ns, other->ready_ns);
    return true;
}

static uint64_t load_value(const struct sim_op *op)
{
    if (op->u.value.wide)
        return __atomic_load_n((const uint64_t *)(uintptr_t)op->u.value.address, __ATOMIC_ACQUIRE);
    return __atomic_load_n((const uint32_t *)(uintptr_t)op->u.value.address, __ATOMIC_ACQUIRE);
}

static bool value_reached(const struct sim_op *op)
{
    uint64_t seen = load_value(op), wanted = op->u.value.value;
    switch (op->u.value.flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return op->u.value.wide ? (int64_t)(seen - wanted) >= 0 : (int32_t)(uint32_t)(seen - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return seen == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
        return (seen & wanted) != 0;
    default:
        return op->u.value.wide ? ~(seen | wanted) != 0 : (uint32_t)~(seen | wanted) != 0;
    }
}

static bool step_value(struct sim_engine *engine, CUstream stream, struct sim_op *op, uint64_t now)
{
    if (op->kind == SIM_OP_WAIT_VALUE && !value_reached(op)) {
        sim_poll_later(engine, stream, now);
        return false;
    }
    /* The value may have been written after `now` was taken, and what is behind it submitted. */
    stream->end_ns = op->kind == SIM_OP_WAIT_VALUE ? sim_now_ns() : latest(op->submit_ns, stream->ready_ns);
    if (op->kind == SIM_OP_WRITE_VALUE && op->u.value.wide)
        __atomic_store_n((uint64_t *)(uintptr_t)op->u.value.address, op->u.value.value, __ATOMIC_RELEASE);
    else if (op->kind == SIM_OP_WRITE_VALUE)
        __atomic_store_n((uint32_t *)(uintptr_t)op->u.value.address, (uint32_t)op->u.value.value, __ATOMIC_RELEASE);
    return true;
}

static bool step_free(CUstream stream, struct sim_op *op)
{
    struct sim_allocation *allocation = sim_memory_at(op->u.free.address);
    stream->end_ns = latest(op->submit_ns, stream->ready_ns);
    if (allocation != NULL)
        sim_pool_give_back(allocation);
    return true;
}

static bool step(struct sim_engine *engine, CUstream stream, struct sim_op *op, uint64_t now)
{
    switch (op->kind) {
    case SIM_OP_KERNEL:
        return sim_kernel_step(engine, stream, op, now);
    case SIM_OP_COPY:
    case SIM_OP_MEMSET:
    case SIM_OP_PREFETCH:
        return sim_transfer_step(engine, stream, op, now);
    case SIM_OP_HOST:
        return step_host(engine, stream, op, now);
    case SIM_OP_EVENT:
        return step_event(stream, op);
    case SIM_OP_WAIT_EVENT:
        return step_wait_event(stream, op);
    case SIM_OP_WAIT_STREAM:
        return step_wait_stream(stream, op);
    case SIM_OP_WRITE_VALUE:
    case SIM_OP_WAIT_VALUE:
        return step_value(engine, stream, op, now);
    case SIM_OP_FREE:
        return step_free(stream, op);
    default:
        stream->end_ns = latest(op->submit_ns, stream->ready_ns);
        return true;
    }
}

static void finish(CUstream stream)
{
    stream->started = false;
    stream->record = NULL;
    stream->blocked_since_ns = 0;
    stream->ready_ns = latest(stream->ready_ns, stream->end_ns);
}

static void retire(CUstream stream)
{
    finish(stream);
    sim_counter_raise(&stream->done, atomic_load_explicit(&stream->done.count, memory_order_relaxed) + 1);
}

/* A graph's operations run one after the other in an order that respects its edges. */
static bool step_graph(struct sim_engine *engine, CUstream stream, struct sim_op *launch, uint64_t now)
{
    CUgraphExec exec = launch->u.graph.exec;
    if (stream->graph_at < exec->count) {
        struct sim_op *op = &exec->operations[stream->graph_at];
        if (stream->graph_at == 0 && !stream->started)
            stream->ready_ns = latest(stream->ready_ns, launch->submit_ns);
        if (!exec->enabled[stream->graph_at]) {
            stream->graph_at++;
            return true;
        }
        if (!step(engine, stream, op, now))
            return false;
        finish(stream);
        stream->graph_at++;
        if (op->kind == SIM_OP_EVENT)
            sim_engine_kick_all();
        return true;
    }
    stream->graph_at = 0;
    stream->end_ns = stream->ready_ns;
    sim_exec_release(exec);
    retire(stream);
    return true;
}

bool sim_operation_step(struct sim_engine *engine, CUstream stream, uint64_t now)
{
    uint64_t head = atomic_load_explicit(&stream->done.count, memory_order_relaxed);
    if (head == atomic_load_explicit(&stream->tail, memory_order_acquire))
        return false;
    struct sim_op *op = &stream->queue[head % SIM_QUEUE];
    if (op->kind == SIM_OP_GRAPH)
        return step_graph(engine, stream, op, now);
    bool others_may_wait = op->kind == SIM_OP_EVENT;
    if (!step(engine, stream, op, now))
        return false;
    retire(stream);
    if (others_may_wait)
        sim_engine_kick_all(); /* streams of other cards */
    return true;
}
