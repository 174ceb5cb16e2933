#include "gate/calls.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/platform.h"
#include "gate/streams.h"

/* Under nvs_streams_lock. Each entry is on the stack of the thread that makes the call. */
static struct nvs_call *calls;
static uint32_t waiting;
static _Atomic uint32_t ended; /* a futex: raised under the lock when a call has ended and a thread waits */

typedef bool matches(const struct nvs_call *call, const struct nvs_call *pattern);

static bool uses_context(const struct nvs_call *call, const struct nvs_call *pattern) { return call->context == pattern->context; }

static bool is_of_kind(const struct nvs_call *call, const struct nvs_call *pattern)
{
    return call->context == pattern->context && call->kind == pattern->kind;
}

/* The default streams of all contexts have the same handles. */
static bool uses_stream(const struct nvs_call *call, const struct nvs_call *pattern)
{
    return call->handle == pattern->handle && (call->handle > 2 || call->context == pattern->context);
}

static bool any(matches *match, const struct nvs_call *pattern)
{
    for (const struct nvs_call *at = calls; at; at = at->next)
        if (match(at, pattern))
            return true;
    return false;
}

/* `ended` is read and raised under the lock: a call that ends after it was read makes the futex not sleep. */
static void await(matches *match, const struct nvs_call *pattern)
{
    waiting++;
    while (any(match, pattern)) {
        uint32_t seen = atomic_load(&ended);
        nvs_lock_give(&nvs_streams_lock);
        nvs_futex_wait(&ended, seen, 1000 * NVS_MS);
        nvs_lock_take(&nvs_streams_lock);
    }
    waiting--;
}

void nvs_call_list(struct nvs_call *call)
{
    call->next = calls;
    calls = call;
}

void nvs_call_begin(struct nvs_call *call)
{
    nvs_call_list(call);
    nvs_lock_give(&nvs_streams_lock);
}

void nvs_call_end(struct nvs_call *call)
{
    nvs_lock_take(&nvs_streams_lock);
    struct nvs_call **at = &calls;
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    if (waiting) {
        atomic_fetch_add(&ended, 1);
        nvs_futex_wake_all(&ended);
    }
}

void nvs_calls_await_stream(uintptr_t handle, CUcontext context)
{
    await(uses_stream, &(struct nvs_call){.handle = handle, .context = context});
}

void nvs_calls_await_context(CUcontext context) { await(uses_context, &(struct nvs_call){.context = context}); }

void nvs_calls_await_kind(CUcontext context, enum nvs_call_kind kind)
{
    await(is_of_kind, &(struct nvs_call){.context = context, .kind = kind});
}

bool nvs_calls_have_kind(CUcontext context, enum nvs_call_kind kind)
{
    return any(is_of_kind, &(struct nvs_call){.context = context, .kind = kind});
}

void nvs_calls_forked(void)
{
    calls = NULL; /* the threads that make them are not in the child */
    waiting = 0;
}
