/* The execution thread: one per process and card, started with the first context there.
 *
 * It goes round the streams, lets each take a step, and sleeps until the next thing is due. It sleeps on the futex in its
 * slot of the shared state, which is rung by submitters of this process and by other processes that want the turn.
 *
 * Submitting does not ring as long as the stream has earlier work: the thread will come to the new operation by itself.
 * Both sides store first and then look at the other's variable with sequentially consistent operations (`tail` against
 * `done`, `dirty` against `sleeping`), so one of them always sees the other.
 *
 * Hardware ends its work without a processor. So a thread that asks whether work has ended lets the streams take their
 * steps itself (sim_engine_catch_up), and the answer does not depend on when the execution thread runs. */
#define _GNU_SOURCE
#include "driver/engine/engine.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static _Atomic uint32_t *bell(struct sim_engine *engine) { return &engine->state->slots[engine->slot].wake; }

void sim_engine_kick(struct sim_engine *engine, bool must_wake)
{
    if (!must_wake)
        return;
    atomic_store(&engine->dirty, 1);
    if (atomic_load(&engine->sleeping)) {
        atomic_fetch_add(bell(engine), 1);
        sim_futex_wake(bell(engine), true);
    }
}

void sim_engine_kick_all(void)
{
    for (unsigned i = 0; i < SIM_MAX_CARDS; i++) {
        struct sim_engine *engine = atomic_load(&sim.engines[i]);
        if (engine != NULL)
            sim_engine_kick(engine, true);
    }
}

static void recycle_destroyed(struct sim_engine *engine)
{
    CUstream *link = &engine->streams;
    while (*link != NULL) {
        CUstream stream = *link;
        if (atomic_load(&stream->dying) && atomic_load(&stream->tail) == atomic_load(&stream->done.count)) {
            *link = stream->engine_next;
            sim_stream_recycle(stream);
        } else {
            link = &stream->engine_next;
        }
    }
}

/* A copy or memset whose bytes have been moved and whose time has not come yet. */
static bool is_transfer_due_later(const struct sim_engine *engine, CUstream stream, uint64_t now)
{
    return stream->started && stream != engine->run.stream && stream->end_ns > now
        && (stream->job == NULL || sim_job_done(stream->job));
}

/* Advances all streams until nothing changes; returns when to look again. The engine's lock is held. */
static uint64_t advance(struct sim_engine *engine)
{
    uint64_t now = sim_now_ns();
    bool moved, dying = false;
    do {
        moved = false;
        engine->poll_ns = SIM_NEVER;
        engine->wants_turn = false;
        for (CUstream stream = engine->streams; stream != NULL; stream = stream->engine_next) {
            moved |= sim_operation_step(engine, stream, now);
            dying |= atomic_load_explicit(&stream->dying, memory_order_relaxed);
        }
        uint64_t later = sim_now_ns();
        if (!moved && later - now > 20000) { /* time went on meanwhile */
            moved = true;
            now = later; /* stays what the streams were last looked at with: what ends after it is still due below */
        }
    } while (moved);
    if (dying)
        recycle_destroyed(engine);
    if (engine->run.stream == NULL && !engine->wants_turn)
        sim_turn_idle(engine);
    uint64_t due = sim_kernel_deadline(engine, now);
    for (CUstream stream = engine->streams; stream != NULL; stream = stream->engine_next)
        if (is_transfer_due_later(engine, stream, now) && stream->end_ns < due)
            due = stream->end_ns;
    return engine->poll_ns < due ? engine->poll_ns : due;
}

void sim_engine_catch_up(struct sim_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    bool is_sooner = advance(engine) < engine->due_ns;
    pthread_mutex_unlock(&engine->lock);
    sim_engine_kick(engine, is_sooner);
}

static void end_if_killed(const struct sim_engine *engine)
{
    if (!atomic_load(&engine->state->slots[engine->slot].is_killed))
        return;
    fprintf(stderr, "nvshare simulated GPU: evicted memory exceeds NVSHARE_SIM_HOST_MEMORY: the process is killed, as by the kernel\n");
    kill(getpid(), SIGKILL);
}

