/* The simulated driver inside one process: what its files share.
 *
 *   process.c   start, fork, visible devices         cards.c       device queries         entry.c    finding functions
 *   context.c   contexts and the thread's stack      primary.c     one per device
 *   stream.c    queues of operations                 event.c       events
 *   engine.c    the execution thread of a card       turn.c        between processes
 *   operation.c what each operation does             kernel.c      how a kernel uses up the card's time   transfer.c copies
 *   arena.c     address space in chunks              allocation.c  pieces of it           residency.c  touching it
 *   memory.c    the memory API                       pointer.c     what a pointer is      pool.c vmm.c array.c ipc.c
 *   module.c    code images   library.c  kernels     launch.c copy.c memset.c             what goes into streams
 *   capture.c   capture rules                        graph.c       graphs                 graph_exec.c running them
 *
 * A call that is to happen in stream order fills in a struct sim_op and hands it to sim_submit(), which either queues
 * it or, while the stream captures, makes it a node of the graph. The execution thread of the stream's card takes
 * operations from the queues' heads, waits out their simulated time and retires them. */
#ifndef SIM_DRIVER_H
#define SIM_DRIVER_H

#include "cuda_api.h"
#include "device.h"
#include "paging.h"
#include "trace.h"

#define SIM_QUEUE 1024           /* operations a stream holds before submitting blocks, as on real cards */
#define SIM_NEVER UINT64_MAX
#define SIM_SLICE_FLOOR_NS 100000ull /* real: below this the operating system's own switching would dominate */

/* Kinds of handles: the first word of every object, 0 once it was destroyed. Objects are recycled and never unmapped,
 * so that a stale handle is refused instead of read from freed memory (handle.c). */
enum sim_kind { SIM_CONTEXT = 0x51c70001, SIM_STREAM, SIM_EVENT, SIM_MODULE, SIM_FUNCTION, SIM_LIBRARY, SIM_GRAPH,
                SIM_NODE, SIM_EXEC, SIM_POOL, SIM_ARRAY, SIM_MIPMAP, SIM_ALLOCATION, SIM_PHYSICAL, SIM_LINK,
                SIM_USER_OBJECT, SIM_TEXTURE, SIM_SURFACE, SIM_KIND_END };
void *sim_handle_new(enum sim_kind kind, size_t size);
void sim_handle_free(void *handle);
static inline bool sim_is(const void *handle, enum sim_kind kind)
{
    return handle != NULL && ((uintptr_t)handle & 7) == 0 && *(const uint32_t *)handle == (uint32_t)kind;
}

/* A count that only grows and can be waited for. Its owner raises it often and is to make a system call only when somebody's
 * count is reached. */
struct sim_gate { _Atomic uint64_t count, wake_at; _Atomic uint32_t wakes; };
void sim_gate_raise(struct sim_gate *gate, uint64_t count);
void sim_gate_wait(struct sim_gate *gate, uint64_t count);
void sim_gate_announce(struct sim_gate *gate, uint64_t count); /* somebody will wait for this count */
int sim_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t deadline_ns, bool shared);
void sim_futex_wake(_Atomic uint32_t *word, bool shared);

/* ---- operations ---- */

enum sim_op_kind { SIM_OP_NOTHING, SIM_OP_KERNEL, SIM_OP_COPY, SIM_OP_MEMSET, SIM_OP_HOST, SIM_OP_EVENT,
                   SIM_OP_WAIT_EVENT, SIM_OP_WAIT_STREAM, SIM_OP_WRITE_VALUE, SIM_OP_WAIT_VALUE, SIM_OP_FREE,
                   SIM_OP_PREFETCH, SIM_OP_GRAPH };

struct sim_plane { char *base; uint64_t pitch, height; }; /* rows of `pitch` bytes, slices of `height` rows */
struct sim_copy { struct sim_plane to, from; uint64_t width, rows, slices; uint32_t direction;
                  void *staging; /* to be freed afterwards */ };

struct sim_op {
    uint32_t kind;
    uint32_t name;                   /* trace name id */
    uint64_t submit_ns;
    union {
        struct { uint64_t duration_ns, touch, touch_bytes; uint32_t special, pad; } kernel; /* real time */
        struct sim_copy copy;
        struct { char *at; uint64_t pitch, width, rows; uint32_t value, element; } memset;
        struct { CUhostFn function; void *data; CUstreamCallback callback; CUstream stream; } host;
        struct { CUevent event; uint64_t number; CUstream stream; uint64_t count; } event; /* a wait: for that place of a stream */
        struct { CUstream stream; uint64_t count; } stream;
        struct { uint64_t address, value; uint32_t wide, flags; } value;
        struct { uint64_t address; } free;
        struct { uint64_t address, bytes; uint32_t to_device; } prefetch;
        struct { CUgraphExec exec; } graph;
    } u;
};
enum sim_special { SIM_PLAIN, SIM_SPIN, SIM_TOUCH, SIM_WAIT_FLAG, SIM_TRAP };

