/* Checkpoints: a process leaves its cards and comes back, with all that it had there (cuCheckpointProcess...).
 *
 *   running -Lock-> locked -Checkpoint-> checkpointed -Restore-> locked -Unlock-> running
 *
 * While the process is locked its calls wait (SIM_ENTER). What it has on its cards, contexts included, is host memory of the process
 * from Checkpoint to Restore. A real driver refuses managed memory, memory that is shared by handle, and MIG. After a refusal the
 * process can be unlocked; with NVSHARE_SIM_CHECKPOINT=refusal-breaks it cannot, as was seen with driver 595. A restore that finds too
 * little room fails for good, as was seen with drivers 580 and 595: no later one succeeds.
 *
 * A real driver does this for any process. Here a process can do it only for itself. Calls that are under way when it is locked are not
 * waited for; work that was submitted is.
 *
 * The driver's exit handler frees the state that these steps work on. A step in progress then, or a later one, ends the program. */
#define _GNU_SOURCE
#include "driver/driver.h"
#include "state/host.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* one step at a time */
static pthread_mutex_t ready_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;
static _Atomic int state; /* CUprocessState */
static _Atomic pid_t exited; /* the process whose exit handler has run */
static _Atomic pid_t stepping; /* the process that has the lock */

static void fail_in_exit(const char *when)
{
    fprintf(stderr, "nvshare simulated GPU: a checkpoint or restore %s the driver's exit handler\n", when);
    abort();
}

/* `exited` is stored before `stepping` is read; begin does the two in the other order. */
void sim_checkpoint_exits(void)
{
    atomic_store(&exited, getpid());
    if (atomic_load(&stepping) == getpid())
        fail_in_exit("is under way in");
}

void sim_checkpoint_forked(void) { pthread_mutex_init(&lock, NULL); }

bool sim_await_ready(void)
{
    pthread_mutex_lock(&ready_lock);
    while (atomic_load(&sim.state) == SIM_LOCKED)
        pthread_cond_wait(&ready, &ready_lock);
    pthread_mutex_unlock(&ready_lock);
    return atomic_load(&sim.state) == SIM_READY;
}

static void let_calls_through(void)
{
    pthread_mutex_lock(&ready_lock);
    atomic_store(&sim.state, SIM_READY);
    pthread_cond_broadcast(&ready);
    pthread_mutex_unlock(&ready_lock);
}

static bool is_set(const char *behaviour)
{
    const char *text = getenv("NVSHARE_SIM_CHECKPOINT");
    return text != NULL && strcmp(text, behaviour) == 0;
}

static void hang_if(const char *behaviour)
{
    while (is_set(behaviour))
        pause();
}

