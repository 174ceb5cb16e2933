#include "gate/frees.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "gate/contexts.h"
#include "gate/events.h"
#include "gate/streams.h"
#include "memory/memory.h"

/* Under nvs_streams_lock. */
static struct pending_free {
    struct pending_free *next;
    struct nvs_ledger_entry entry;
    CUcontext context; /* of the event */
    CUevent event;
} *pending;
/* Written under the lock. Read without it to skip the work where there is none: a stale 0 is the same as a call a moment earlier. */
static _Atomic int pending_count;

bool nvs_frees_after(const struct nvs_ledger_entry *entry, uintptr_t handle)
{
    struct pending_free *made = calloc(1, sizeof *made);
    bool is_recorded = false;
    nvs_lock_take(&nvs_streams_lock);
    struct nvs_stream *stream = made ? nvs_stream_find(handle, true) : NULL;
    if (stream && nvs_event_can_record(stream, handle))
        is_recorded = nvs_event_record(stream, &made->event, handle) == CUDA_SUCCESS;
    if (is_recorded) {
        *made = (struct pending_free){.next = pending, .entry = *entry, .context = stream->context, .event = made->event};
        pending = made;
        atomic_fetch_add(&pending_count, 1);
    } else if (made && made->event) {
        nvs_real.cuEventDestroy_v2(made->event);
    }
    nvs_lock_give(&nvs_streams_lock);
    if (!is_recorded)
        free(made);
    return is_recorded;
}

bool nvs_frees_has(uint64_t address)
{
    bool found = false;
    if (!atomic_load(&pending_count))
        return false;
    nvs_lock_take(&nvs_streams_lock);
    for (const struct pending_free *at = pending; at && !found; at = at->next)
        found = at->entry.key == address;
    nvs_lock_give(&nvs_streams_lock);
    return found;
}

static struct pending_free *unlink_at(struct pending_free **at)
{
    struct pending_free *taken = *at;
    *at = taken->next;
    atomic_fetch_sub(&pending_count, 1);
    return taken;
}

/* One that is due, taken out of the list; NULL if there is none. */
static struct pending_free *take_due(void)
{
    struct pending_free *due = NULL;
    nvs_lock_take(&nvs_streams_lock);
    for (struct pending_free **at = &pending; *at; at = &(*at)->next) {
        enum nvs_context_state state = nvs_context_state((*at)->context);
        if (state == NVS_CONTEXT_IN_DOUBT || (state == NVS_CONTEXT_ALIVE && !nvs_event_is_finished((*at)->event)))
            continue;
        due = unlink_at(at);
        if (state == NVS_CONTEXT_ALIVE)
            nvs_real.cuEventDestroy_v2(due->event);
        break;
    }
    nvs_lock_give(&nvs_streams_lock);
    return due;
}

void nvs_frees_do(void)
{
    struct pending_free *due;
    while (atomic_load(&pending_count) && (due = take_due())) {
        nvs_real.cuMemFree_v2(due->entry.key); /* fails if it ended with its context: gone in both cases */
        nvs_memory_return_entry(&due->entry);
        free(due);
    }
}

void nvs_frees_forget_context(CUcontext context)
{
    for (struct pending_free **at = &pending; *at;) {
        if ((*at)->context != context && (*at)->entry.owner != (uintptr_t)context) {
            at = &(*at)->next;
            continue;
        }
        struct pending_free *gone = unlink_at(at);
        nvs_memory_return_entry(&gone->entry);
        free(gone);
    }
}

void nvs_frees_forked(void)
{
    pending = NULL; /* the records belong to the parent's contexts: left where they are */
    atomic_store(&pending_count, 0);
}
