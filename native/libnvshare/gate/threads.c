/* Records are in a list that only grows; the record of a thread that has ended is reused for a later thread. So the helper may
 * walk the list at any time without a lock. */
#include "gate/threads.h"

#include <pthread.h>
#include <string.h>

#include "base/platform.h"
#include "gpu.h"

struct nvs_thread nvs_thread_none = {.cache = {[0 ... NVS_CACHED_STREAMS - 1] = {.key = UINTPTR_MAX}}};

__thread struct nvs_thread *nvs_thread_self = &nvs_thread_none;

static struct nvs_thread *_Atomic threads;
static pthread_key_t ending;
/* Stored after `ending` was made, under the set-up lock: pairs with the load in nvs_thread_record. Without it, a thread that has no key,
 * because none could be made, would store its record under key 0, which belongs to somebody else. That a thread which finds true sees
 * `ending` follows from nvs_process_ready too, which every thread passes before it gets a record. */
static _Atomic bool is_ending_set;

/* is_taken is stored last: pairs with the compare-and-swap in reuse, so that the next owner does not write to the record before
 * this thread has finished with it. `inside` is 0 already, unless the thread was ended inside a call; then the helper would wait for it in
 * vain. The store is sequentially consistent, thus a release, as in nvs_leave. */
static void thread_ends(void *record)
{
    struct nvs_thread *self = record;
    nvs_thread_self = &nvs_thread_none; /* a later destructor of the program may still call CUDA: it gets a record again */
    atomic_store(&self->inside, 0);
    atomic_store(&self->is_taken, false);
}

void nvs_threads_setup(void)
{
    if (!atomic_load(&is_ending_set) && pthread_key_create(&ending, thread_ends) == 0)
        atomic_store(&is_ending_set, true);
}

void nvs_threads_forked(void)
{
    /* The other threads are not in the child, whatever their records say. */
    atomic_store(&threads, NULL);
    nvs_thread_self = &nvs_thread_none;
}

static struct nvs_thread *reuse(void)
{
    for (struct nvs_thread *at = atomic_load(&threads); at; at = at->next) {
        bool is_free = false;
        if (atomic_compare_exchange_strong(&at->is_taken, &is_free, true))
            return at;
    }
    return NULL;
}

/* A record is in the list before its thread first stores `inside`: pairs with the walk in nvs_threads_any_inside, after the
 * barrier. Otherwise the helper could miss a thread that is inside. */
static struct nvs_thread *add(void)
{
    enum { BATCH = 8 };
    struct nvs_thread *batch = nvs_pages(BATCH * sizeof *batch);
    if (!batch)
        return NULL;
    atomic_store(&batch[0].is_taken, true);
    for (int i = 0; i < BATCH; i++) {
        struct nvs_thread *head = atomic_load(&threads);
        do
            batch[i].next = head;
        while (!atomic_compare_exchange_weak(&threads, &head, &batch[i]));
    }
    return batch;
}

struct nvs_thread *nvs_thread_record(void)
{
    if (nvs_thread_has_record())
        return nvs_thread_self;
    struct nvs_thread *self = reuse();
    if (!self)
        self = add();
    if (!self)
        return NULL;
    memcpy(self->cache, nvs_thread_none.cache, sizeof self->cache);
    nvs_thread_self = self;
    if (atomic_load(&is_ending_set))
        pthread_setspecific(ending, self);
    return self;
}

/* Acquire pairs with the release in nvs_leave: once a thread is seen outside, the work that it submitted inside is in its
 * stream, and an event recorded now comes after it. Otherwise the drain could end before that work. */
bool nvs_threads_any_inside(const struct nvs_gpu *gpu)
{
    for (struct nvs_thread *at = atomic_load(&threads); at; at = at->next)
        if (atomic_load_explicit(&at->inside, memory_order_acquire) >> gpu->index & 1)
            return true;
    return false;
}
