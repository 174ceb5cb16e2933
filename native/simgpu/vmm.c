/* Virtual memory management: reserved addresses, physical memory, mappings of the one into the other.
 *
 * Physical memory is a piece of a memory file. All handles of the process share one file, so that thousands of them do
 * not need as many descriptors; only a handle that may be exported has a file of its own, with a page at its end that
 * tells the importing process what it is. Programs release the handle right after mapping it: the memory lives, and
 * stays charged, until the last handle and the last mapping are gone. */
#define _GNU_SOURCE
#include "vmm.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAIL_MAGIC 0x4c4941544d4d5653ull

struct tail { uint64_t magic, size; uint32_t card, host; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { int fd; uint64_t end; } common = {.fd = -1};

static CUresult check(CUmemGenericAllocationHandle handle, struct sim_physical **physical)
{
    SIM_ENTER();
    *physical = (struct sim_physical *)(uintptr_t)handle;
    return sim_is(*physical, SIM_PHYSICAL) && atomic_load(&(*physical)->handles) > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- physical memory ---- */

static bool open_own_file(struct sim_physical *physical)
{
    struct tail tail = {TAIL_MAGIC, physical->size, physical->card, physical->host};
    physical->fd = memfd_create("sim-gpu-memory", MFD_CLOEXEC);
    physical->own_file = true;
    return physical->fd >= 0 && ftruncate(physical->fd, (off_t)(physical->size + 4096)) == 0
        && pwrite(physical->fd, &tail, sizeof tail, (off_t)physical->size) == sizeof tail;
}

static bool take_common_file(struct sim_physical *physical)
{
    pthread_mutex_lock(&lock);
    if (common.fd < 0)
        common.fd = memfd_create("sim-gpu-memory", MFD_CLOEXEC);
    bool good = common.fd >= 0 && ftruncate(common.fd, (off_t)(common.end + physical->size)) == 0;
    if (good) {
        physical->fd = common.fd;
        physical->offset = common.end;
        common.end += physical->size;
    }
    pthread_mutex_unlock(&lock);
    return good;
}

static void drop(struct sim_physical *physical)
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
    SIM_TRY(check(handle, &physical));
    atomic_fetch_sub(&physical->handles, 1);
    drop(physical);
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
    SIM_TRY(check(handle, &physical));
    if (properties == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *properties = physical->properties;
    return CUDA_SUCCESS;
}

/* ---- addresses ---- */

CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t size, size_t alignment, CUdeviceptr address, unsigned long long flags)
{
    SIM_ENTER();
    if (pointer == NULL || size == 0 || size % SIM_CHUNK_BYTES != 0 || flags != 0 || (alignment & (alignment - 1)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (alignment < SIM_CHUNK_BYTES)
        alignment = SIM_CHUNK_BYTES;
    char *at = mmap((void *)(uintptr_t)address, size + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uintptr_t base = ((uintptr_t)at + alignment - 1) & ~(uintptr_t)(alignment - 1);
    if (base > (uintptr_t)at)
        munmap(at, base - (uintptr_t)at);
    munmap((void *)(base + size), (uintptr_t)at + alignment - base);
    if (!sim_range_add(SIM_RESERVED_RANGES, base, size, NULL))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *pointer = base;
    return CUDA_SUCCESS;
}

static bool is_reserved(CUdeviceptr pointer, size_t size)
{
    struct sim_range range;
    return size > 0 && size % SIM_CHUNK_BYTES == 0 && sim_range_find(SIM_RESERVED_RANGES, pointer, &range)
        && size <= range.size - (pointer - range.base);
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t size)
{
    struct sim_range range;
    SIM_ENTER();
    if (!sim_range_find(SIM_RESERVED_RANGES, pointer, &range) || range.base != pointer || range.size != size)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint64_t at = pointer; at < pointer + size; at += SIM_CHUNK_BYTES)
        if (sim_range_find(SIM_MAPPED_RANGES, at, &range))
            return CUDA_ERROR_INVALID_VALUE; /* still mapped */
    sim_range_remove(SIM_RESERVED_RANGES, pointer, &range);
    munmap((void *)(uintptr_t)pointer, size);
    return CUDA_SUCCESS;
}

/* ---- mappings ---- */

CUresult cuMemMap(CUdeviceptr pointer, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct sim_physical *physical;
    SIM_TRY(check(handle, &physical));
    if (flags != 0 || offset + size > physical->size || pointer % SIM_CHUNK_BYTES != 0 || !is_reserved(pointer, size))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_mapping *mapping = calloc(1, sizeof *mapping);
    if (mapping == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mapping->physical = physical;
    mapping->offset = offset;
    if (!sim_range_add(SIM_MAPPED_RANGES, pointer, size, mapping)) {
        free(mapping);
        return CUDA_ERROR_INVALID_VALUE; /* something is mapped there */
    }
    atomic_fetch_add(&physical->references, 1);
    /* No access yet: that is cuMemSetAccess' business, and a program that forgets it shall notice. */
    void *at = mmap((void *)(uintptr_t)pointer, size, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->fd, (off_t)(physical->offset + offset));
    if (at == MAP_FAILED) {
        struct sim_range range;
        sim_range_remove(SIM_MAPPED_RANGES, pointer, &range);
        free(mapping);
        drop(physical);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t size)
{
    struct sim_range range;
    SIM_ENTER();
    if (size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint64_t at = pointer; at < pointer + size; at = range.base + range.size)
        if (!sim_range_find(SIM_MAPPED_RANGES, at, &range) || range.base != at || range.base + range.size > pointer + size
            || ((struct sim_mapping *)range.owner)->physical->ipc)
            return CUDA_ERROR_INVALID_VALUE; /* whole mappings only */
    for (uint64_t at = pointer; at < pointer + size; at = range.base + range.size) {
        sim_range_remove(SIM_MAPPED_RANGES, at, &range);
        struct sim_mapping *mapping = range.owner;
        sim_card_drain(mapping->physical->card);
        mmap((void *)(uintptr_t)at, range.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        drop(mapping->physical);
        free(mapping);
    }
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t size, const CUmemAccessDesc *access, size_t count)
{
    struct sim_range range;
    SIM_ENTER();
    if (access == NULL || count == 0 || size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    int flags = access[0].flags;
    if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && flags != CU_MEM_ACCESS_FLAGS_PROT_READ && flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint64_t at = pointer; at < pointer + size; at = range.base + range.size) {
        if (!sim_range_find(SIM_MAPPED_RANGES, at, &range))
            return CUDA_ERROR_INVALID_VALUE;
        ((struct sim_mapping *)range.owner)->access = flags;
    }
    int protection = flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? PROT_NONE : PROT_READ | PROT_WRITE;
    return mprotect((void *)(uintptr_t)pointer, size, protection) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr pointer)
{
    struct sim_range range;
    SIM_ENTER();
    if (flags == NULL || location == NULL || !sim_range_find(SIM_MAPPED_RANGES, pointer, &range))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = (unsigned long long)((struct sim_mapping *)range.owner)->access;
    return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    struct sim_range range;
    SIM_ENTER();
    if (handle == NULL || !sim_range_find(SIM_MAPPED_RANGES, (uint64_t)(uintptr_t)address, &range))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_physical *physical = ((struct sim_mapping *)range.owner)->physical;
    atomic_fetch_add(&physical->references, 1);
    atomic_fetch_add(&physical->handles, 1);
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)physical;
    return CUDA_SUCCESS;
}

/* ---- between processes ---- */

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle, int type, unsigned long long flags)
{
    struct sim_physical *physical;
    SIM_TRY(check(handle, &physical));
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
