/* Operations, and the streams and events that order them. Included by driver.h. */
#ifndef SIM_STREAM_H
#define SIM_STREAM_H

#include "cuda_api.h"
#include "driver/counter.h"
#include "driver/handle.h"
#include "driver/trace.h"

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
        struct {
            uint64_t duration_ns, touch, touch_bytes; /* real time */
            uint32_t special, pad;
            const CUDA_KERNEL_NODE_PARAMS *given; /* the call that submits it, for a capture; nobody else reads it */
        } kernel;
        struct sim_copy copy;
        struct { char *at; uint64_t pitch, width, rows; uint32_t value, element; } memset;
        struct { CUhostFn function; void *data; CUstreamCallback callback; CUstream stream; } host;
        struct { CUevent event; uint64_t number; CUstream stream; uint64_t count; } event; /* a wait: for that place of a stream */
        struct { CUstream stream; uint64_t count; } stream;
        struct { uint64_t address, value; uint32_t wide, flags; } value;
        struct { uint64_t address; } free;
        struct { uint64_t address, bytes; int card; /* -1: the host */ } prefetch;
        struct { CUgraphExec exec; } graph;
    } u;
};
enum sim_special { SIM_PLAIN, SIM_SPIN, SIM_TOUCH, SIM_WAIT_FLAG, SIM_TRAP };

/* ---- streams and events ---- */

struct sim_engine;
struct sim_capture;
struct sim_job;

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
    struct sim_counter done;            /* operations retired */
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
    uint64_t context_id;
    _Atomic uint32_t references;     /* the handle and every queued operation */
    _Atomic bool destroyed;
    _Atomic uint64_t recorded;       /* number of the last record, */
    CUstream stream;                 /* the stream the record numbered `placed` went into, */
    uint64_t count, placed;          /* and that stream's count once it is retired */
    struct sim_counter completed;
    _Atomic uint64_t time_ns;        /* of the last completed one */
    struct sim_capture *capture;     /* last recorded into this capture, */
    uint64_t capture_id;
    _Atomic bool captured;
    CUgraphNode *capture_nodes;      /* after these nodes */
    size_t capture_count;
    struct sim_shared_event *_Atomic shared; /* with other processes: ipc_event.c */
    uint64_t shared_id;              /* its file; 0: another process has made it */
};

/* Another process records the event. */
bool sim_event_is_imported(CUevent event);
bool sim_event_imported_is_done(CUevent event);
void sim_event_imported_wait(CUevent event);
/* The stream goes on when the last record made in the other process has completed. */
CUresult sim_event_imported_order(CUevent event, CUstream stream);
/* The record with this number was made, or has completed. */
void sim_event_tell_recorded(CUevent event, uint64_t number);
void sim_event_tell_completed(CUevent event, uint64_t number);
void sim_event_unshare(CUevent event);

/* NULL and the two special handles become streams of the current context. */
CUresult sim_stream_resolve(CUstream handle, bool per_thread, CUstream *stream);
CUresult sim_stream_make(CUcontext context, unsigned flags, int priority, CUstream *stream);
/* The same, and in the context's list. `thread`: whose default stream it is, or 0. */
CUresult sim_stream_add(CUcontext context, unsigned flags, int priority, uint64_t thread, CUstream *stream);
void sim_stream_recycle(CUstream stream);
static inline bool sim_stream_is_blocking(const struct CUstream_st *stream) { return (stream->flags & CU_STREAM_NON_BLOCKING) == 0; }
/* Queues or captures. sim_submit_wait waits until the operation has been retired. */
CUresult sim_submit(CUstream stream, struct sim_op *op);
CUresult sim_submit_counted(CUstream stream, struct sim_op *op, uint64_t *count); /* the stream's count once it is retired */
CUresult sim_submit_wait(CUstream stream, struct sim_op *op);
void sim_submit_destroyed(CUstream stream);
CUresult sim_stream_wait(CUstream stream, uint64_t count);
/* Of a stream that may be destroyed meanwhile, and then belong to another context: the caller names the engine. */
void sim_stream_await(CUstream stream, struct sim_engine *engine, uint64_t count);
void sim_event_release(CUevent event);
void sim_exec_release(CUgraphExec exec);

#endif
