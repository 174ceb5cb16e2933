/* What each kind of operation does when it reaches the head of its stream. Kernels are in kernel.c. */
#include "engine.h"
#include "graph.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define INLINE_BYTES (256u << 10) /* moved by the execution thread itself; more goes to a thread of its own */
#define POLL_NS 100000ull

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

/* ---- copies and memsets: they have lanes of their own beside the compute engine ---- */

static void run_copy(void *data) { sim_copy_run(data); }

static bool is_zero(uint32_t value, uint32_t element)
{
    return element == 4 ? value == 0 : element == 2 ? (uint16_t)value == 0 : (uint8_t)value == 0;
}

/* Zeroing whole pages of memory nobody wrote to must not cost the machine that much memory. */
static void zero(char *at, uint64_t bytes)
{
    uintptr_t first = ((uintptr_t)at + 4095) & ~(uintptr_t)4095, last = ((uintptr_t)at + bytes) & ~(uintptr_t)4095;
    struct sim_allocation *allocation = sim_memory_range((uint64_t)(uintptr_t)at, bytes);
    if (bytes < INLINE_BYTES || allocation == NULL || madvise((void *)first, last - first, MADV_DONTNEED) != 0) {
        memset(at, 0, bytes);
        return;
    }
    memset(at, 0, first - (uintptr_t)at);
    memset((void *)last, 0, (uintptr_t)at + bytes - last);
}

static void set_row(char *at, uint64_t count, uint32_t value, uint32_t element)
{
    if (is_zero(value, element))
        zero(at, count * element);
    else if (element == 1)
        memset(at, (int)value, count);
    else if (element == 2)
        for (uint64_t i = 0; i < count; i++)
            ((uint16_t *)(void *)at)[i] = (uint16_t)value;
    else
        for (uint64_t i = 0; i < count; i++)
            ((uint32_t *)(void *)at)[i] = value;
}

static void run_memset(void *data)
{
    const struct sim_op *op = data;
    if (op->u.memset.rows == 1 || op->u.memset.pitch == op->u.memset.width * op->u.memset.element) {
        set_row(op->u.memset.at, op->u.memset.width * op->u.memset.rows, op->u.memset.value, op->u.memset.element);
        return;
    }
    for (uint64_t row = 0; row < op->u.memset.rows; row++)
        set_row(op->u.memset.at + row * op->u.memset.pitch, op->u.memset.width, op->u.memset.value, op->u.memset.element);
}

static uint64_t plane_bytes(const struct sim_plane *plane, const struct sim_copy *copy)
{
    if (copy->rows == 0 || copy->slices == 0)
        return 0;
    return ((copy->slices - 1) * plane->height + copy->rows - 1) * plane->pitch + copy->width;
}

static void begin_transfer(struct sim_engine *engine, CUstream stream, const struct sim_op *op, unsigned lane,
                           uint64_t cost_ns, uint64_t paged_ns, struct sim_trace_record record)
{
    stream->started = true;
    stream->begin_ns = latest(latest(op->submit_ns, stream->ready_ns), engine->lane_free_ns[lane]);
    stream->end_ns = stream->begin_ns + cost_ns + paged_ns;
    engine->lane_free_ns[lane] = stream->end_ns;
    record.card = engine->card;
    record.begin_ns = stream->begin_ns;
    record.stream = stream->number;
    record.page_in_ns = paged_ns;
    stream->record = sim_trace_write(&record);
}

static void begin_copy(struct sim_engine *engine, CUstream stream, const struct sim_op *op)
{
    static const unsigned lanes[] = {[SIM_TRACE_HTOD] = SIM_LANE_TO_DEVICE, [SIM_TRACE_DTOH] = SIM_LANE_TO_HOST,
                                     [SIM_TRACE_DTOD] = SIM_LANE_ON_DEVICE, [SIM_TRACE_HTOH] = SIM_LANE_TO_DEVICE};
    const struct sim_copy *copy = &op->u.copy;
    struct sim_moved moved = {0, 0};
    uint64_t to = (uint64_t)(uintptr_t)copy->to.base, from = (uint64_t)(uintptr_t)copy->from.base;
    uint64_t paged = sim_memory_touch(from, plane_bytes(&copy->from, copy), &moved)
                   + sim_memory_touch(to, plane_bytes(&copy->to, copy), &moved);
    uint64_t bytes = copy->width * copy->rows * copy->slices;
    begin_transfer(engine, stream, op, lanes[copy->direction], sim_copy_cost_ns(copy), paged,
                   (struct sim_trace_record){.kind = SIM_TRACE_COPY, .bytes = bytes, .address = to, .detail = copy->direction});
    if (bytes > INLINE_BYTES)
        stream->job = sim_job_start(run_copy, copy, sizeof *copy, false);
    if (stream->job == NULL)
        sim_copy_run(copy);
}

