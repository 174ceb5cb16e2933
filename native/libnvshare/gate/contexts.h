/* The CUDA contexts of this process that the library knows from calls of the program. Under nvs_streams_lock. */
#ifndef NVS_CONTEXTS_H
#define NVS_CONTEXTS_H

#include <stdbool.h>

#include "lookup/symbols.h"

struct nvs_gpu;

/* A context was made or used, or is gone. Each takes the lock itself. */
void nvs_context_seen(CUcontext context);
void nvs_context_gone(CUcontext context);
/* The call that follows may destroy the context, or not: until this is known, the library does not use it. Followed by
 * nvs_context_ended or nvs_context_lives_on. Each takes the lock itself. */
void nvs_context_may_end(CUcontext context);
void nvs_context_lives_on(CUcontext context);
/* False if another thread has made a new context meanwhile, which has its handle: nothing is forgotten then. */
bool nvs_context_ended(CUcontext context);
/* The GPU's primary context if it is known, or NULL. Takes the lock itself. */
CUcontext nvs_context_primary(int gpu);
/* The same, and the GPU's active primary context becomes known: calls that we did not see may have made it. Asks the driver. */
CUcontext nvs_context_learn_primary(int gpu);
/* The GPU of the context, which is known after it. NULL if the driver does not know the context, its GPU is
 * none of ours, or there are too many contexts, which is said once. Takes the lock itself. */
struct nvs_gpu *nvs_context_gpu(CUcontext context);
/* The same without the driver, for a handle that may be none. NULL if the context is not known. */
struct nvs_gpu *nvs_context_known_gpu(CUcontext context);

/* A later context may have the handle of one that has ended, and none of its streams and events. No two contexts have the same number. */
struct nvs_context_id {
    CUcontext handle;
    uint64_t number; /* 0: none */
};
/* A context of the GPU to call the driver in, without the lock: until nvs_context_use_end no context is destroyed by a call through
 * us. `*id` is the one that the caller has used before, or none: the caller has a stream and events there, so it is given no other one until
 * that has ended. For the helper only. BUSY at once if another thread has the lock. Asks the driver: between nvs_deputy_driver_begin and
 * _end. */
enum nvs_context_use { NVS_CONTEXT_USED, NVS_CONTEXT_BUSY /* try again: another thread has the lock, or may destroy the context */, NVS_CONTEXT_NONE };
enum nvs_context_use nvs_context_use(const struct nvs_gpu *gpu, struct nvs_context_id *id);
void nvs_context_use_end(void);

/* With the lock held. */
/* Whether the context can be used. IN_DOUBT (nvs_context_may_end): a thread that the program lets use the context may use it; all others ask again later. */
enum nvs_context_state { NVS_CONTEXT_GONE, NVS_CONTEXT_ALIVE, NVS_CONTEXT_IN_DOUBT };
struct nvs_context_life {
    enum nvs_context_state state;
    int primary_of; /* the GPU whose primary context it is; -1: it is none */
};
struct nvs_context_life nvs_context_life(CUcontext context);
/* Without the lock: a primary context may have been reset by a call that did not come through us. Asks the driver. */
bool nvs_context_goes_on(const struct nvs_context_life *life);
void nvs_contexts_forked(void);

#endif
