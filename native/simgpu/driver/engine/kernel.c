/* How a kernel uses up the card's time.
 *
 * A kernel has a duration and a set of chunks of managed memory that it touches, evenly over its duration. As long as
 * everything it touches is resident it simply computes (a pure segment). Otherwise it walks over its chunks and pays
 * for each one that is missing: the fault, and the eviction that made room. It computes only while its process has the
 * turn. While others wait it gives the turn away at the end of each slice, and what they touch meanwhile may push out
 * what it had moved in: that is thrashing, and nothing more is needed to get it. */
#include "driver/engine/engine.h"

#define SLEEP_AHEAD_NS 5000000ull /* retire short kernels in batches of this length */
#define SLEEP_AHEAD_OPS 512u

void sim_kernel_flush_busy(struct sim_engine *engine)
{
    if (engine->busy_end_ns == engine->busy_begin_ns)
        return;
    sim_card_lock(engine->state);
    sim_card_add_busy(engine->state, engine->slot, engine->busy_begin_ns, engine->busy_end_ns);
    sim_card_unlock(engine->state);
    engine->busy_begin_ns = engine->busy_end_ns;
}

static void add_busy(struct sim_engine *engine, uint64_t begin, uint64_t end)
{
    if (begin != engine->busy_end_ns) {
        sim_kernel_flush_busy(engine);
        engine->busy_begin_ns = begin;
    }
    engine->busy_end_ns = end;
}

static uint64_t slice_end(const struct sim_engine *engine)
{
    return engine->state->turn_since_ns + engine->slice_ns;
}

/* Others wait, and what has been computed up to the run's clock fills the slice. A thread that comes late by more than a slice keeps
 * the turn, and uses it until now: see turn.c. */
static bool slice_is_over(struct sim_engine *engine, uint64_t now)
{
    return sim_turn_contended(engine) && engine->run.clock_ns >= slice_end(engine) && now - engine->run.clock_ns <= engine->slice_ns;
}

/* Managed memory the kernel will touch. */
static void choose_chunks(struct sim_engine *engine, const struct sim_op *op)
{
    struct sim_run *run = &engine->run;
    if (op->u.kernel.touch_bytes > 0) {
        uint64_t first = op->u.kernel.touch >> SIM_CHUNK_SHIFT;
        uint64_t last = (op->u.kernel.touch + op->u.kernel.touch_bytes - 1) >> SIM_CHUNK_SHIFT;
        run->touch = first << SIM_CHUNK_SHIFT;
        run->chunks = (uint32_t)(last - first + 1);
        return;
    }
    run->chunks = sim_memory_chunks(engine->card);
    if (sim_config()->touch_all || run->chunks == 0)
        return;
    double streamed = (double)op->u.kernel.duration_ns / sim_config()->scale * 1e-9 * sim_config()->device_bandwidth;
    uint32_t count = (uint32_t)(streamed / SIM_CHUNK_BYTES) + 1;
    run->offset = engine->touch_offset % run->chunks;
    if (count < run->chunks)
        run->chunks = count;
    engine->touch_offset = run->offset + run->chunks;
}

/* Walks over chunks for one slice. Resident ones cost only their share of the computing. */
static void walk(struct sim_engine *engine)
{
    struct sim_run *run = &engine->run;
    struct sim_walk way = {.card = engine->card, .base = run->touch, .from = run->offset + run->chunk,
                           .count = run->chunks - run->chunk, .chunk_ns = run->chunk_ns, .budget_ns = engine->slice_ns,
                           .clock_ns = run->clock_ns};
    uint32_t done = sim_memory_walk(&way);
    uint64_t used = way.used_ns;
    run->chunk += done;
    uint64_t computed = done * run->chunk_ns;
    run->remaining_ns -= computed < run->remaining_ns ? computed : run->remaining_ns;
    run->paged_ns += way.paged_ns;
    if (run->chunk >= run->chunks && run->remaining_ns < run->chunks) { /* the rounding's rest */
        used += run->remaining_ns;
        run->remaining_ns = 0;
    }
    run->segment_end_ns = run->clock_ns + used;
    run->pure = false;
}

