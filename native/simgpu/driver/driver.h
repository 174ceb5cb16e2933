/* The simulated driver inside one process: what its files share.
 *
 *   process.c  start, fork, visible devices     device.c  device queries     lookup.c  finding functions
 *   context.c  contexts, the thread's stack     handle.c  handles            counter.c counts to wait for
 *   trace.c    the record of what happened      code_memory.c  what modules and graphs take of the card
 *   checkpoint.c  the process leaves its cards, and comes back
 *   memory/    address space, allocations, residency, pools, VMM, arrays, IPC
 *   stream/    streams, events, launches, copies
 *   graph/     graphs and stream capture
 *   module/    code images, libraries and their kernels
 *   engine/    the execution thread of a card, and the turn between processes
 *
 * A call that is to happen in stream order fills in a struct sim_op and hands it to sim_submit(), which either queues
 * it or, while the stream captures, makes it a node of the graph. The execution thread of the stream's card takes
 * operations from the queues' heads, waits out their simulated time and retires them. */
#ifndef SIM_DRIVER_H
#define SIM_DRIVER_H

#include "cuda_api.h"
#include "driver/code_memory.h"
#include "driver/counter.h"
#include "driver/handle.h"
#include "driver/memory/memory.h"
#include "driver/stream/stream.h"
#include "driver/trace.h"
#include "state/node.h"
#include "state/paging.h"

#define SIM_QUEUE 1024           /* operations a stream holds before submitting blocks, as on real cards */
#define SIM_NEVER UINT64_MAX
#define SIM_SLICE_FLOOR_NS 100000ull /* real: below this the operating system's own switching would dominate */

/* ---- objects ---- */

struct CUctx_st {
    uint32_t kind;
    unsigned card;                   /* index on the node */
    CUdevice device;                 /* ordinal in this process */
    uint64_t id;
    unsigned flags;
    unsigned primary_refs;           /* primary contexts: who retained it */
    unsigned attached;               /* cuCtxAttach less cuCtxDetach */
    bool primary, green;
    struct sim_engine *engine;
    pthread_mutex_t lock;            /* submission into its streams, their list */
    CUstream legacy, streams;        /* streams: all others, through next */
    _Atomic int error;               /* a failed kernel; stays set */
    _Atomic uint32_t capturing;      /* streams that capture now */
    _Atomic uint32_t capturing_blocking;
    uint64_t limits[16];
    uint64_t code_bytes;             /* of modules and graphs (code_memory.c) */
    uint32_t peers;                  /* bit per device */
    int cache_config, shared_config;
};

struct sim_kernel_rule { char name[96]; uint64_t duration_ns; };

/* ---- the process ---- */

enum { SIM_FRESH, SIM_READY, SIM_FORKED, SIM_LOCKED }; /* locked: by cuCheckpointProcessLock */

struct sim_process {
    _Atomic int state;
    struct sim_view view;
    uint64_t id;
    int visible[SIM_MAX_CARDS];      /* device ordinal -> card index */
    int visible_count;
    uint64_t kernel_ns;              /* simulated */
    bool stale_is_fatal;             /* using a destroyed handle ends the process */
    bool shows_managed_pools;        /* a pointer from a managed pool is reported as managed */
    uint32_t most_events;            /* a program with more of them ends; 0: any number */
    uint64_t module_load_ns;         /* simulated; a context is locked as long */
    int cuda_version;                /* that cuDriverGetVersion answers with */
    struct sim_kernel_rule rules[32];
    unsigned rule_count;
    pthread_mutex_t lock;            /* engines, primary contexts */
    struct sim_engine *_Atomic engines[SIM_MAX_CARDS];
    CUcontext primaries[SIM_MAX_CARDS];
    unsigned primary_flags[SIM_MAX_CARDS];
    CUmemoryPool default_pools[SIM_MAX_CARDS], pools[SIM_MAX_CARDS], managed_pools[SIM_MAX_CARDS];
    _Atomic uint64_t ids;            /* contexts, streams, graphs */
    _Atomic uint32_t stream_numbers;
    _Atomic uint32_t captures;       /* in progress anywhere in the process */
};
extern struct sim_process sim;

#define SIM_ENTER() \
    do { \
        if (__builtin_expect(atomic_load_explicit(&sim.state, memory_order_acquire) != SIM_READY, 0)) \
            if (!sim_await_ready()) \
                return CUDA_ERROR_NOT_INITIALIZED; \
    } while (0)
#define SIM_TRY(call) \
    do { \
        CUresult result_ = (call); \
        if (result_ != CUDA_SUCCESS) \
            return result_; \
    } while (0)

