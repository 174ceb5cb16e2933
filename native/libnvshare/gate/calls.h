/* Driver calls of the library that are in progress on the program's streams and contexts.
 *
 * Theory of operation
 *
 * Any call may wait for the driver's lock of its context, for seconds while a module is loaded. So nvs_streams_lock is never
 * held across a call. Instead the call is listed under the lock, with the objects that it uses, and
 *
 *   a stream's record and its events, and a context, end only when no listed call uses them;
 *   an event is recorded on a stream only while no capture begins in its context, and a capture begins only while none is recorded:
 *   an event of ours on a stream that has just begun to capture would break the capture.
 *
 * A thread that waits for a listed call is about to call the driver in the same context, and would wait there in any case.
 * The helper never waits for one: it tries again later.
 *
 * Facts that were read before a call may have changed after it. A record that the call uses still exists; everything else
 * is looked up again. The result of a call for a drain carries the number of its attempt (gate/drain.c). */
#ifndef NVS_CALLS_H
#define NVS_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "lookup/symbols.h"

enum nvs_call_kind {
    NVS_CALL_ASKS,     /* or destroys an event of ours */
    NVS_CALL_RECORDS,  /* an event of ours on a stream; or asks the stream itself, which would break a capture in the same way */
    NVS_CALL_CAPTURES, /* a stream may begin to capture */
};

struct nvs_call {
    struct nvs_call *next;
    CUcontext context;
    uintptr_t handle; /* of the stream whose record is used; 0: none */
    enum nvs_call_kind kind;
};

/* Lists the call; the lock is held before and after. */
void nvs_call_list(struct nvs_call *call);
/* Lists the call and releases the lock. */
void nvs_call_begin(struct nvs_call *call);
/* Takes the lock and removes the call. */
void nvs_call_end(struct nvs_call *call);

/* With the lock held, which each releases while it waits. */
void nvs_calls_await_stream(uintptr_t handle, CUcontext context);
void nvs_calls_await_context(CUcontext context);
/* Until no call of this kind is in progress in the context. */
void nvs_calls_await_kind(CUcontext context, enum nvs_call_kind kind);
/* With the lock held. */
bool nvs_calls_have_kind(CUcontext context, enum nvs_call_kind kind);

void nvs_calls_forked(void);

#endif
