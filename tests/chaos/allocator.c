/* One process of a group that shares a limit: threads that allocate and free memory of all kinds as fast as they can, and judge
 * each answer by what all processes had meanwhile.
 *
 *   allocator ORACLE PROCESS THREADS SEED */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "lib_driver.h"
#include "oracle.h"

enum { MIB = 1 << 20, MAX_PIECES = 6, KINDS = 7, ROW = 512 };
enum { PLAIN, MANAGED, PITCH, POOL, HANDLE, MAPPED, ARRAY };

struct piece {
    int kind;
    int64_t bytes;
    CUdeviceptr address;
};

struct worker {
    struct part *part;
    unsigned state;
    int count;
    struct piece pieces[MAX_PIECES];
};

static struct oracle *oracle;
static CUcontext context;
static int process;

static unsigned lot(struct worker *worker, unsigned most)
{
    worker->state = worker->state * 1664525u + 1013904223u;
    return (worker->state >> 8) % most;
}

/* ---- the driver ---- */

static CUresult create(struct piece *piece)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    CUresult result = cu.MemCreate(&handle, (size_t)piece->bytes, &prop, 0);
    piece->address = handle;
    if (result != CUDA_SUCCESS || piece->kind == HANDLE)
        return result;
    /* Mapped and released at once, as programs do: the mapping keeps the memory. */
    result = cu.MemAddressReserve(&piece->address, (size_t)piece->bytes, 0, 0, 0);
    if (result == CUDA_SUCCESS)
        result = cu.MemMap(piece->address, (size_t)piece->bytes, 0, handle, 0);
    cu.MemRelease(handle);
    return result;
}

static CUresult allocate(struct piece *piece)
{
    size_t bytes = (size_t)piece->bytes, pitch;
    CUDA_ARRAY_DESCRIPTOR desc = {.Width = ROW, .Height = bytes / ROW / 4, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUarray array = NULL;
    CUresult result;
    switch (piece->kind) {
    case PLAIN: return cu.MemAlloc(&piece->address, bytes);
    case MANAGED: return cu.MemAllocManaged(&piece->address, bytes, CU_MEM_ATTACH_GLOBAL);
    case PITCH: return cu.MemAllocPitch(&piece->address, &pitch, ROW, bytes / ROW, 4);
    case POOL: return cu.MemAllocAsync(&piece->address, bytes, NULL);
    case ARRAY:
        result = cu.ArrayCreate(&array, &desc);
        piece->address = (uintptr_t)array;
        return result;
    default: return create(piece);
    }
}

static CUresult release(const struct piece *piece)
{
    switch (piece->kind) {
    case POOL: return cu.MemFreeAsync(piece->address, NULL);
    case HANDLE: return cu.MemRelease(piece->address);
    case MAPPED: return cu.MemUnmap(piece->address, (size_t)piece->bytes);
    case ARRAY: return cu.ArrayDestroy((CUarray)(uintptr_t)piece->address);
    default: return cu.MemFree(piece->address);
    }
}

/* ---- the machine ---- */

enum { LOOK_MS = 10, STALL_MS = 100, EXCUSE_MS = 1000 };

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A process that has not answered for 200 ms is not waited for, and others are refused for its sake. A thread that only sleeps
 * measures when this process did not get the processor for half of that; refusals of the second after it are counted apart. */
static void *watch(void *nothing)
{
    for (int64_t then = now_ms();; then = now_ms()) {
        usleep(LOOK_MS * 1000);
        int64_t stall = now_ms() - then - LOOK_MS;
        if (stall < STALL_MS)
            continue;
        atomic_store(&oracle->stalled_ms, now_ms());
        if (stall > atomic_load(&oracle->longest_stall_ms))
            atomic_store(&oracle->longest_stall_ms, stall);
    }
    return nothing;
}

/* ---- the limit ---- */

/* The second question is asked of the scheduler after the first one has shown the new limit. What the scheduler sent together with
 * it, such as a recall of budget, has been obeyed when that is answered. */
static void *look_at_limit(void *argument)
{
    _Atomic int64_t *seen = argument;
    size_t available, first, second;
    cu.CtxSetCurrent(context);
    for (;; usleep(LOOK_MS * 1000)) {
        if (!(atomic_load(&oracle->changes) & 1))
            continue;
        if (cu.MemGetInfo(&available, &first) == CUDA_SUCCESS && cu.MemGetInfo(&available, &second) == CUDA_SUCCESS && first == second)
            atomic_store(seen, (int64_t)second);
    }
    return NULL;
}

/* ---- the oracle ---- */

static void raise_to(_Atomic int64_t *value, int64_t least)
{
    int64_t found = atomic_load(value);
    while (found < least && !atomic_compare_exchange_weak(value, &found, least))
        ;
}

/* The sum has grown: everybody who is in a call learns of it before it can fall again. */
static void tell_all(int64_t sum)
{
    for (int p = 0; p < MAX_PROCESSES; p++)
        for (int t = 0; t < MAX_THREADS; t++)
            if (atomic_load(&oracle->parts[p][t].calls) & 1)
                raise_to(&oracle->parts[p][t].peak, sum);
}

static void more(struct worker *worker, int64_t bytes)
{
    int64_t sum = atomic_fetch_add(&oracle->upper, bytes) + bytes;
    atomic_fetch_add(&worker->part->upper, bytes);
    tell_all(sum);
}

static void less(struct worker *worker, int64_t bytes)
{
    atomic_fetch_sub(&worker->part->upper, bytes);
    atomic_fetch_sub(&oracle->upper, bytes);
}

static void complain(_Atomic int64_t *counter, struct complaint complaint)
{
    int64_t number = atomic_fetch_add(counter, 1);
    complaint.process = process, complaint.at_ms = now_ms();
    if (number < MAX_COMPLAINTS / COMPLAINTS_ABOUT)
        oracle->complaints[complaint.about * MAX_COMPLAINTS / COMPLAINTS_ABOUT + number] = complaint;
}

static bool is_excused(void) { return now_ms() - atomic_load(&oracle->stalled_ms) < EXCUSE_MS; }

static void judge(struct worker *worker, const struct piece *piece, CUresult result, int64_t least, int64_t most)
{
    if (result == CUDA_SUCCESS) {
        atomic_fetch_add(&worker->part->lower, piece->bytes);
        int64_t sum = atomic_fetch_add(&oracle->lower, piece->bytes) + piece->bytes;
        if (sum > most)
            complain(&oracle->over_limit, (struct complaint){OVER_LIMIT, piece->kind, piece->bytes, sum, most});
    } else if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        raise_to(&worker->part->peak, atomic_load(&oracle->upper));
        int64_t peak = atomic_load(&worker->part->peak);
        atomic_fetch_add(&oracle->refusals, 1);
        if (peak <= least && is_excused())
            complain(&oracle->excused, (struct complaint){EXCUSED, piece->kind, piece->bytes, peak, least});
        else if (peak <= least)
            complain(&oracle->wrong_refusals, (struct complaint){REFUSED, piece->kind, piece->bytes, peak, least});
    } else {
        atomic_fetch_add(&oracle->failures, 1);
    }
}