static void *execute(void *data)
{
    struct sim_engine *engine = data;
    char name[16];
    snprintf(name, sizeof name, "sim-gpu%u", engine->card);
    pthread_setname_np(pthread_self(), name);
    prctl(PR_SET_TIMERSLACK, 1UL); /* sleep as exactly as the machine can */
    for (;;) {
        uint32_t rings = atomic_load(bell(engine));
        end_if_killed(engine);
        atomic_store(&engine->dirty, 0);
        pthread_mutex_lock(&engine->lock);
        uint64_t due = engine->due_ns = advance(engine);
        sim_kernel_flush_busy(engine);
        pthread_mutex_unlock(&engine->lock);
        atomic_store(&engine->sleeping, 1);
        if (!atomic_load(&engine->dirty))
            sim_futex_wait(bell(engine), rings, due, true);
        atomic_store(&engine->sleeping, 0);
    }
    return NULL;
}

static int start_thread(pthread_t *thread, void *(*run)(void *), void *data)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are not for us */
    int error = pthread_create(thread, &attributes, run, data);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

/* sim.lock is held. */
CUresult sim_engine_get(unsigned card, struct sim_engine **engine)
{
    *engine = atomic_load(&sim.engines[card]);
    if (*engine != NULL)
        return CUDA_SUCCESS;
    if (sim_view_attach(&sim.view, card, sim.id) != 0)
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    struct sim_engine *made = calloc(1, sizeof *made);
    if (made == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->card = card;
    made->slot = (unsigned)sim.view.slots[card];
    made->state = sim.view.cards[card];
    made->slice_ns = sim_scaled((double)sim_config()->slice_ns);
    if (made->slice_ns < SIM_SLICE_FLOOR_NS)
        made->slice_ns = SIM_SLICE_FLOOR_NS;
    pthread_mutex_init(&made->lock, NULL);
    if (start_thread(&made->thread, execute, made) != 0) {
        free(made);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    atomic_store(&sim.engines[card], made);
    *engine = made;
    return CUDA_SUCCESS;
}

void sim_engine_add_stream(struct sim_engine *engine, CUstream stream)
{
    pthread_mutex_lock(&engine->lock);
    CUstream *link = &engine->streams;
    while (*link != NULL)
        link = &(*link)->engine_next;
    *link = stream;
    pthread_mutex_unlock(&engine->lock);
}

/* ---- work beside the execution thread: one worker for large copies, one for host functions ---- */

struct sim_job { struct sim_job *next; void (*run)(void *); _Atomic bool done; _Alignas(16) unsigned char data[]; };

static struct sim_worker {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct sim_job *first, **last;
    bool running;
} workers[2] = {{.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER},
                {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER}};

static void *serve(void *data)
{
    struct sim_worker *worker = data;
    pthread_setname_np(pthread_self(), worker == &workers[1] ? "sim-callback" : "sim-copy");
    for (;;) {
        pthread_mutex_lock(&worker->lock);
        while (worker->first == NULL)
            pthread_cond_wait(&worker->work, &worker->lock);
        struct sim_job *job = worker->first;
        worker->first = job->next;
        if (worker->first == NULL)
            worker->last = &worker->first;
        pthread_mutex_unlock(&worker->lock);
        job->run(job->data);
        atomic_store(&job->done, true);
        sim_engine_kick_all();
    }
    return NULL;
}

struct sim_job *sim_job_start(void (*run)(void *), const void *data, size_t size, bool callback)
{
    struct sim_worker *worker = &workers[callback];
    struct sim_job *job = calloc(1, sizeof *job + size);
    pthread_t thread;
    if (job == NULL)
        return NULL;
    job->run = run;
    memcpy(job->data, data, size);
    pthread_mutex_lock(&worker->lock);
    if (!worker->running && start_thread(&thread, serve, worker) == 0) {
        worker->running = true;
        worker->last = &worker->first;
    }
    if (worker->running) {
        *worker->last = job;
        worker->last = &job->next;
        pthread_cond_signal(&worker->work);
    } else {
        free(job);
        job = NULL;
    }
    pthread_mutex_unlock(&worker->lock);
    return job;
}

bool sim_job_done(struct sim_job *job) { return atomic_load(&job->done); }
void sim_job_free(struct sim_job *job) { free(job); }
