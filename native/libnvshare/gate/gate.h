/* A GPU's gate: one word that says whether threads may submit work to that GPU.
 *
 * Theory of operation
 *
 * The process may use a GPU only while it holds that GPU's lock. So the helper thread must be able to stop all threads of
 * the program within milliseconds, and to know when everything that they submitted has finished. A launch must not pay
 * for this: it stores only to the thread's own cache lines, loads two shared words that seldom change, and executes no
 * atomic read-modify-write.
 *
 * The word      open bit | watch bit | generation. Only the helper opens; the helper or its deputy (helper/deputy.c) closes. A
 *               page that the kernel wiped after a fork reads as 0: closed.
 *
 * Entering      (gate/enter.h) A thread keeps a small cache of the streams that it used. An entry holds the stream and the
 *               word that was valid when the stream was noted. To submit, the thread
 *                   1. stores "inside GPU g" in its own record,
 *                   2. loads the word and compares it with the cached one,
 *                   3. if they are equal, calls the driver,
 *                   4. clears "inside GPU g".
 *               One comparison answers three questions: the gate is open, nobody watches it, and this stream is on
 *               the list of streams to drain. If the words differ, the thread clears "inside GPU g" and takes the slow path:
 *               it waits for the gate, notes the stream, and caches the new word. It also takes the slow path when the
 *               entry's count of submissions is used up (gate/pacing.h).
 *
 * Closing       The helper clears the open bit, executes a barrier on all threads (membarrier), and waits until no record
 *               says "inside g". Steps 1 and 2 and the helper's two steps form the store-buffering pattern:
 *
 *                   thread                            helper
 *                   inside = g                        word &= ~open
 *                   (barrier by the helper's call)    barrier on all threads
 *                   word == cached ?                  any inside ?
 *
 *               With the barrier at least one of them sees the other's store: the thread finds the gate closed, or the
 *               helper finds the thread inside. Where membarrier is missing, or is refused later, each thread
 *               executes a fence instead (NVS_ENTER_FENCED).
 *
 * Draining      (gate/drain.h) When nobody is inside, the list of noted streams is complete. The helper records an
 *               event on each of them and polls. When all have finished, it starts a new generation and then clears the
 *               list. A thread that noted its stream before that finds a changed word and notes it again.
 *
 * Watching      The scheduler wants to know when the holder of a contended GPU is idle. So does the helper: it looks at no streams
 *               of an idle process (client/looker.h). It sets the watch bit: the word changes, so the next submission takes the
 *               slow path and clears the bit. If the bit is still set after a drain, no work was submitted since: the process is
 *               idle. While the process is busy this costs almost nothing: a submission finds the bit once per look, at most
 *               every 10 ms.
 *
 * Letting one   Work that is drained may wait for work that a thread at the closed gate has yet to submit (helper/drains.c). The
 * through       helper then offers one submission: it stores a new number in let_one. A thread that waits stores "inside g",
 *               takes the offer by swapping the number for 0, and notes its stream. The helper withdraws an offer by the same
 *               swap. If the helper's swap fails, the thread's store of "inside g" is visible, and the drain begins again. The
 *               list of noted streams is not cleared while an offer is open: the thread's note could be lost. The closed word
 *               is never cached, so the thread's next submission waits again.
 *
 * Generation    It also changes when a stream or context is destroyed: the driver may give the same handle to a new
 *               stream, and with a cached entry it would pass without being noted.
 *
 * Several GPUs  Each has its own gate. A peer copy enters both or none; it never waits at one while it is inside another
 *               (nvs_enter_several), so two peer copies cannot wait for each other. */
#ifndef NVS_GATE_H
#define NVS_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct nvs_gpu;
struct nvs_stream_use;

#define NVS_WORD_OPEN UINT64_C(1)
#define NVS_WORD_WATCH UINT64_C(2)
#define NVS_WORD_GENERATION UINT64_C(256) /* added once per generation */

/* Alone on its cache line: every thread reads it at every launch. */
struct nvs_gate {
    _Atomic uint64_t word;
    char rest_of_line[56];
};

/* For the helper. */
void nvs_gate_open(struct nvs_gpu *gpu);
/* After it, no thread enters; those that entered before show up in nvs_threads_any_inside. */
void nvs_gate_close(struct nvs_gpu *gpu);
/* Sets the watch bit if the gate is open. The same guarantee as nvs_gate_close, until a thread clears the bit. */
void nvs_gate_watch(struct nvs_gpu *gpu);
void nvs_gate_unwatch(struct nvs_gpu *gpu);
bool nvs_gate_is_watched(const struct nvs_gpu *gpu);
/* All noted streams have drained: invalidates the list before it is cleared. False if work may have been submitted meanwhile. `was_closed`: the
 * gate was closed when the drain began, else watched. */
bool nvs_gate_new_generation(struct nvs_gpu *gpu, bool was_closed);

/* Wakes the threads that wait at the gate, to check whether they have to drain. */
void nvs_gate_call_waiters(struct nvs_gpu *gpu);

/* One thread that waits at the closed gate may pass it; `offer` is a new number, not 0. */
void nvs_gate_offer(struct nvs_gpu *gpu, uint32_t offer);
/* False if a thread has taken the offer. */
bool nvs_gate_withdraw(struct nvs_gpu *gpu, uint32_t offer);
bool nvs_gate_is_taken(const struct nvs_gpu *gpu, uint32_t offer);
bool nvs_gate_is_closed(const struct nvs_gpu *gpu);

/* For the program's threads. */
/* Waits until the gate is open and not watched; returns the word. 0 and an offer: the stream may be submitted to once if the
 * offer can be taken. 0 and no offer: do not wait any longer, the library is not active. */
uint64_t nvs_gate_wait_open(struct nvs_gpu *gpu, const struct nvs_stream_use *use, uint32_t *offer);
/* Takes the offer; false if it is gone. "inside" is stored before, and the stream noted after it. */
bool nvs_gate_take(struct nvs_gpu *gpu, uint32_t offer);
/* The thread is about to submit: the gate is not watched from here on, until the helper watches it again. */
void nvs_gate_end_watch(struct nvs_gpu *gpu);
/* True if the gate is open and not watched. */
bool nvs_gate_is_open(const struct nvs_gpu *gpu);
/* The next submission of each thread takes the slow path. A stream or context is destroyed: no cached entry may rely on its handle.
 * Or the helper needs samples of the time that work takes (gate/slowness.h). */
void nvs_gate_force_slow_path(struct nvs_gpu *gpu);

#endif
