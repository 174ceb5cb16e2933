#include "explore.h"

#include <string.h>
#include <ucontext.h>

#include "memory.h"
#include "trace.h"

enum { MOST_THREADS = 4, MOST_BUFFERED = 16, MOST_CHOICES = 4096, MOST_OPTIONS = 32, STACK = 64 << 10 };

struct buffered { void *at; size_t size; uint64_t value; bool is_release; const char *name; };

static struct thread {
    ucontext_t context;
    char stack[STACK];
    bool is_over;
    bool (*awaits)(const void *);
    const void *argument;
    struct buffered buffer[MOST_BUFFERED];
    int buffered;
} threads[MOST_THREADS];

static const struct explore_plan *plan;
static ucontext_t explorer;
static int current;
static struct { int chosen, count; } choices[MOST_CHOICES];
static int depth, length; /* of the present run; of the prefix that it repeats */

/* ---- memory ---- */

uint64_t explore_peek(const void *at, size_t size) { return memory_get(at, size); }

static bool may_leave(const struct thread *thread, int index)
{
    if (thread->buffer[index].is_release)
        return index == 0;
    for (int i = 0; i < index; i++)
        if (thread->buffer[i].at == thread->buffer[index].at)
            return false;
    return true;
}

static void leave(struct thread *thread, int index)
{
    struct buffered store = thread->buffer[index];
    memory_set((int)(thread - threads), store.at, store.size, store.value);
    trace_note((int)(thread - threads), "visible", store.name, store.value);
    thread->buffered--;
    memmove(thread->buffer + index, thread->buffer + index + 1, (size_t)(thread->buffered - index) * sizeof store);
}

static void empty(struct thread *thread)
{
    while (thread->buffered)
        leave(thread, 0);
}

/* ---- choosing ---- */

static bool can_go_on(const struct thread *thread)
{
    return !thread->is_over && (!thread->awaits || thread->awaits(thread->argument));
}

static void switch_to(int next)
{
    int from = current;
    current = next;
    plan->switched(from, next);
    if (from < 0)
        swapcontext(&explorer, &threads[next].context);
    else if (from != next)
        swapcontext(&threads[from].context, &threads[next].context);
}

/* The options in order: the present thread, other threads, stores. The first that is possible costs nothing. */
static int list_options(int options[MOST_OPTIONS])
{
    int count = 0;
    for (int i = 0; i < plan->threads; i++) {
        int number = (current < 0 ? i : (current + i) % plan->threads);
        if (can_go_on(&threads[number]))
            options[count++] = number;
    }
    for (int i = 0; i < plan->threads; i++)
        for (int k = 0; k < threads[i].buffered; k++)
            if (may_leave(&threads[i], k)) {
                explore_require(count < MOST_OPTIONS, "all options are tried");
                options[count++] = MOST_THREADS + i * MOST_BUFFERED + k;
            }
    return count;
}

static int choose(int count)
{
    explore_require(depth < MOST_CHOICES, "a run ends");
    if (depth >= length) {
        choices[depth].chosen = 0;
        choices[depth].count = count;
    }
    explore_require(choices[depth].count == count, "the same choices give the same run");
    return choices[depth++].chosen;
}

/* Returns when the present thread goes on; or to the explorer when all are over. */
static void pick(void)
{
    for (;;) {
        int options[MOST_OPTIONS], count = list_options(options);
        if (!count) {
            for (int i = 0; i < plan->threads; i++)
                explore_require(threads[i].is_over, "somebody can go on");
            current = -1;
            setcontext(&explorer);
        }
        int option = options[count == 1 ? 0 : choose(count)];
        if (option < MOST_THREADS) {
            switch_to(option);
            return;
        }
        leave(&threads[(option - MOST_THREADS) / MOST_BUFFERED], (option - MOST_THREADS) % MOST_BUFFERED);
    }
}

void explore_step(const char *name)
{
    if (current < 0)
        return; /* the set-up of a run */
    pick();
    trace_note(current, "step", name, 0);
}

void explore_await(bool (*is_true)(const void *), const void *argument, const char *name)
{
    struct thread *self = &threads[current];
    self->awaits = is_true;
    self->argument = argument;
    pick();
    self->awaits = NULL;
    trace_note(current, "awaited", name, 0);
}