/* ---- objects ---- */

struct sim_engine;
struct sim_capture;
struct sim_job;

struct CUctx_st {
    uint32_t kind;
    unsigned card;                   /* index on the node */
    CUdevice device;                 /* ordinal in this process */
    uint64_t id;
    unsigned flags;
    unsigned primary_refs;           /* primary contexts: who retained it */
    bool primary, attached;
    struct sim_engine *engine;
    pthread_mutex_t lock;            /* submission into its streams, their list */
    CUstream legacy, streams;        /* streams: all others, through next */
    _Atomic int error;               /* a failed kernel; sticks */
    _Atomic uint32_t capturing;      /* streams that capture now */
    _Atomic uint32_t capturing_blocking;
    uint64_t limits[16];
    uint32_t peers;                  /* bit per device */
    int cache_config, shared_config;
};

struct CUstream_st {
    uint32_t kind;
    unsigned flags;
    int priority;
    uint32_t number;                 /* for the trace */
    uint64_t id;
    CUcontext context;
    struct sim_engine *engine;
    CUstream next;                   /* within the context */
    CUstream engine_next;            /* within the engine */
    uint64_t thread;                 /* owner of a per-thread default stream, else 0 */
    struct sim_op *queue;
    _Atomic uint64_t tail;           /* operations submitted */
    struct sim_gate done;            /* operations retired */
    uint64_t seen_legacy, seen_by_legacy; /* how far it already waits for the legacy stream, and the other way */
    struct sim_capture *capture;
    CUstreamAttrValue attributes[8];
    _Atomic bool dying;
    /* the execution thread's own */
    uint64_t ready_ns;               /* when the last operation ended, virtual time */
    bool started;                    /* the operation at the head is under way */
    uint64_t begin_ns, end_ns;
    struct sim_trace_record *record;
    struct sim_job *job;
    uint32_t graph_at;               /* inside a graph launch: next operation */
    uint64_t blocked_since_ns;
};

struct CUevent_st {
    uint32_t kind;
    unsigned flags;
    CUcontext context;
    _Atomic uint32_t references;     /* the handle and every queued operation */
    _Atomic bool destroyed;
    _Atomic uint64_t recorded;       /* number of the last record, */
    CUstream stream;                 /* the stream the record numbered `placed` went into, */
    uint64_t count, placed;          /* and that stream's count once it is retired */
    struct sim_gate completed;
    _Atomic uint64_t time_ns;        /* of the last completed one */
    struct sim_capture *capture;     /* last recorded into this capture, */
    uint64_t capture_id;
    _Atomic bool captured;
    CUgraphNode *capture_nodes;      /* after these nodes */
    size_t capture_count;
};

struct sim_kernel_rule { char name[96]; uint64_t duration_ns; };

/* ---- the process ---- */

enum { SIM_FRESH, SIM_READY, SIM_FORKED };

struct sim_process {
    _Atomic int state;
    struct sim_view view;
    uint64_t id;
    int visible[SIM_MAX_CARDS];      /* device ordinal -> card index */
    int visible_count;
    uint64_t kernel_ns;              /* simulated */
    struct sim_kernel_rule rules[32];
    unsigned rule_count;
    pthread_mutex_t lock;            /* engines, primary contexts */
    struct sim_engine *_Atomic engines[SIM_MAX_CARDS];
    CUcontext primaries[SIM_MAX_CARDS];
    unsigned primary_flags[SIM_MAX_CARDS];
    CUmemoryPool default_pools[SIM_MAX_CARDS], pools[SIM_MAX_CARDS];
    _Atomic uint64_t ids;            /* contexts, streams, graphs */
    _Atomic uint32_t stream_numbers;
    _Atomic uint32_t captures;       /* in progress anywhere in the process */
};
extern struct sim_process sim;

