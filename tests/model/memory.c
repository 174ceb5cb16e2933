#include "memory.h"

#include <string.h>

#include "explore.h"

enum { MOST_VERSIONS = 1024, MOST_PLACES = 64, MOST_VIEWERS = 4 };

static struct version { const void *at; uint64_t value, since; } versions[MOST_VERSIONS];
static struct view {
    uint64_t since, since_seq_cst; /* nothing that was overwritten until then */
    struct { const void *at; uint64_t since; } seen[MOST_PLACES];
    int places;
} views[MOST_VIEWERS];
static int count;
static uint64_t now;
static bool weak;

void memory_reset(bool is_weak)
{
    weak = is_weak;
    count = 0;
    now = 0;
    memset(views, 0, sizeof views);
}

uint64_t memory_get(const void *at, size_t size)
{
    uint64_t value = 0;
    memcpy(&value, at, size);
    return value;
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

static const struct version *newest(const void *at, const struct version *before)
{
    for (const struct version *one = before; one-- > versions;)
        if (one->at == at)
            return one;
    return NULL;
}

static uint64_t *seen(int thread, const void *at)
{
    struct view *view = &views[thread];
    for (int i = 0; i < view->places; i++)
        if (view->seen[i].at == at)
            return &view->seen[i].since;
    explore_require(view->places < MOST_PLACES, "the model has room for all places");
    view->seen[view->places].at = at;
    view->seen[view->places].since = 0;
    return &view->seen[view->places++].since;
}

static void keep(const void *at, uint64_t value)
{
    explore_require(count < MOST_VERSIONS, "the model has room for all values");
    versions[count++] = (struct version){at, value, now};
}

void memory_set(int thread, void *at, size_t size, uint64_t value)
{
    if (weak && thread >= 0) {
        if (!newest(at, versions + count))
            keep(at, memory_get(at, size));
        now++;
        keep(at, value);
        *seen(thread, at) = now;
    }
    memcpy(at, &value, size);
}

/* The value before that one, if the thread may still see it. */
static const struct version *older(int thread, const struct version *than, enum memory_load order)
{
    const struct view *view = &views[thread];
    uint64_t since = order == MEMORY_SEQ_CST ? later(view->since, view->since_seq_cst) : view->since;
    bool is_hidden = than->since <= since || than->since <= *seen(thread, than->at);
    return is_hidden ? NULL : newest(than->at, than);
}

int memory_choices(int thread, const void *at, enum memory_load order)
{
    int choices = 1;
    for (const struct version *one = weak ? newest(at, versions + count) : NULL; one && (one = older(thread, one, order));)
        choices++;
    return choices;
}

uint64_t memory_load(int thread, const void *at, size_t size, enum memory_load order, int choice)
{
    const struct version *one = weak ? newest(at, versions + count) : NULL;
    if (!one)
        return memory_get(at, size);
    while (choice--)
        one = older(thread, one, order);
    *seen(thread, at) = one->since;
    if (order != MEMORY_RELAXED)
        memory_refresh(thread, one->since);
    return one->value;
}

uint64_t memory_find(int thread, const void *at, size_t size)
{
    const struct version *one = weak && thread >= 0 ? newest(at, versions + count) : NULL;
    if (one)
        memory_refresh(thread, one->since);
    return memory_get(at, size);
}

void memory_set_seq_cst(int thread, void *at, size_t size, uint64_t value)
{
    memory_set(thread, at, size, value);
    if (thread >= 0)
        views[thread].since_seq_cst = now;
}

uint64_t memory_now(void) { return now; }

void memory_refresh(int thread, uint64_t since)
{
    if (thread >= 0)
        views[thread].since = later(views[thread].since, since);
}