/* ---- the work ---- */

static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

static bool take(struct worker *worker)
{
    struct piece *piece = &worker->pieces[worker->count];
    *piece = (struct piece){.kind = (int)lot(worker, KINDS), .bytes = (1 + (int64_t)lot(worker, 64)) * MIB};
    int64_t changes = atomic_load(&oracle->changes);
    int64_t least = atomic_load(&oracle->least_limit), most = atomic_load(&oracle->most_limit);
    atomic_store(&worker->part->peak, 0);
    atomic_fetch_add(&worker->part->calls, 1);
    more(worker, piece->bytes);
    CUresult result = allocate(piece);
    least = least_of(least, atomic_load(&oracle->least_limit));
    most = -least_of(-most, -atomic_load(&oracle->most_limit));
    if (atomic_load(&oracle->changes) > changes + 1)
        least = 0, most = INT64_MAX; /* more than one change: what was in force is not known */
    judge(worker, piece, result, least, most);
    atomic_fetch_add(&worker->part->calls, 1);
    if (result != CUDA_SUCCESS)
        less(worker, piece->bytes);
    else
        worker->count++;
    atomic_fetch_add(&oracle->allocations, 1);
    return result == CUDA_SUCCESS;
}

static void give(struct worker *worker)
{
    struct piece *piece = &worker->pieces[lot(worker, (unsigned)worker->count)];
    atomic_fetch_sub(&oracle->lower, piece->bytes);
    atomic_fetch_sub(&worker->part->lower, piece->bytes);
    if (release(piece) != CUDA_SUCCESS)
        atomic_fetch_add(&oracle->failures, 1);
    less(worker, piece->bytes);
    *piece = worker->pieces[--worker->count];
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    cu.CtxSetCurrent(context);
    while (!atomic_load(&oracle->is_over) && atomic_load(&oracle->allocations) < atomic_load(&oracle->wanted)) {
        bool has_room = worker->count < MAX_PIECES && (worker->count == 0 || lot(worker, 2));
        if (!(has_room && take(worker)) && worker->count)
            give(worker);
        usleep(lot(worker, 2000)); /* or those that need not ask would do all the work, and keep the others from running */
    }
    while (worker->count)
        give(worker);
    return NULL;
}

int main(int count, char **words)
{
    static struct worker workers[MAX_THREADS];
    pthread_t ids[MAX_THREADS];
    if (count != 5 || lib_driver_find("dlsym") != 0)
        return 2;
    int file = open(words[1], O_RDWR), threads = atoi(words[3]);
    process = atoi(words[2]);
    oracle = mmap(NULL, sizeof *oracle, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (oracle == MAP_FAILED || cu.Init(0) != CUDA_SUCCESS || cu.CtxCreate(&context, 0, 0) != CUDA_SUCCESS)
        return 3;
    pthread_t watcher, looker;
    pthread_create(&watcher, NULL, watch, NULL);
    pthread_create(&looker, NULL, look_at_limit, &oracle->seen_limit[process]);
    atomic_fetch_add(&oracle->ready, 1);
    while (!atomic_load(&oracle->wanted))
        usleep(1000);
    for (int i = 0; i < threads; i++) {
        workers[i] = (struct worker){.part = &oracle->parts[process][i], .state = (unsigned)(atoi(words[4]) * 7919 + i * 104729)};
        pthread_create(&ids[i], NULL, work, &workers[i]);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    return 0;
}