static void begin_memset(struct sim_engine *engine, CUstream stream, struct sim_op *op)
{
    struct sim_moved moved = {0, 0};
    uint64_t width = op->u.memset.width * op->u.memset.element, bytes = width * op->u.memset.rows;
    uint64_t at = (uint64_t)(uintptr_t)op->u.memset.at;
    uint64_t paged = sim_memory_touch(at, op->u.memset.rows == 0 ? 0 : (op->u.memset.rows - 1) * op->u.memset.pitch + width, &moved);
    begin_transfer(engine, stream, op, SIM_LANE_ON_DEVICE,
                   sim_scaled((double)bytes / sim_config()->device_bandwidth * 1e9), paged,
                   (struct sim_trace_record){.kind = SIM_TRACE_MEMSET, .bytes = bytes, .address = at});
    if (bytes > INLINE_BYTES)
        stream->job = sim_job_start(run_memset, op, sizeof *op, false);
    if (stream->job == NULL)
        run_memset(op);
}

static void begin_prefetch(struct sim_engine *engine, CUstream stream, const struct sim_op *op)
{
    struct sim_moved moved = {0, 0};
    if (op->u.prefetch.to_device)
        sim_memory_touch(op->u.prefetch.address, op->u.prefetch.bytes, &moved);
    else
        sim_memory_evict(op->u.prefetch.address, op->u.prefetch.bytes, &moved);
    /* In one go and not by faults, so at the speed of copies. */
    double bytes = (double)(moved.faults + moved.evictions) * SIM_CHUNK_BYTES;
    begin_transfer(engine, stream, op, op->u.prefetch.to_device ? SIM_LANE_TO_DEVICE : SIM_LANE_TO_HOST,
                   sim_scaled(bytes / sim_config()->copy_bandwidth * 1e9), 0,
                   (struct sim_trace_record){.kind = SIM_TRACE_PREFETCH, .bytes = op->u.prefetch.bytes,
                                             .address = op->u.prefetch.address, .detail = op->u.prefetch.to_device});
}

static bool step_transfer(struct sim_engine *engine, CUstream stream, struct sim_op *op, uint64_t now)
{
    if (!stream->started) {
        if (op->kind == SIM_OP_COPY)
            begin_copy(engine, stream, op);
        else if (op->kind == SIM_OP_MEMSET)
            begin_memset(engine, stream, op);
        else
            begin_prefetch(engine, stream, op);
    }
    if (now < stream->end_ns || (stream->job != NULL && !sim_job_done(stream->job)))
        return false;
    if (stream->job != NULL) {
        sim_job_free(stream->job);
        stream->job = NULL;
    }
    if (op->kind == SIM_OP_COPY)
        free(op->u.copy.staging);
    if (stream->record != NULL)
        __atomic_store_n(&stream->record->end_ns, stream->end_ns, __ATOMIC_RELEASE);
    return true;
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
        sim_gate_raise(&event->completed, number);
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
        if (engine->poll_ns > now + POLL_NS)
            engine->poll_ns = now + POLL_NS;
        return false;
    }
    stream->end_ns = op->kind == SIM_OP_WAIT_VALUE ? now : latest(op->submit_ns, stream->ready_ns);
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
        return step_transfer(engine, stream, op, now);
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

static void retire(CUstream stream)
{
    stream->started = false;
    stream->record = NULL;
    stream->ready_ns = latest(stream->ready_ns, stream->end_ns);
    sim_gate_raise(&stream->done, atomic_load_explicit(&stream->done.count, memory_order_relaxed) + 1);
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
        stream->started = false;
        stream->record = NULL;
        stream->ready_ns = latest(stream->ready_ns, stream->end_ns);
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