static CUresult check(int pid)
{
    if (pid <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (pid != getpid())
        return kill(pid, 0) != 0 && errno == ESRCH ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_ERROR_NOT_SUPPORTED;
    int now = atomic_load(&sim.state);
    if (now != SIM_READY && now != SIM_LOCKED)
        return CUDA_ERROR_NOT_INITIALIZED;
    return sim.cuda_version < 12080 || sim_config()->mig ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

/* Takes the lock if the process is in this state. */
static CUresult begin(int pid, CUprocessState from)
{
    SIM_TRY(check(pid));
    pthread_mutex_lock(&lock);
    atomic_store(&stepping, getpid());
    if (atomic_load(&exited) == getpid())
        fail_in_exit("begins after");
    if (atomic_load(&state) == (int)from)
        return CUDA_SUCCESS;
    atomic_store(&stepping, 0);
    pthread_mutex_unlock(&lock);
    return CUDA_ERROR_ILLEGAL_STATE;
}

static CUresult end(CUresult result)
{
    atomic_store(&stepping, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

static void sleep_until(uint64_t until_ns)
{
    struct timespec at = {.tv_sec = (time_t)(until_ns / 1000000000ull), .tv_nsec = (long)(until_ns % 1000000000ull)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *tid)
{
    if (tid == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(check(pid));
    *tid = pid;
    return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessGetState(int pid, CUprocessState *found)
{
    if (found == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(check(pid));
    *found = (CUprocessState)atomic_load(&state);
    return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args)
{
    uint64_t until = args != NULL && args->timeoutMs > 0 ? sim_now_ns() + args->timeoutMs * 1000000ull : SIM_NEVER;
    SIM_TRY(begin(pid, CU_PROCESS_STATE_RUNNING));
    if (is_set("lock-fails"))
        return end(CUDA_ERROR_NOT_SUPPORTED);
    atomic_store(&sim.state, SIM_LOCKED);
    while (!sim_is_idle()) {
        if (sim_now_ns() >= until) {
            let_calls_through();
            return end(CUDA_ERROR_NOT_READY);
        }
        sleep_until(sim_now_ns() + 200000);
    }
    atomic_store(&state, CU_PROCESS_STATE_LOCKED);
    return end(CUDA_SUCCESS);
}

static bool has_managed_memory(void)
{
    for (unsigned i = 0; i < sim_config()->gpus; i++)
        if (sim_memory_chunks(i) > 0)
            return true;
    return false;
}

/* Real nanoseconds that the link needs for these bytes, and when it has carried them. */
static uint64_t carried_by(struct sim_card *card, enum sim_direction direction, uint64_t bytes)
{
    uint64_t ns = (uint64_t)((double)bytes / sim_config()->copy_bandwidth * sim_config()->scale * 1e9);
    return sim_link_book(card, direction, sim_now_ns(), ns) + ns;
}

/* The memory stays on the card until it has been copied. */
static bool save(unsigned index)
{
    struct sim_card *card = sim.view.cards[index];
    int slot = sim.view.slots[index];
    if (slot < 0)
        return true;
    sim_card_lock(card);
    uint64_t until = carried_by(card, SIM_TO_HOST, card->slots[slot].native_bytes);
    sim_card_unlock(card);
    sleep_until(until);
    sim_card_lock(card);
    bool is_saved = sim_host_save(card, (uint32_t)slot);
    sim_card_unlock(card);
    return is_saved;
}

static bool bring_back(unsigned index)
{
    struct sim_card *card = sim.view.cards[index];
    int slot = sim.view.slots[index];
    if (slot < 0)
        return true;
    uint64_t bytes = card->slots[slot].saved_bytes;
    if (sim_charge(index, bytes) != CUDA_SUCCESS)
        return false;
    sim_card_lock(card);
    card->slots[slot].saved_bytes = 0;
    uint64_t until = carried_by(card, SIM_TO_DEVICE, bytes);
    sim_card_unlock(card);
    sleep_until(until);
    return true;
}

/* All cards or none; those that went are brought back if one fails. */
static bool each_card(bool (*step)(unsigned), bool (*back)(unsigned))
{
    for (unsigned i = 0; i < sim_config()->gpus; i++) {
        if (step(i))
            continue;
        while (back != NULL && i-- > 0)
            back(i);
        return false;
    }
    return true;
}

CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args)
{
    (void)args;
    hang_if("checkpoint-hangs");
    SIM_TRY(begin(pid, CU_PROCESS_STATE_LOCKED));
    bool is_refused = has_managed_memory() || atomic_load(&sim_ipc_blocks) > 0;
    if (is_refused && is_set("refusal-breaks"))
        atomic_store(&state, CU_PROCESS_STATE_FAILED);
    if (is_refused || is_set("checkpoint-fails"))
        return end(CUDA_ERROR_NOT_SUPPORTED);
    if (!each_card(save, bring_back))
        return end(CUDA_ERROR_OUT_OF_MEMORY);
    atomic_store(&state, CU_PROCESS_STATE_CHECKPOINTED);
    return end(CUDA_SUCCESS);
}

CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args)
{
    hang_if("restore-hangs");
    if (args != NULL && args->gpuPairsCount > 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    SIM_TRY(check(pid));
    if (atomic_load(&state) == CU_PROCESS_STATE_FAILED)
        return CUDA_ERROR_OPERATING_SYSTEM;
    SIM_TRY(begin(pid, CU_PROCESS_STATE_CHECKPOINTED));
    bool is_back = !is_set("restore-fails") && each_card(bring_back, NULL);
    atomic_store(&state, is_back ? CU_PROCESS_STATE_LOCKED : CU_PROCESS_STATE_FAILED);
    return end(is_back ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args)
{
    (void)args;
    SIM_TRY(begin(pid, CU_PROCESS_STATE_LOCKED));
    atomic_store(&state, CU_PROCESS_STATE_RUNNING);
    let_calls_through();
    return end(CUDA_SUCCESS);
}
