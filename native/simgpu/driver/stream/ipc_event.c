/* Events shared with other processes by handle: the numbers of the last record and of the last that has completed are in a file of the
 * node's directory, which every process that uses the event maps. Only the process that made the event records it here. */
#define _GNU_SOURCE
#include "driver/driver.h"
#include "driver/memory/arena.h"
#include "driver/system_calls.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HANDLE_MAGIC 0x31544e45564d4953ull
#define LOOK_US 100

struct sim_shared_event { _Atomic uint64_t recorded, completed; };
struct handle { uint64_t magic, id, process; };
_Static_assert(sizeof(struct handle) <= sizeof(CUipcEventHandle), "fits");

static struct sim_shared_event *map(int fd)
{
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(struct sim_shared_event), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return at == MAP_FAILED ? NULL : at;
}

static void raise_to(_Atomic uint64_t *number, uint64_t value)
{
    uint64_t before = atomic_load(number);
    while (before < value && !atomic_compare_exchange_weak(number, &before, value))
        ;
}

void sim_event_tell_recorded(CUevent event, uint64_t number)
{
    struct sim_shared_event *shared = atomic_load(&event->shared);
    if (shared != NULL)
        raise_to(&shared->recorded, number);
}

void sim_event_tell_completed(CUevent event, uint64_t number)
{
    struct sim_shared_event *shared = atomic_load(&event->shared);
    if (shared != NULL)
        raise_to(&shared->completed, number);
}

bool sim_event_is_imported(CUevent event) { return atomic_load(&event->shared) != NULL && event->shared_id == 0; }

void sim_event_unshare(CUevent event)
{
    char path[320];
    struct sim_shared_event *shared = atomic_load(&event->shared);
    if (shared == NULL)
        return;
    munmap(shared, sizeof *shared);
    if (event->shared_id != 0) {
        sim_ipc_path(event->shared_id, path, sizeof path);
        unlink(path);
    }
}

/* What has been recorded and has completed before is told after `shared` is set: whatever completes meanwhile is told by one of the
 * two threads. */
static CUresult share(CUevent event)
{
    uint64_t id = 0;
    if (!sim_random(&id, sizeof id))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_shared_event *shared = map(sim_ipc_make_file(id | 1, sizeof *shared));
    if (shared == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    event->shared_id = id | 1;
    atomic_store(&event->shared, shared);
    sim_event_tell_recorded(event, atomic_load(&event->recorded));
    sim_event_tell_completed(event, atomic_load(&event->completed.count));
    return CUDA_SUCCESS;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *out, CUevent event)
{
    SIM_ENTER();
    if (!sim_is_live(event, SIM_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (out == NULL || (event->flags & CU_EVENT_INTERPROCESS) == 0 || sim_event_is_imported(event))
        return CUDA_ERROR_INVALID_VALUE;
    if (atomic_load(&event->shared) == NULL)
        SIM_TRY(share(event));
    struct handle handle = {HANDLE_MAGIC, event->shared_id, sim.id};
    memset(out, 0, sizeof *out);
    memcpy(out, &handle, sizeof handle);
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle in)
{
    struct handle handle;
    char path[320];
    SIM_ENTER();
    memcpy(&handle, &in, sizeof handle);
    if (event == NULL || handle.magic != HANDLE_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    if (handle.process == sim.id)
        return CUDA_ERROR_INVALID_CONTEXT; /* not in the process that made it */
    sim_ipc_path(handle.id, path, sizeof path);
    struct sim_shared_event *shared = map(open(path, O_RDWR | O_CLOEXEC));
    if (shared == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = cuEventCreate(event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
    if (result == CUDA_SUCCESS)
        atomic_store(&(*event)->shared, shared);
    else
        munmap(shared, sizeof *shared);
    return result;
}

/* ---- the other side ---- */

struct wait { CUevent event; uint64_t number; };

static void wait_for(CUevent event, uint64_t number)
{
    struct sim_shared_event *shared = atomic_load(&event->shared);
    while (atomic_load(&shared->completed) < number)
        usleep(LOOK_US);
}

bool sim_event_imported_is_done(CUevent event)
{
    struct sim_shared_event *shared = atomic_load(&event->shared);
    return atomic_load(&shared->completed) >= atomic_load(&shared->recorded);
}

void sim_event_imported_wait(CUevent event) { wait_for(event, atomic_load(&atomic_load(&event->shared)->recorded)); }

static void wait_in_stream(void *data)
{
    struct wait wait = *(struct wait *)data;
    free(data);
    wait_for(wait.event, wait.number);
    sim_event_release(wait.event);
}

/* As a host function: the card does not know the other process's streams. */
CUresult sim_event_imported_order(CUevent event, CUstream stream)
{
    struct wait *wait = malloc(sizeof *wait);
    if (wait == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *wait = (struct wait){event, atomic_load(&atomic_load(&event->shared)->recorded)};
    atomic_fetch_add(&event->references, 1);
    struct sim_op op = {.kind = SIM_OP_HOST};
    op.u.host.function = wait_in_stream;
    op.u.host.data = wait;
    op.u.host.stream = stream;
    CUresult result = sim_submit(stream, &op);
    if (result != CUDA_SUCCESS) {
        free(wait);
        sim_event_release(event);
    }
    return result;
}