static void plan_segment(struct sim_engine *engine)
{
    struct sim_run *run = &engine->run;
    const struct sim_slot *own = &engine->state->slots[engine->slot];
    bool all_there = run->touch == 0 && __atomic_load_n(&own->away.count, __ATOMIC_RELAXED) == 0
                  && __atomic_load_n(&own->arriving_until_ns, __ATOMIC_RELAXED) <= run->clock_ns;
    if (run->chunk >= run->chunks || all_there) {
        run->pure = true;
        run->segment_end_ns = run->clock_ns + run->remaining_ns;
    } else {
        walk(engine);
    }
}

static uint64_t latest(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void begin(struct sim_engine *engine, CUstream stream, const struct sim_op *op)
{
    struct sim_run *run = &engine->run;
    *run = (struct sim_run){.stream = stream, .remaining_ns = op->u.kernel.duration_ns};
    run->begin_ns = latest(latest(op->submit_ns, stream->ready_ns), latest(engine->compute_free_ns, engine->state->turn_free_ns));
    run->clock_ns = run->begin_ns;
    choose_chunks(engine, op);
    run->chunk_ns = run->chunks > 0 ? run->remaining_ns / run->chunks : 0;
    if (run->chunk_ns > engine->slice_ns / 2) /* others wait for a chunk to be passed: a long kernel computes the rest after it */
        run->chunk_ns = engine->slice_ns / 2;
    stream->started = true;
    if (sim_trace_is_on())
        stream->record = sim_trace_write(&(struct sim_trace_record){
            .kind = SIM_TRACE_KERNEL, .card = engine->card, .begin_ns = run->begin_ns, .stream = stream->number,
            .name = op->name, .bytes = run->chunks * SIM_CHUNK_BYTES, .address = run->touch});
    plan_segment(engine);
}

static void give_turn_away(struct sim_engine *engine, uint64_t now)
{
    struct sim_run *run = &engine->run;
    sim_turn_pass(engine, run->clock_ns);
    run->waiting = true;
    run->waiting_since_ns = run->clock_ns;
    sim_turn_try(engine, now); /* back into the queue, at its end */
}

/* A pure segment stops here; the chunks passed so far are in proportion to the computing done. */
static void cut(struct sim_engine *engine, uint64_t at)
{
    struct sim_run *run = &engine->run;
    uint64_t done = at > run->clock_ns ? at - run->clock_ns : 0;
    done = done < run->remaining_ns ? done : run->remaining_ns;
    if (run->chunk_ns > 0 && run->chunk < run->chunks) {
        uint64_t passed = run->chunk + done / run->chunk_ns;
        run->chunk = passed < run->chunks ? (uint32_t)passed : run->chunks;
    }
    add_busy(engine, run->clock_ns, run->clock_ns + done);
    run->remaining_ns -= done;
    run->clock_ns += done;
}

static void end(struct sim_engine *engine, uint64_t now)
{
    struct sim_run *run = &engine->run;
    CUstream stream = run->stream;
    if (stream->record != NULL) {
        stream->record->page_in_ns = run->paged_ns;
        stream->record->waited_us = (uint32_t)(run->waited_ns / 1000);
        __atomic_store_n(&stream->record->end_ns, run->clock_ns, __ATOMIC_RELEASE);
    }
    stream->end_ns = run->clock_ns;
    engine->compute_free_ns = run->clock_ns;
    run->stream = NULL;
    if (slice_is_over(engine, now))
        sim_turn_pass(engine, run->clock_ns);
}

static bool regain_turn(struct sim_engine *engine, uint64_t now)
{
    struct sim_run *run = &engine->run;
    if (!sim_turn_try(engine, now))
        return false;
    uint64_t since = latest(run->clock_ns, engine->state->turn_since_ns);
    run->waited_ns += since - run->waiting_since_ns;
    run->clock_ns = since;
    run->waiting = false;
    plan_segment(engine);
    return true;
}

/* Carries the running kernel forward to `now`; true when it has ended. */
static bool advance(struct sim_engine *engine, uint64_t now)
{
    struct sim_run *run = &engine->run;
    for (;;) {
        if (run->waiting && !regain_turn(engine, now))
            return false;
        uint64_t cut_ns = latest(slice_end(engine), run->clock_ns);
        if (run->pure && now < run->segment_end_ns && cut_ns < run->segment_end_ns && sim_turn_contended(engine)) {
            if (now < cut_ns)
                return false;
            cut(engine, now);
            give_turn_away(engine, now);
            continue;
        }
        if (now < run->segment_end_ns)
            return false;
        add_busy(engine, run->clock_ns, run->segment_end_ns);
        run->clock_ns = run->segment_end_ns;
        if (run->pure || run->chunk >= run->chunks) {
            end(engine, now);
            return true;
        }
        if (slice_is_over(engine, now))
            give_turn_away(engine, now);
        else
            plan_segment(engine);
    }
}

/* A kernel that spins on a flag in memory: it ends when the flag is set, and other kernels can compute meanwhile. */
static bool wait_for_flag(struct sim_engine *engine, CUstream stream, const struct sim_op *op, uint64_t now)
{
    const uint64_t *flag = (const uint64_t *)(uintptr_t)op->u.kernel.touch;
    if (!stream->started) {
        stream->started = true;
        stream->begin_ns = latest(op->submit_ns, stream->ready_ns);
        stream->record = sim_trace_write(&(struct sim_trace_record){
            .kind = SIM_TRACE_KERNEL, .card = engine->card, .begin_ns = stream->begin_ns, .stream = stream->number,
            .name = op->name, .address = op->u.kernel.touch});
    }
    if (__atomic_load_n(flag, __ATOMIC_ACQUIRE) < op->u.kernel.touch_bytes) {
        sim_poll_later(engine, stream, now);
        return false;
    }
    stream->end_ns = sim_now_ns(); /* `now` may be older than the flag */
    if (stream->record != NULL)
        __atomic_store_n(&stream->record->end_ns, stream->end_ns, __ATOMIC_RELEASE);
    return true;
}

bool sim_kernel_step(struct sim_engine *engine, CUstream stream, const struct sim_op *op, uint64_t now)
{
    if (op->u.kernel.special == SIM_WAIT_FLAG)
        return wait_for_flag(engine, stream, op, now);
    if (engine->run.stream == NULL) {
        if (!sim_turn_try(engine, now)) {
            engine->wants_turn = true;
            return false;
        }
        begin(engine, stream, op);
    }
    if (engine->run.stream != stream || !advance(engine, now))
        return false;
    if (op->u.kernel.special == SIM_TRAP)
        atomic_store(&stream->context->error, CUDA_ERROR_LAUNCH_FAILED);
    return true;
}

/* Short kernels behind the running one that nobody waits for are retired together, some time after they ended: they
 * carry their true times, and a sleep for each would cost more than all of them. */
static uint64_t sleep_ahead(struct sim_engine *engine, uint64_t until)
{
    CUstream stream = engine->run.stream;
    uint64_t limit = until + SLEEP_AHEAD_NS;
    uint64_t retired = atomic_load_explicit(&stream->done.count, memory_order_relaxed);
    uint64_t target = atomic_load(&stream->done.wake_at);
    for (uint32_t k = 1; k < SLEEP_AHEAD_OPS && (target == 0 || retired + k < target); k++) {
        const struct sim_op *op = sim_operation_peek(stream, k);
        if (op == NULL || op->kind != SIM_OP_KERNEL || op->u.kernel.special != SIM_PLAIN
            || until + op->u.kernel.duration_ns > limit)
            break;
        until += op->u.kernel.duration_ns;
    }
    return until;
}

uint64_t sim_kernel_deadline(struct sim_engine *engine, uint64_t now)
{
    struct sim_run *run = &engine->run;
    if (run->stream == NULL)
        return engine->wants_turn ? now + 20000000 : SIM_NEVER;
    if (run->waiting)
        return now + 20000000;
    if (sim_turn_contended(engine)) {
        uint64_t cut_ns = latest(slice_end(engine), run->clock_ns);
        return run->pure && cut_ns < run->segment_end_ns ? cut_ns : run->segment_end_ns;
    }
    return run->pure ? sleep_ahead(engine, run->segment_end_ns) : run->segment_end_ns;
}