/* ---- operations ---- */

static void before(void)
{
    if (current >= 0)
        pick();
}

uint64_t explore_load(void *at, size_t size, int order, const char *name)
{
    if (current < 0 || plan->is_constant(at))
        return memory_get(at, size);
    before();
    const struct thread *self = &threads[current];
    int own = self->buffered;
    while (own && self->buffer[own - 1].at != at)
        own--;
    int count = own ? 1 : memory_choices(current, at, (enum memory_load)order);
    int choice = count > 1 ? choose(count) : 0;
    uint64_t value = own ? self->buffer[own - 1].value : memory_load(current, at, size, (enum memory_load)order, choice);
    trace_note(current, choice ? "old load" : "load", name, value);
    return value;
}

void explore_store(void *at, size_t size, uint64_t value, bool is_release, bool is_seq_cst, const char *name)
{
    before();
    trace_note(current, "store", name, value);
    if (current < 0 || is_seq_cst) {
        if (current >= 0)
            empty(&threads[current]);
        memory_set_seq_cst(current, at, size, value);
        return;
    }
    struct thread *self = &threads[current];
    explore_require(self->buffered < MOST_BUFFERED, "the model's buffers are large enough");
    self->buffer[self->buffered++] = (struct buffered){at, size, value, is_release, name};
}

static uint64_t find(void *at, size_t size)
{
    before();
    if (current >= 0)
        empty(&threads[current]);
    return memory_find(current, at, size);
}

uint64_t explore_change(void *at, size_t size, char how, uint64_t operand, const char *name)
{
    uint64_t old = find(at, size), new = how == '=' ? operand : how == '+' ? old + operand : how == '-' ? old - operand
                                       : how == '|' ? old | operand : old & operand;
    memory_set_seq_cst(current, at, size, new);
    trace_note(current, "change", name, new);
    return old;
}

bool explore_swap(void *at, size_t size, void *expected, uint64_t value, const char *name)
{
    uint64_t old = find(at, size);
    bool is_same = old == memory_get(expected, size);
    if (is_same)
        memory_set_seq_cst(current, at, size, value);
    else
        memcpy(expected, &old, size);
    trace_note(current, is_same ? "swap" : "no swap", name, is_same ? value : old);
    return is_same;
}

uint64_t explore_now(void) { return memory_now(); }

void explore_acquire(uint64_t since) { memory_refresh(current, since); }

void explore_fence(void)
{
    before();
    if (current < 0)
        return;
    empty(&threads[current]);
    memory_refresh(current, memory_now());
}

void explore_barrier(void)
{
    before();
    for (int i = 0; i < plan->threads; i++)
        empty(&threads[i]);
    for (int i = 0; i < plan->threads; i++)
        memory_refresh(i, memory_now());
}

/* ---- runs ---- */

static void body(int number)
{
    plan->thread(number);
    threads[number].is_over = true;
    pick();
}

static void start(int number)
{
    struct thread *thread = &threads[number];
    thread->is_over = false;
    thread->awaits = NULL;
    thread->buffered = 0;
    getcontext(&thread->context);
    thread->context.uc_stack.ss_sp = thread->stack;
    thread->context.uc_stack.ss_size = sizeof thread->stack;
    makecontext(&thread->context, (void (*)(void))body, 1, number);
}

static void run(void)
{
    trace_reset();
    depth = 0;
    current = -1;
    memory_reset(plan->reorders_loads);
    plan->reset();
    for (int i = 0; i < plan->threads; i++)
        start(i);
    pick(); /* returns when all threads are over */
    plan->ended();
}

/* The next run: the last choice that has another option within the bound. */
static bool advance(void)
{
    for (int at = depth - 1; at >= 0; at--) {
        int spent = 0;
        for (int i = 0; i < at; i++)
            spent += choices[i].chosen != 0;
        if (choices[at].chosen + 1 < choices[at].count && (plan->most < 0 || spent < plan->most)) {
            choices[at].chosen++;
            length = at + 1;
            return true;
        }
    }
    return false;
}

uint64_t explore(const struct explore_plan *what)
{
    uint64_t runs = 0;
    plan = what;
    length = 0;
    do {
        run();
        explore_require(++runs <= plan->most_runs, "all runs are tried");
    } while (advance());
    return runs;
}
