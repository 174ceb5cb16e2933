/* Copies, memsets and prefetches: they run beside the compute engine. What crosses the link shares it with all processes. Bytes are moved when the operation
 * begins; it ends when they have been and its time has come. */
#include "driver/engine/engine.h"

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

/* Zeroing pages that were never written must not make the machine allocate them. */
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

static uint64_t earliest_begin(CUstream stream, const struct sim_op *op) { return latest(op->submit_ns, stream->ready_ns); }

static void begin_transfer(struct sim_engine *engine, CUstream stream, uint64_t begin_ns, uint64_t cost_ns, uint64_t paged_ns,
                           struct sim_trace_record record)
{
    stream->started = true;
    stream->begin_ns = begin_ns;
    stream->end_ns = begin_ns + cost_ns + paged_ns;
    record.card = engine->card;
    record.begin_ns = stream->begin_ns;
    record.stream = stream->number;
    record.page_in_ns = paged_ns;
    stream->record = sim_trace_write(&record);
}

static uint64_t book_on_device(struct sim_engine *engine, uint64_t from_ns, uint64_t length_ns)
{
    uint64_t begin = latest(from_ns, engine->on_device_free_ns);
    engine->on_device_free_ns = begin + length_ns;
    return begin;
}

static uint64_t book_link(struct sim_engine *engine, enum sim_direction direction, uint64_t from_ns, uint64_t length_ns)
{
    sim_card_lock(engine->state);
    uint64_t begin = sim_link_book(engine->state, direction, from_ns, length_ns);
    sim_card_unlock(engine->state);
    return begin;
}

static void begin_copy(struct sim_engine *engine, CUstream stream, const struct sim_op *op)
{
    const struct sim_copy *copy = &op->u.copy;
    struct sim_moved moved = {0, 0};
    uint64_t to = (uint64_t)(uintptr_t)copy->to.base, from = (uint64_t)(uintptr_t)copy->from.base;
    uint64_t begin = earliest_begin(stream, op);
    uint64_t paged = sim_memory_touch(from, plane_bytes(&copy->from, copy), begin, &moved);
    paged += sim_memory_touch(to, plane_bytes(&copy->to, copy), begin + paged, &moved);
    uint64_t bytes = copy->width * copy->rows * copy->slices, cost = sim_copy_cost_ns(copy);
    if (copy->direction == SIM_TRACE_DTOD)
        begin = book_on_device(engine, begin, cost + paged);
    else
        begin = book_link(engine, copy->direction == SIM_TRACE_DTOH ? SIM_TO_HOST : SIM_TO_DEVICE, begin + paged, cost) - paged;
    begin_transfer(engine, stream, begin, cost, paged,
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
    uint64_t begin = earliest_begin(stream, op), cost = sim_scaled((double)bytes / sim_config()->device_bandwidth * 1e9);
    uint64_t span = op->u.memset.rows == 0 ? 0 : (op->u.memset.rows - 1) * op->u.memset.pitch + width;
    uint64_t paged = sim_memory_touch(at, span, begin, &moved);
    begin_transfer(engine, stream, book_on_device(engine, begin, cost + paged), cost, paged,
                   (struct sim_trace_record){.kind = SIM_TRACE_MEMSET, .bytes = bytes, .address = at});
    if (bytes > INLINE_BYTES)
        stream->job = sim_job_start(run_memset, op, sizeof *op, false);
    if (stream->job == NULL)
        run_memset(op);
}

static void begin_prefetch(struct sim_engine *engine, CUstream stream, const struct sim_op *op)
{
    uint64_t begin = earliest_begin(stream, op);
    uint64_t cost = sim_config()->ignores_prefetches
                        ? 0 : sim_memory_prefetch(op->u.prefetch.address, op->u.prefetch.bytes, op->u.prefetch.card, &begin);
    begin_transfer(engine, stream, begin, cost, 0,
                   (struct sim_trace_record){.kind = SIM_TRACE_PREFETCH, .bytes = op->u.prefetch.bytes,
                                             .address = op->u.prefetch.address, .detail = op->u.prefetch.card >= 0});
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
