#include "suspend/journey.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/platform.h"
#include "helper/wake.h"
#include "lookup/real.h"
#include "suspend/bypass.h"

enum { LOCK_MS = 5000 };
#define EXIT_WAIT_NS (60000 * NVS_MS) /* the most that the scheduler adds to the grace time */

static _Atomic uint32_t location; /* a futex; written by the helper, and at the end of a journey by its thread */
static _Atomic bool is_exiting;
static _Atomic uint32_t is_return_due; /* a futex; set by the helper, cleared by the journey's thread */
static bool is_told = true;         /* used by the helper; cleared by the journey's thread before it stores `location` */
static struct nvs_journey journey;  /* written by its thread before `location`, read by the helper after it */

enum nvs_location nvs_journey_location(void) { return (enum nvs_location)atomic_load(&location); }
bool nvs_journey_is_exiting(void) { return atomic_load(&is_exiting); }

static bool is_under_way(uint32_t at) { return at == NVS_LOCATION_LEAVING || at == NVS_LOCATION_RETURNING; }

static void set_place(enum nvs_location at)
{
    atomic_store(&location, at);
    nvs_futex_wake_all(&location);
    nvs_wake_helper();
}

static void arrive(enum nvs_location at, CUresult result, int64_t began)
{
    journey.result = result;
    journey.ns = nvs_now_ns() - began;
    is_told = false;
    set_place(at);
}

/* True if the process is off the card. */
static bool leave(void)
{
    int64_t began = nvs_now_ns();
    journey.bypass = nvs_bypass_find();
    if (journey.bypass) {
        arrive(NVS_LOCATION_CARD, CUDA_SUCCESS, began);
        return false;
    }
    CUcheckpointLockArgs args = {.timeoutMs = LOCK_MS};
    CUresult result = nvs_real.cuCheckpointProcessLock(getpid(), &args);
    if (result == CUDA_SUCCESS) {
        result = nvs_real.cuCheckpointProcessCheckpoint(getpid(), NULL);
        if (result != CUDA_SUCCESS && nvs_real.cuCheckpointProcessUnlock(getpid(), NULL) != CUDA_SUCCESS) {
            arrive(NVS_LOCATION_LOST, result, began);
            return false;
        }
    }
    arrive(result == CUDA_SUCCESS ? NVS_LOCATION_AWAY : NVS_LOCATION_CARD, result, began);
    return result == CUDA_SUCCESS;
}

static void come_back(void)
{
    int64_t began = nvs_now_ns();
    CUresult result = nvs_real.cuCheckpointProcessRestore(getpid(), NULL);
    if (result == CUDA_SUCCESS)
        result = nvs_real.cuCheckpointProcessUnlock(getpid(), NULL);
    arrive(result == CUDA_SUCCESS ? NVS_LOCATION_CARD : NVS_LOCATION_LOST, result, began);
}

/* The thread that took the process off the card brings it back: by then it may not be possible to start another one. */
static void *travel(void *nothing)
{
    nvs_thread_name("nvshare-leave");
    if (!leave())
        return nothing;
    nvs_thread_name("nvshare-away");
    while (!atomic_exchange(&is_return_due, 0))
        nvs_futex_wait(&is_return_due, 0, -1);
    nvs_thread_name("nvshare-return");
    come_back();
    return nothing;
}

/* The location is stored before `is_exiting` is read: pairs with nvs_journey_exits, which does the two in the other order. At least one side
 * sees the other's store: the exit waits for the journey, or no journey begins. */
bool nvs_journey_begin(bool to_host)
{
    enum nvs_location before = nvs_journey_location();
    journey = (struct nvs_journey){.to_host = to_host};
    atomic_store(&location, to_host ? NVS_LOCATION_LEAVING : NVS_LOCATION_RETURNING);
    bool can_begin = !nvs_journey_is_exiting(), has_thread = true;
    if (can_begin && to_host) {
        has_thread = nvs_thread_start(travel, NULL) == 0;
    } else if (can_begin) {
        atomic_store(&is_return_due, 1);
        nvs_futex_wake_all(&is_return_due);
    }
    if (!can_begin || !has_thread)
        set_place(before);
    return has_thread;
}

bool nvs_journey_ended(struct nvs_journey *ended)
{
    if (is_under_way(atomic_load(&location)) || is_told)
        return false;
    is_told = true;
    *ended = journey;
    return true;
}

void nvs_journey_exits(void)
{
    int64_t end = nvs_now_ns() + EXIT_WAIT_NS, left;
    uint32_t at;
    atomic_store(&is_exiting, true);
    while (is_under_way(at = atomic_load(&location)) && (left = end - nvs_now_ns()) > 0)
        nvs_futex_wait(&location, at, left);
}

void nvs_journey_forked(void)
{
    atomic_store(&location, NVS_LOCATION_CARD);
    atomic_store(&is_exiting, false);
    atomic_store(&is_return_due, 0);
    is_told = true;
}