static inline const struct sim_config *sim_config(void) { return &sim.view.node->config; }
static inline uint64_t sim_scaled(double simulated_ns) { return (uint64_t)(simulated_ns * sim_config()->scale); }
uint64_t sim_thread_token(void);
/* Not ready: waits while the process is locked (checkpoint.c). False if it is not initialised. */
bool sim_await_ready(void);
/* For checkpoints: what the driver's exit handler does, and what a forked child does. */
void sim_checkpoint_exits(void);
void sim_checkpoint_forked(void);
CUresult sim_card_of(CUdevice device, unsigned *card);
/* The cards page managed memory, and prefetch it (device.c). */
static inline bool sim_has_concurrent_managed_access(void) { return sim_config()->compute_major >= 6; }

/* ---- contexts ---- */

CUresult sim_current(CUcontext *context);           /* INVALID_CONTEXT if there is none */
CUresult sim_context_check(CUcontext context);      /* valid handle, not destroyed, no sticky error */
CUresult sim_context_drain(CUcontext context);      /* waits for everything submitted so far */
CUresult sim_card_drain(unsigned card);             /* the same for all contexts of this process on a card */
bool sim_is_idle(void);                             /* nothing that was submitted is left, in any context of this process */
CUresult sim_primary_retain(CUcontext *context, CUdevice device);
void sim_context_pass_lock(CUcontext context);      /* as the real driver, which may need the lock that a module load holds */
CUresult sim_context_make(CUdevice device, unsigned flags, bool primary, CUcontext *context); /* sim.lock is held */
void sim_context_destroy(CUcontext context);
bool sim_context_remember(CUcontext context);       /* in the list of all */
void sim_context_forget(CUcontext context);
void sim_context_uncharge_limits(CUcontext context); /* its heap and stacks */

/* ---- engine ---- */

CUresult sim_engine_get(unsigned card, struct sim_engine **engine); /* takes the slot, starts the thread */
void sim_engine_add_stream(struct sim_engine *engine, CUstream stream);
void sim_engine_kick(struct sim_engine *engine, bool must_wake);
void sim_engine_kick_all(void);
/* Retires what has ended by now. The caller holds no lock. */
void sim_engine_catch_up(struct sim_engine *engine);
/* A piece of work outside the execution thread: large copies, host functions. */
struct sim_job *sim_job_start(void (*run)(void *), const void *data, size_t size, bool callback);
bool sim_job_done(struct sim_job *job);
void sim_job_free(struct sim_job *job);

/* ---- capture ---- */

/* A call CUDA calls potentially unsafe during capture. */
CUresult sim_capture_unsafe(void);
/* The stream is about to be synchronised or asked. */
CUresult sim_capture_no_sync(CUstream stream);
CUresult sim_capture_no_context_sync(CUcontext context);
/* Work is about to go into the legacy stream. */
CUresult sim_capture_legacy(CUcontext context);
/* The stream captures: the operation becomes a node. The context's lock is held. */
CUresult sim_capture_op(CUstream stream, struct sim_op *op);
CUresult sim_capture_allocate(CUstream stream, CUmemoryPool pool, size_t bytes, CUdeviceptr *pointer);
CUresult sim_capture_free(CUstream stream, CUdeviceptr pointer);
CUresult sim_capture_record(CUstream stream, CUevent event);
CUresult sim_capture_wait(CUstream stream, CUevent event);
bool sim_event_is_captured(CUevent event);

/* ---- copies ---- */

CUresult sim_copy_3d(const CUDA_MEMCPY3D *description, struct sim_copy *copy);
void sim_copy_run(const struct sim_copy *copy);
uint64_t sim_copy_cost_ns(const struct sim_copy *copy);
struct CUarray_st { uint32_t kind; CUDA_ARRAY3D_DESCRIPTOR shape; struct sim_allocation *memory; uint64_t offset, pitch, rows;
                    uint32_t element; bool level; unsigned card; };

/* ---- code ---- */

struct CUfunc_st {
    uint32_t kind;
    uint32_t name_id;
    uint32_t special;
    uint64_t duration_ns;            /* real */
    const char *name;
    const struct sim_entry *entry;   /* what its image says about it; NULL: nothing */
    CUmodule module;
    CUlibrary library;
    CUfunction next;
    int attributes[16];
};
CUresult sim_kernel_op(const CUDA_KERNEL_NODE_PARAMS *params, struct sim_op *op);
uint64_t sim_kernel_duration(const char *name);

#endif
