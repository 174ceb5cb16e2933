/* Which threads are in the driver, in memory mode checkpoint (decision 32).
 *
 * Theory of operation
 *
 * No call may reach the driver of a process that is suspended: it would wait there, unseen, or crash. So in this mode every function of
 * the driver that the program looks up is behind a stub (suspend/stubs.c), which counts the threads inside. The helper closes the passage,
 * waits until no thread is inside, and only then suspends the process. A thread that finds the passage closed waits outside and counts as a
 * waiter of the GPU, so that the helper requests a turn for it. A thread that sleeps at the gate is outside too.
 *
 * The passage is closed at the start: memory that the card has no room for must not be asked for before there is a turn.
 *
 *     thread                    helper
 *     inside++                  is_closed = true
 *     is_closed ?               inside == 0 ?
 *
 * Both are sequentially consistent: at least one side sees the other's store. */
#ifndef NVS_PASSAGE_H
#define NVS_PASSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_types.h"

/* For the stubs. Before the driver's call: the function to call, or NULL if it must not be called; then the result is
 * nvs_passage_refusal. */
void *nvs_passage_enter(unsigned stub);
CUresult nvs_passage_refusal(void);
/* After it, with its first two arguments: true if the call is to be made again: the card had no room for it, and now the process
 * has a turn with enough room. */
bool nvs_passage_leave(unsigned stub, CUresult result, uintptr_t first, uintptr_t second);

/* Around a sleep of a thread that may be inside. */
void nvs_passage_step_out(void);
void nvs_passage_step_in(void);
/* What the calling thread has charged for the allocation under way, before the driver is asked; or that it was refused. */
void nvs_passage_charged(uint64_t bytes);
void nvs_passage_charge_refused(void);
/* True if it has been charged already, while the thread waited for a turn. */
bool nvs_passage_has_paid(uint64_t bytes);

/* For the helper. */
void nvs_passage_open(void);
/* True if no thread is inside; else ask again later. */
bool nvs_passage_close(void);
/* From now on calls are refused with this result. */
void nvs_passage_refuse(CUresult refusal);
/* Whether a thread wants its turn given back for one with more memory; answered by nvs_passage_yielded. */
bool nvs_passage_wants_yield(void);
void nvs_passage_yielded(bool is_granted);
void nvs_passage_forked(void);

#endif
