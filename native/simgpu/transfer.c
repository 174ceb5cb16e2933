/* Copies, memsets and prefetches: they have lanes of their own beside the compute engine. Bytes are moved when the operation
 * begins; it ends when they have been and its time has come. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define INLINE_BYTES (256u << 10) /* moved by the execution thread itself; more goes to a thread of its own */

static uint64_t latest(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void run_copy(void *data) { sim_copy_run(data); }

static bool is_zero(uint32_t value, uint32_t element)
{
    return element == 4 ? value == 0 : element == 2 ? (uint16_t)value == 0 : (uint8_t)value == 0;
}

/* Zeroing whole pages of memory nobody wrote to must not cost the machine that much memory. */
static void zero(char *at, uint64_t bytes)
{
    uintptr_t first = ((uintptr_t)at + 4095) & ~(uintptr_t)4095, last = ((uintptr_t)at + bytes) & ~(uintptr_t)4095;
    bool ours = bytes >= INLINE_BYTES && sim_memory_is_private((uint64_t)(uintptr_t)at);
    if (!ours || madvise((void *)first, last - first, MADV_DONTNEED) != 0) {
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

bool sim_transfer_step(struct sim_engine *engine, CUstream stream, struct sim_op *op, uint64_t now)
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
