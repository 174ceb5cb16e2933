/* Checkpoints of the simulated driver: states, what is refused, and calls that wait while the process is locked. */
#include "simgpu_check.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define MiB (1ull << 20)
#define BAD_STATE CUDA_ERROR_ILLEGAL_STATE

static int own;

static CUprocessState state_now(void)
{
    CUprocessState state = CU_PROCESS_STATE_FAILED;
    OK(cuCheckpointProcessGetState, own, &state);
    return state;
}

static void before_init(void)
{
    CUprocessState state;
    IS(CUDA_ERROR_NOT_INITIALIZED, cuCheckpointProcessGetState, own, &state);
    IS(CUDA_ERROR_NOT_INITIALIZED, cuCheckpointProcessLock, own, NULL);
}

static void arguments(void)
{
    int tid = 0;
    CUcheckpointRestoreArgs elsewhere = {.gpuPairsCount = 1};
    OK(cuCheckpointProcessGetRestoreThreadId, own, &tid);
    TRUE_(tid > 0);
    IS(BAD_VALUE, cuCheckpointProcessGetRestoreThreadId, own, NULL);
    IS(BAD_VALUE, cuCheckpointProcessGetState, own, NULL);
    IS(BAD_VALUE, cuCheckpointProcessLock, 0, NULL);
    IS(CUDA_ERROR_NOT_SUPPORTED, cuCheckpointProcessLock, getppid(), NULL);
    IS(CUDA_ERROR_OPERATING_SYSTEM, cuCheckpointProcessLock, 1 << 30, NULL);
    IS(CUDA_ERROR_NOT_SUPPORTED, cuCheckpointProcessRestore, own, &elsewhere);
}

/* Every step in the wrong state is refused and changes nothing. */
static void states(void)
{
    IS(BAD_STATE, cuCheckpointProcessCheckpoint, own, NULL);
    IS(BAD_STATE, cuCheckpointProcessRestore, own, NULL);
    IS(BAD_STATE, cuCheckpointProcessUnlock, own, NULL);
    OK(cuCheckpointProcessLock, own, NULL);
    TRUE_(state_now() == CU_PROCESS_STATE_LOCKED);
    IS(BAD_STATE, cuCheckpointProcessLock, own, NULL);
    OK(cuCheckpointProcessUnlock, own, NULL);
    OK(cuCheckpointProcessLock, own, NULL);
    OK(cuCheckpointProcessCheckpoint, own, NULL);
    TRUE_(state_now() == CU_PROCESS_STATE_CHECKPOINTED);
    IS(BAD_STATE, cuCheckpointProcessUnlock, own, NULL);
    OK(cuCheckpointProcessRestore, own, NULL);
    TRUE_(state_now() == CU_PROCESS_STATE_LOCKED);
    OK(cuCheckpointProcessUnlock, own, NULL);
    TRUE_(state_now() == CU_PROCESS_STATE_RUNNING);
}

struct call {
    _Atomic pid_t thread;
    _Atomic bool is_done;
};

static void *call(void *argument)
{
    struct call *call = argument;
    atomic_store(&call->thread, (pid_t)syscall(SYS_gettid));
    cuCtxSetCurrent(NULL); /* waits */
    atomic_store(&call->is_done, true);
    return NULL;
}

/* The system call that a thread of this process sleeps in; -1 if it sleeps in none. */
static long sleeps_in(pid_t thread)
{
    char path[64];
    long number = -1;
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", thread);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%ld", &number) != 1)
        number = -1; /* "running" */
    if (file)
        fclose(file);
    return number;
}

/* True once the thread sleeps in a futex, false if its call has returned, or does neither for a minute. */
static bool waits(struct call *call)
{
    for (int i = 0; i < 60000; i++) {
        pid_t thread = atomic_load(&call->thread);
        if (atomic_load(&call->is_done))
            return false;
        if (thread && sleeps_in(thread) == SYS_futex)
            return true;
        usleep(1000);
    }
    return false;
}

