#include "suspend/passage.h"

#include <stdatomic.h>

#include "base/cancellation.h"
#include "base/platform.h"
#include "gpu.h"
#include "helper/wake.h"
#include "memory/memory.h"
#include "process.h"
#include "suspend/stubs.h"
#include "suspend/suspension.h"

#define CONTEXT_BYTES (UINT64_C(512) << 20) /* what is asked for if only the driver knows how much was lacking */
#define REFUSED UINT64_MAX

static _Atomic bool is_closed = true;
static _Atomic uint32_t inside;
static _Atomic uint32_t openings; /* a futex: raised when the passage opens, calls are refused, or a question is answered */
/* A CUresult; 0: calls are not refused. Stored before `openings` is raised (nvs_passage_refuse); come_in reads them in the other order. A
 * thread that misses the refusal finds the count changed and does not sleep. */
static _Atomic uint32_t refusal;
enum { NO_QUESTION, ASKED, GRANTED, DENIED };
/* Of the thread that wants its turn given back. ASKED is stored before that thread wakes the helper, which clears the wake-up before it
 * reads the question. The answer is stored before `openings` is raised (nvs_passage_yielded); wait_for_room reads them in the other order
 * and does not sleep if it missed the answer. Only the thread that asked stores NO_QUESTION, so there is one question at a time. */
static _Atomic uint32_t question;

/* The calling thread. */
static __thread struct {
    unsigned depth; /* the driver may call back */
    bool is_counted;
    bool has_tried_again;
    uint64_t charged; /* what it has charged for the call, REFUSED, or 0 */
    uint64_t prepaid; /* charged while it waited for a turn: the call that is made again need not charge it */
    struct nvs_cancellation before;
} self;

/* A process with one GPU: suspend/suspension.h. */
static struct nvs_gpu *the_gpu(void) { return &nvs_gpus[0]; }

static void leave_count(void)
{
    if (atomic_fetch_sub(&inside, 1) == 1 && atomic_load(&is_closed))
        nvs_wake_helper(); /* it waits for this */
}

/* True if the thread is inside and counted. */
static bool count_in(void)
{
    atomic_fetch_add(&inside, 1);
    if (!atomic_load(&is_closed))
        return true;
    leave_count();
    return false;
}

/* `openings` is read before the passage: nvs_passage_open changes them in the other order. Waiters as in wait_for_turn (gate/gate.c). */
static void wait_outside(uint32_t seen)
{
    atomic_fetch_add(&the_gpu()->waiters, 1);
    nvs_wake_helper();
    nvs_futex_wait(&openings, seen, 1000 * NVS_MS);
    atomic_fetch_sub(&the_gpu()->waiters, 1);
}

/* False if calls are refused. */
static bool come_in(void)
{
    for (;;) {
        uint32_t seen = atomic_load(&openings);
        if (atomic_load(&refusal))
            return false;
        if (count_in())
            return true;
        wait_outside(seen);
    }
}

static void give_prepaid_back(void)
{
    if (self.prepaid)
        nvs_memory_return(the_gpu(), self.prepaid, false);
    self.prepaid = 0;
}

void *nvs_passage_enter(unsigned stub)
{
    void *function = nvs_stub_function(stub);
    bool is_free = !nvs_process_is_set_up() || !nvs_suspension_is_used()
                || (nvs_stub_only_asks(stub) && !atomic_load(&the_gpu()->contexts));
    if (self.depth++ || is_free)
        return function;
    self.before = nvs_cancellation_hold_off();
    self.charged = 0;
    self.is_counted = come_in();
    if (self.is_counted && nvs_stub_is_unfit(stub))
        nvs_suspension_unfit(NVS_UNFIT_MEMORY);
    if (self.is_counted)
        return function;
    give_prepaid_back();
    self.depth = 0;
    nvs_cancellation_restore(&self.before);
    return NULL;
}

CUresult nvs_passage_refusal(void) { return (CUresult)atomic_load(&refusal); }

/* What was lacking is charged while the thread waits for a turn: the scheduler gives it one when there is room for it. */
static bool wait_for_room(void)
{
    uint32_t none = NO_QUESTION, answer;
    uint64_t bytes = self.charged ? self.charged : CONTEXT_BYTES;
    self.prepaid = bytes;
    nvs_memory_add(the_gpu(), bytes, false);
    atomic_store(&the_gpu()->is_urgent, true); /* before the question: the scheduler must know it when the turn is given back */
    if (!atomic_compare_exchange_strong(&question, &none, ASKED))
        return false; /* another thread asks: its turn will be ours, too, but not our memory */
    leave_count();
    while ((answer = atomic_load(&question)) == ASKED) {
        uint32_t seen = atomic_load(&openings);
        if (atomic_load(&question) == ASKED)
            wait_outside(seen);
    }
    atomic_store(&question, NO_QUESTION);
    self.is_counted = come_in();
    return answer == GRANTED && self.is_counted;
}

bool nvs_passage_leave(unsigned stub, CUresult result, uintptr_t first, uintptr_t second)
{
    if (--self.depth)
        return false;
    if (!self.is_counted) { /* made again, perhaps, by a process that cannot be suspended any more: what it prepaid is charged no longer */
        NVS_NO_CANCELLATION; /* nvs_passage_enter did not hold it off: the account's lock */
        self.has_tried_again = false;
        give_prepaid_back();
        return false;
    }
    if (result == CUDA_SUCCESS && nvs_stub_shows_unfit(stub, first, second))
        nvs_suspension_unfit(NVS_UNFIT_MEMORY);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && self.charged != REFUSED && !self.has_tried_again && nvs_suspension_is_used()) {
        self.has_tried_again = wait_for_room();
        if (self.has_tried_again) {
            leave_count(); /* the stub enters again */
            self.is_counted = false;
            nvs_cancellation_restore(&self.before);
            return true;
        }
    }
    self.has_tried_again = false;
    give_prepaid_back();
    if (self.is_counted)
        leave_count();
    self.is_counted = false;
    nvs_cancellation_restore(&self.before);
    return false;
}

void nvs_passage_step_out(void)
{
    if (self.is_counted)
        leave_count();
}

/* A thread that is refused here goes on to the driver of a process that cannot use it any more. */
void nvs_passage_step_in(void)
{
    if (self.is_counted && !come_in())
        atomic_fetch_add(&inside, 1);
}

bool nvs_passage_has_paid(uint64_t bytes)
{
    if (NVS_LIKELY(self.prepaid < bytes || !bytes))
        return false;
    self.prepaid -= bytes;
    return true;
}

void nvs_passage_charged(uint64_t bytes) { self.charged = bytes; }
void nvs_passage_charge_refused(void) { self.charged = REFUSED; }

static void call_all(void)
{
    atomic_fetch_add(&openings, 1);
    nvs_futex_wake_all(&openings);
}

void nvs_passage_open(void)
{
    atomic_store(&is_closed, false);
    call_all();
}

bool nvs_passage_close(void)
{
    atomic_store(&is_closed, true);
    return atomic_load(&inside) == 0;
}

void nvs_passage_refuse(CUresult with)
{
    atomic_store(&refusal, with);
    call_all();
}

bool nvs_passage_wants_yield(void) { return atomic_load(&question) == ASKED; }

void nvs_passage_yielded(bool is_granted)
{
    atomic_store(&question, is_granted ? GRANTED : DENIED);
    call_all();
}

void nvs_passage_forked(void)
{
    atomic_store(&is_closed, true);
    atomic_store(&inside, self.is_counted);
    atomic_store(&refusal, 0);
    atomic_store(&question, NO_QUESTION);
}
