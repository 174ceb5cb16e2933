/* Device memory shared with other processes by handle. Managed memory has no handles, as in CUDA.
 *
 * Simulated memory is private to its process until the program asks for a handle. Then the chunks it lies in are copied into a
 * file of the node's directory, which is mapped in their place: same addresses, same bytes, from now on shared. The handle
 * names the file, so it works for every process that shares the directory. The file goes when the memory is freed; what a killed
 * process leaves is removed when the node is next set up. */
#define _GNU_SOURCE
#include "driver/memory/arena.h"
#include "driver/memory/vmm.h"
#include "driver/system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HANDLE_MAGIC 0x31435049534d4953ull
#define PAGE 4096u

struct handle { uint64_t magic, id, process, length, offset; uint32_t card, unused; };
_Static_assert(sizeof(struct handle) <= sizeof(CUipcMemHandle), "fits");

void sim_ipc_path(uint64_t id, char *path, size_t size)
{
    snprintf(path, size, "%s/ipc/%016llx", sim.view.directory, (unsigned long long)id);
}

int sim_ipc_make_file(uint64_t id, uint64_t length)
{
    char path[320];
    snprintf(path, sizeof path, "%s/ipc", sim.view.directory);
    if (mkdir(path, 0777) == 0)
        chmod(path, 0777);
    sim_ipc_path(id, path, sizeof path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 && ftruncate(fd, (off_t)length) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Only pages that were ever written: the rest is zero in the file too, and costs nothing there. */
static bool copy_written_pages(char *to, const char *from, uint64_t length)
{
    unsigned char *there = malloc(length / PAGE);
    bool good = there != NULL && mincore((void *)(uintptr_t)from, length, there) == 0;
    for (uint64_t i = 0; good && i < length / PAGE; i++)
        if (there[i] & 1)
            memcpy(to + i * PAGE, from + i * PAGE, PAGE);
    free(there);
    return good;
}

static bool move_into_file(char *base, uint64_t length, uint64_t id)
{
    int fd = sim_ipc_make_file(id, length);
    if (fd < 0)
        return false;
    char *copy = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    bool good = copy != MAP_FAILED && copy_written_pages(copy, base, length)
             && mmap(base, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == base;
    if (copy != MAP_FAILED)
        munmap(copy, length);
    close(fd);
    return good;
}

_Atomic uint32_t sim_ipc_blocks;

/* The chunks an allocation lies in; the arena is locked. */
static void chunks_of(const struct sim_allocation *allocation, uint32_t *first, uint32_t *count)
{
    *first = (uint32_t)((allocation->base - (uint64_t)(uintptr_t)sim_arena.base) >> SIM_CHUNK_SHIFT);
    bool small = sim_arena.at[*first].slab != NULL;
    *count = small ? 1 : (uint32_t)((allocation->size + SIM_CHUNK_BYTES - 1) >> SIM_CHUNK_SHIFT);
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr pointer)
{
    uint32_t first, count;
    SIM_ENTER();
    struct sim_allocation *allocation = sim_memory_at(pointer);
    if (out == NULL || allocation == NULL || allocation->memory != SIM_TRACE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_capture_unsafe());
    sim_card_drain(allocation->card); /* nothing may write while the bytes move */
    pthread_mutex_lock(&sim_arena.lock);
    chunks_of(allocation, &first, &count);
    char *base = sim_arena.base + ((uint64_t)first << SIM_CHUNK_SHIFT);
    uint64_t length = (uint64_t)count << SIM_CHUNK_SHIFT, id = sim_arena.at[first].shared;
    if (id == 0 && sim_random(&id, sizeof id) && (id |= 1) != 0 && !move_into_file(base, length, id))
        id = 0;
    if (id != 0 && sim_arena.at[first].shared == 0)
        atomic_fetch_add(&sim_ipc_blocks, 1);
    sim_arena.at[first].shared = id;
    pthread_mutex_unlock(&sim_arena.lock);
    if (id == 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct handle handle = {HANDLE_MAGIC, id, sim.id, length, allocation->base - (uint64_t)(uintptr_t)base, allocation->card, 0};
    memset(out, 0, sizeof *out);
    memcpy(out, &handle, sizeof handle);
    return CUDA_SUCCESS;
}

/* The memory is being freed; the arena is locked. */
void sim_ipc_take_back(uint32_t first, uint32_t count)
{
    char path[320], *base = sim_arena.base + ((uint64_t)first << SIM_CHUNK_SHIFT);
    if (sim_arena.at[first].shared == 0)
        return;
    sim_ipc_path(sim_arena.at[first].shared, path, sizeof path);
    unlink(path);
    mmap(base, (uint64_t)count << SIM_CHUNK_SHIFT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    sim_arena.at[first].shared = 0;
    atomic_fetch_sub(&sim_ipc_blocks, 1);
}

/* ---- the other side: the memory is a mapping, as virtual memory management makes them ---- */

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle in, unsigned int flags)
{
    CUcontext context;
    struct handle handle;
    char path[320];
    SIM_TRY(sim_current(&context));
    memcpy(&handle, &in, sizeof handle);
    if (pointer == NULL || flags > 1 || handle.magic != HANDLE_MAGIC || handle.card >= sim_config()->gpus)
        return CUDA_ERROR_INVALID_VALUE;
    if (handle.process == sim.id)
        return CUDA_ERROR_INVALID_CONTEXT; /* not in the process that made it */
    sim_ipc_path(handle.id, path, sizeof path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    void *at = mmap(NULL, handle.length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct sim_physical *physical = sim_handle_new(SIM_PHYSICAL, sizeof *physical);
    struct sim_mapping *mapping = calloc(1, sizeof *mapping);
    if (at == MAP_FAILED || physical == NULL || mapping == NULL || !sim_range_add(SIM_MAPPED_RANGES, (uint64_t)(uintptr_t)at, handle.length, mapping)) {
        close(fd);
        free(mapping);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    physical->size = handle.length;
    physical->card = handle.card;
    physical->imported = physical->own_file = physical->ipc = true; /* charged to the process that made it */
    physical->fd = fd;
    physical->id = handle.id;
    mapping->physical = physical;
    mapping->access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    *pointer = (CUdeviceptr)(uintptr_t)at + handle.offset;
    atomic_fetch_add(&sim_ipc_blocks, 1);
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags) { return cuIpcOpenMemHandle_v2(pointer, handle, flags); }

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer)
{
    struct sim_range range;
    SIM_ENTER();
    if (!sim_range_find(SIM_MAPPED_RANGES, pointer, &range) || !((struct sim_mapping *)range.owner)->physical->ipc)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_mapping *mapping = range.owner;
    sim_card_drain(mapping->physical->card);
    sim_range_remove(SIM_MAPPED_RANGES, range.base, &range);
    munmap((void *)(uintptr_t)range.base, range.size);
    close(mapping->physical->fd);
    sim_handle_free(mapping->physical);
    free(mapping);
    atomic_fetch_sub(&sim_ipc_blocks, 1);
    return CUDA_SUCCESS;
}
