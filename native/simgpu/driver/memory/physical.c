/* Physical memory of the virtual memory management, by handle.
 *
 * It is a piece of a memory file. All handles of the process share one file, so that thousands of them do
 * not need as many descriptors; only a handle that may be exported has a file of its own, with a page at its end that
 * tells the importing process what it is. Programs release the handle right after mapping it: the memory lives, and
 * stays charged, until the last handle and the last mapping are gone. */
#define _GNU_SOURCE
#include "driver/memory/vmm.h"
#include "driver/system_calls.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAIL_MAGIC 0x4c4941544d4d5653ull

struct tail { uint64_t magic, size; uint32_t card, host; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { int fd; uint64_t end; } common = {.fd = -1};

CUresult sim_physical_of(CUmemGenericAllocationHandle handle, struct sim_physical **physical)
{
    SIM_ENTER();
    *physical = (struct sim_physical *)(uintptr_t)handle;
    return sim_is(*physical, SIM_PHYSICAL) && atomic_load(&(*physical)->handles) > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool open_own_file(struct sim_physical *physical)
{
    struct tail tail = {TAIL_MAGIC, physical->size, physical->card, physical->host};
    physical->fd = sim_memory_file("sim-gpu-memory");
    physical->own_file = true;
    return physical->fd >= 0 && ftruncate(physical->fd, (off_t)(physical->size + 4096)) == 0
        && pwrite(physical->fd, &tail, sizeof tail, (off_t)physical->size) == sizeof tail;
}

static bool take_common_file(struct sim_physical *physical)
{
    pthread_mutex_lock(&lock);
    if (common.fd < 0)
        common.fd = sim_memory_file("sim-gpu-memory");
    bool good = common.fd >= 0 && ftruncate(common.fd, (off_t)(common.end + physical->size)) == 0;
    if (good) {
        physical->fd = common.fd;
        physical->offset = common.end;
        common.end += physical->size;
    }
    pthread_mutex_unlock(&lock);
    return good;
}

void sim_physical_drop(struct sim_physical *physical)
{
    if (atomic_fetch_sub(&physical->references, 1) != 1)
        return;
    if (!physical->host && !physical->imported)
        sim_uncharge(physical->card, physical->size);
    if (physical->own_file)
        close(physical->fd);
    else
        fallocate(physical->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)physical->offset, (off_t)physical->size);
    sim_trace_point(SIM_TRACE_FREE, physical->card, physical->size, physical->id, SIM_TRACE_PHYSICAL);
    sim_handle_free(physical);
}

static CUresult place_of(const CUmemAllocationProp *properties, unsigned *card, bool *host)
{
    CUcontext context;
    *host = properties->location.type >= CU_MEM_LOCATION_TYPE_HOST && properties->location.type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
    *card = 0;
    if (*host)
        return CUDA_SUCCESS;
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_card_of(properties->location.id, card));
    /* The card must know the process before it can be charged. */
    return sim.view.slots[*card] >= 0 ? CUDA_SUCCESS : sim_primary_retain(&context, properties->location.id);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *properties, unsigned long long flags)
{
    unsigned card;
    bool host;
    SIM_ENTER();
    if (handle == NULL || properties == NULL || flags != 0 || size == 0 || size % SIM_CHUNK_BYTES != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if ((properties->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    SIM_TRY(sim_capture_unsafe());
    SIM_TRY(place_of(properties, &card, &host));
    if (!host)
        SIM_TRY(sim_charge(card, size));
    struct sim_physical *physical = sim_handle_new(SIM_PHYSICAL, sizeof *physical);
    if (physical == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    physical->size = size;
    physical->card = card;
    physical->host = host;
    physical->properties = *properties;
    physical->id = atomic_fetch_add(&sim.ids, 1) + 1;
    atomic_store(&physical->references, 1);
    atomic_store(&physical->handles, 1);
    bool exported = properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
    if (!(exported ? open_own_file(physical) : take_common_file(physical))) {
        if (!host)
            sim_uncharge(card, size);
        sim_handle_free(physical);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_trace_point(SIM_TRACE_ALLOC, card, size, physical->id, SIM_TRACE_PHYSICAL);
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)physical;
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct sim_physical *physical;
    SIM_TRY(sim_physical_of(handle, &physical));
    atomic_fetch_sub(&physical->handles, 1);
    sim_physical_drop(physical);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties, int option)
{
    SIM_ENTER();
    if (granularity == NULL || properties == NULL || option < 0 || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = SIM_CHUNK_BYTES;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle)
{
    struct sim_physical *physical;
    SIM_TRY(sim_physical_of(handle, &physical));
    if (properties == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *properties = physical->properties;
    return CUDA_SUCCESS;
}

/* ---- between processes ---- */

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle, int type, unsigned long long flags)
{
    struct sim_physical *physical;
    SIM_TRY(sim_physical_of(handle, &physical));
    if (shareable == NULL || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !physical->own_file)
        return CUDA_ERROR_INVALID_VALUE;
    int fd = fcntl(physical->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)shareable = fd;
    return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable, int type)
{
    struct stat info;
    struct tail tail;
    SIM_ENTER();
    int fd = (int)(intptr_t)shareable;
    if (handle == NULL || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || fstat(fd, &info) != 0 || info.st_size < 4096
        || pread(fd, &tail, sizeof tail, info.st_size - 4096) != sizeof tail || tail.magic != TAIL_MAGIC
        || tail.card >= sim_config()->gpus)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_physical *physical = sim_handle_new(SIM_PHYSICAL, sizeof *physical);
    if (physical == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    physical->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    physical->own_file = true;
    physical->imported = true; /* charged to the process that made it */
    physical->size = tail.size;
    physical->card = tail.card;
    physical->host = tail.host;
    physical->id = atomic_fetch_add(&sim.ids, 1) + 1;
    physical->properties = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = type,
        .location = {tail.host ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE, (int)tail.card}};
    atomic_store(&physical->references, 1);
    atomic_store(&physical->handles, 1);
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)physical;
    return CUDA_SUCCESS;
}
