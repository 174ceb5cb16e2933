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

static void *leave(void *nothing)
{
    nvs_thread_name("nvshare-leave");
    int64_t began = nvs_now_ns();
    journey.bypass = nvs_bypass_find();
    if (journey.bypass) {
        arrive(NVS_LOCATION_CARD, CUDA_SUCCESS, began);
        return nothing;
    }
    CUcheckpointLockArgs args = {.timeoutMs = LOCK_MS};
    CUresult result = nvs_real.cuCheckpointProcessLock(getpid(), &args);
    if (result == CUDA_SUCCESS) {
        result = nvs_real.cuCheckpointProcessCheckpoint(getpid(), NULL);
        if (result != CUDA_SUCCESS && nvs_real.cuCheckpointProcessUnlock(getpid(), NULL) != CUDA_SUCCESS) {
            arrive(NVS_LOCATION_LOST, result, began);
            return nothing;
        }
    }
    arrive(result == CUDA_SUCCESS ? NVS_LOCATION_AWAY : NVS_LOCATION_CARD, result, began);
    return nothing;
}

static void *come_back(void *nothing)
{
    nvs_thread_name("nvshare-return");
    int64_t began = nvs_now_ns();
    CUresult result = nvs_real.cuCheckpointProcessRestore(getpid(), NULL);
    if (result == CUDA_SUCCESS)
        result = nvs_real.cuCheckpointProcessUnlock(getpid(), NULL);
    arrive(result == CUDA_SUCCESS ? NVS_LOCATION_CARD : NVS_LOCATION_LOST, result, began);
    return nothing;
}

/* The location is stored before `is_exiting` is read: pairs with nvs_journey_exits, which does the two in the other order. At least one side
 * sees the other's store: the exit waits for the journey, or no journey begins. If no thread can be started, the journey is made here,
 * and the scheduler waits meanwhile. */
void nvs_journey_begin(bool to_host)
{
    enum nvs_location before = nvs_journey_location();
    journey = (struct nvs_journey){.to_host = to_host};
    atomic_store(&location, to_host ? NVS_LOCATION_LEAVING : NVS_LOCATION_RETURNING);
    if (nvs_journey_is_exiting())
        set_place(before);
    else if (nvs_thread_start(to_host ? leave : come_back, NULL) != 0)
        (to_host ? leave : come_back)(NULL);
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
    is_told = true;
}