#define SIM_ENTER() \
    do { \
        if (__builtin_expect(atomic_load_explicit(&sim.state, memory_order_acquire) != SIM_READY, 0)) \
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
CUresult sim_card_of(CUdevice device, unsigned *card);

/* ---- contexts ---- */

CUresult sim_current(CUcontext *context);           /* INVALID_CONTEXT if there is none */
CUresult sim_context_check(CUcontext context);      /* valid handle, not destroyed, no sticky error */
CUresult sim_context_drain(CUcontext context);      /* waits for everything submitted so far */
CUresult sim_card_drain(unsigned card);             /* the same for all contexts of this process on a card */
CUresult sim_primary_retain(CUcontext *context, CUdevice device);
CUresult sim_context_make(CUdevice device, unsigned flags, bool primary, CUcontext *context); /* sim.lock is held */
void sim_context_destroy(CUcontext context);
bool sim_context_remember(CUcontext context);       /* in the list of all */
void sim_context_forget(CUcontext context);

/* ---- engine ---- */

CUresult sim_engine_get(unsigned card, struct sim_engine **engine); /* takes the slot, starts the thread */
void sim_engine_add_stream(struct sim_engine *engine, CUstream stream);
void sim_engine_kick(struct sim_engine *engine, bool must_wake);
void sim_engine_kick_all(void);
/* A piece of work outside the execution thread: large copies, host functions. */
struct sim_job *sim_job_start(void (*run)(void *), const void *data, size_t size, bool callback);
bool sim_job_done(struct sim_job *job);
void sim_job_free(struct sim_job *job);

/* ---- streams ---- */

/* NULL and the two special handles become streams of the current context. */
CUresult sim_stream_resolve(CUstream handle, bool per_thread, CUstream *stream);
CUresult sim_stream_make(CUcontext context, unsigned flags, int priority, CUstream *stream);
void sim_stream_recycle(CUstream stream);
/* Queues or captures. sim_submit_wait waits until the operation has been retired. */
CUresult sim_submit(CUstream stream, struct sim_op *op);
CUresult sim_submit_counted(CUstream stream, struct sim_op *op, uint64_t *count); /* the stream's count once it is retired */
CUresult sim_submit_wait(CUstream stream, struct sim_op *op);
CUresult sim_stream_wait(CUstream stream, uint64_t count);
void sim_stream_await(CUstream stream, uint64_t count); /* of a stream that may be destroyed meanwhile */
void sim_event_release(CUevent event);
void sim_exec_release(CUgraphExec exec);

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

/* ---- memory ---- */

struct sim_allocation {
    uint32_t kind;                   /* SIM_ALLOCATION */
    uint32_t memory;                 /* enum sim_trace_memory */
    uint64_t base, size;             /* as asked for */
    unsigned card;
    CUcontext context;
    uint64_t id;
    unsigned flags;
    CUmemoryPool pool;
    uint64_t charged;
    uint32_t sync_memops;
    uint32_t read_mostly;
    int preferred, prefetched;       /* device ordinal, -1 host, -2 none */
    uint32_t accessed_by;
    bool of_graph;                   /* an allocation node's */
    bool direct;                     /* from a call of the program and not part of another object: goes when its context goes */
};
CUresult sim_memory_new(CUcontext context, uint32_t memory, uint64_t bytes, struct sim_allocation **allocation);
void sim_memory_free(struct sim_allocation *allocation);
/* What was allocated directly in a context that is being destroyed. */
void sim_memory_free_of(CUcontext context);
struct sim_allocation *sim_memory_at(uint64_t address);
bool sim_memory_is_private(uint64_t address); /* the arena's, and not shared with another process */
/* The range must lie within one allocation; NULL if it does not. */
struct sim_allocation *sim_memory_range(uint64_t address, uint64_t bytes);
/* Work on a card reads or writes [address, address + bytes): managed chunks in it become resident. Real nanoseconds. */
uint64_t sim_memory_touch(uint64_t address, uint64_t bytes, struct sim_moved *moved);
void sim_memory_evict(uint64_t address, uint64_t bytes, struct sim_moved *moved);
/* Touches chunks until `budget_ns` is used up and says how many: the `from`-th and following ones of the process on the
 * card, or, if base is not 0, of the addresses from there. */
uint32_t sim_memory_walk(unsigned card, uint64_t base, uint32_t from, uint32_t count, uint64_t chunk_ns, uint64_t budget_ns,
                         uint64_t *used_ns, uint64_t *paged_ns);
uint32_t sim_memory_chunks(unsigned card);
CUresult sim_charge(unsigned card, uint64_t bytes);
void sim_uncharge(unsigned card, uint64_t bytes);
/* Memory outside the arena that the driver knows: pinned and registered host memory, VMM mappings (ranges.c). */
struct sim_range { uint64_t base, size; void *owner; };
enum sim_range_map { SIM_HOST_RANGES, SIM_RESERVED_RANGES, SIM_MAPPED_RANGES, SIM_RANGE_MAPS };
bool sim_range_add(enum sim_range_map map, uint64_t base, uint64_t size, void *owner);
bool sim_range_find(enum sim_range_map map, uint64_t address, struct sim_range *range);
bool sim_range_remove(enum sim_range_map map, uint64_t base, struct sim_range *range);
struct sim_host { CUcontext context; size_t bytes; unsigned flags; bool ours; }; /* owner in SIM_HOST_RANGES */
bool sim_is_device_address(uint64_t address, unsigned *card);
void sim_pool_give_back(struct sim_allocation *allocation);
void sim_pool_trim_all(unsigned card);
void sim_pool_forget(CUcontext context);

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
    CUmodule module;
    CUlibrary library;
    CUfunction next;
    int attributes[16];
};
CUresult sim_kernel_op(CUfunction function, unsigned threads, void **params, void **extra, struct sim_op *op);
uint64_t sim_kernel_duration(const char *name);

#endif
