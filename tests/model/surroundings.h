/* What the gate calls of the rest of the library, in the model. For gate.c. */
#ifndef MODEL_SURROUNDINGS_H
#define MODEL_SURROUNDINGS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"
#include "explore.h"
#include "helper/wake.h"
#include "process.h"
#include "suspend/passage.h"

static bool is_fenced, is_refused, is_woken;

bool nvs_process_ready(void) { return true; }
/* The gate of a process that is not in memory mode checkpoint: nobody is suspended. */
void nvs_passage_step_out(void) {}
void nvs_passage_step_in(void) {}
CUresult nvs_passage_refusal(void) { return CUDA_SUCCESS; }
bool nvs_barrier_setup(void) { return !is_fenced; }
bool nvs_barrier(void)
{
    if (!is_refused)
        explore_barrier();
    return !is_refused;
}
void nvs_barrier_once(void) { explore_barrier(); }
void nvs_wake_helper(void) { is_woken = true; }
void nvs_futex_wake_all(_Atomic uint32_t *word) { (void)word; }

struct expected { _Atomic uint32_t *word; uint32_t value; };

static bool has_changed(const void *argument)
{
    const struct expected *expected = argument;
    return explore_peek((const void *)(uintptr_t)expected->word, sizeof *expected->word) != expected->value;
}

/* Without its timeout: a lost wake-up shows as a run in which nobody can go on. */
void nvs_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns)
{
    struct expected expected = {word, value};
    (void)timeout_ns;
    explore_await(has_changed, &expected, "futex");
    explore_acquire(explore_now()); /* the kernel executes a barrier, also if it finds another value */
}

static char arena[16 << 10] __attribute__((aligned(64)));
void *nvs_pages(size_t bytes) { return bytes <= sizeof arena ? arena : NULL; }

#endif
