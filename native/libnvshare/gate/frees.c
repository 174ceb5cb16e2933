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
    bool is_asked; /* by a thread that calls the driver: nobody else asks about it, and it stays */
    bool is_ended; /* meanwhile the memory ended with its context */
} *pending;
/* Written under the lock. Read without it to skip the work where there is none: a stale 0 is the same as a call a moment earlier. */
static _Atomic int pending_count;

bool nvs_frees_after(const struct nvs_ledger_entry *entry, uintptr_t handle)
{
    struct pending_free *made = calloc(1, sizeof *made);
    struct nvs_stream *stream = nvs_stream_lock(handle, true);
    bool is_recorded = false;
    if (made && stream) {
        *made = (struct pending_free){.entry = *entry, .context = stream->context};
        is_recorded = nvs_event_record(stream, &made->event, handle, true) == NVS_EVENT_RECORDED;
    }
    if (is_recorded) {
        made->next = pending;
        pending = made;
        atomic_fetch_add(&pending_count, 1);
    } else if (made) {
        nvs_event_destroy(made->context, made->event);
        free(made);
    }
    nvs_lock_give(&nvs_streams_lock);
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

static void unlink_free(struct pending_free *gone)
{
    struct pending_free **at = &pending;
    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    atomic_fetch_sub(&pending_count, 1);
}

/* The lock is released while the driver is called. */
static bool is_due(struct pending_free *free_it)
{
    if (free_it->is_asked || nvs_context_life(free_it->context).state == NVS_CONTEXT_IN_DOUBT)
        return false;
    free_it->is_asked = true;
    enum nvs_event_state state = nvs_event_query(free_it->context, 0, free_it->event, true);
    if (state == NVS_EVENT_UNFINISHED && free_it->is_ended)
        nvs_event_destroy(free_it->context, free_it->event);
    free_it->is_asked = false;
    return state != NVS_EVENT_UNFINISHED || free_it->is_ended;
}

/* One that is due, taken out of the list; NULL if there is none. */
static struct pending_free *take_due(void)
{
    nvs_lock_take(&nvs_streams_lock);
    struct pending_free *due = pending;
    while (due && !is_due(due))
        due = due->next;
    if (due)
        unlink_free(due);
    nvs_lock_give(&nvs_streams_lock);
    return due;
}

void nvs_frees_do(void)
{
    struct pending_free *due;
    while (atomic_load(&pending_count) && (due = take_due())) {
        if (!due->is_ended)
            nvs_real.cuMemFree_v2(due->entry.key); /* fails if it ended with its context: gone in both cases */
        nvs_memory_return_entry(&due->entry);
        free(due);
    }
}

/* No call uses the context of the events that end here; memory of the context may wait for an event of another one. */
void nvs_frees_forget_context(CUcontext context)
{
    for (struct pending_free *at = pending, *next; at; at = next) {
        next = at->next;
        if (at->context != context && at->entry.owner != (uintptr_t)context)
            continue;
        if (at->is_asked) {
            at->is_ended = true;
            continue;
        }
        unlink_free(at);
        nvs_memory_return_entry(&at->entry);
        free(at);
    }
}

void nvs_frees_forked(void)
{
    pending = NULL; /* the records belong to the parent's contexts: left where they are */
    atomic_store(&pending_count, 0);
}