static void calls_wait_and_memory_is_kept(void)
{
    CUdeviceptr memory;
    unsigned value = 0;
    struct call other = {0};
    pthread_t thread;
    OK(cuMemAlloc_v2, &memory, 64 * MiB);
    OK(cuMemsetD32_v2, memory, 0x12345678, 16 * MiB);
    OK(cuCheckpointProcessLock, own, NULL);
    OK(cuCheckpointProcessCheckpoint, own, NULL);
    pthread_create(&thread, NULL, call, &other);
    TRUE_(waits(&other));
    OK(cuCheckpointProcessRestore, own, NULL);
    TRUE_(waits(&other));
    OK(cuCheckpointProcessUnlock, own, NULL);
    pthread_join(thread, NULL);
    OK(cuMemcpyDtoH_v2, &value, memory + 63 * MiB, sizeof value);
    TRUE_(value == 0x12345678);
    OK(cuMemFree_v2, memory);
}

/* A lock waits for work that was submitted, as long as it may. */
static void the_lock_waits_for_work(void)
{
    CUcheckpointLockArgs args = {.timeoutMs = 30};
    hold(NULL);
    IS(CUDA_ERROR_NOT_READY, cuCheckpointProcessLock, own, &args);
    TRUE_(state_now() == CU_PROCESS_STATE_RUNNING);
    let_go();
    args.timeoutMs = 0;
    OK(cuCheckpointProcessLock, own, &args);
    OK(cuCheckpointProcessUnlock, own, NULL);
}

static void what_is_refused(void)
{
    CUdeviceptr memory;
    CUipcMemHandle handle;
    OK(cuMemAllocManaged, &memory, 4 * MiB, CU_MEM_ATTACH_GLOBAL);
    OK(cuCheckpointProcessLock, own, NULL);
    IS(CUDA_ERROR_NOT_SUPPORTED, cuCheckpointProcessCheckpoint, own, NULL);
    OK(cuCheckpointProcessUnlock, own, NULL);
    OK(cuMemFree_v2, memory);
    OK(cuMemAlloc_v2, &memory, 4 * MiB);
    OK(cuIpcGetMemHandle, &handle, memory);
    OK(cuCheckpointProcessLock, own, NULL);
    IS(CUDA_ERROR_NOT_SUPPORTED, cuCheckpointProcessCheckpoint, own, NULL);
    OK(cuCheckpointProcessUnlock, own, NULL);
    OK(cuMemFree_v2, memory);
    OK(cuCheckpointProcessLock, own, NULL);
    OK(cuCheckpointProcessCheckpoint, own, NULL);
    OK(cuCheckpointProcessRestore, own, NULL);
    OK(cuCheckpointProcessUnlock, own, NULL);
}

/* Last: the process cannot be saved after it. */
static void a_failed_restore_is_for_good(void)
{
    OK(cuCheckpointProcessLock, own, NULL);
    OK(cuCheckpointProcessCheckpoint, own, NULL);
    setenv("NVSHARE_SIM_CHECKPOINT", "restore-fails", 1);
    IS(CUDA_ERROR_OUT_OF_MEMORY, cuCheckpointProcessRestore, own, NULL);
    unsetenv("NVSHARE_SIM_CHECKPOINT");
    TRUE_(state_now() == CU_PROCESS_STATE_FAILED);
    IS(CUDA_ERROR_OPERATING_SYSTEM, cuCheckpointProcessRestore, own, NULL);
}

int main(void)
{
    setenv("NVSHARE_SIM_MEMORY", "1Gi", 1);
    own = getpid();
    before_init();
    start();
    arguments();
    states();
    calls_wait_and_memory_is_kept();
    the_lock_waits_for_work();
    what_is_refused();
    a_failed_restore_is_for_good();
    return done();
}
