/* Setting up, in the first call that finds the driver initialised; forgetting everything in a forked child; ending. */
#include "process.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drain.h"
#include "log.h"
#include "memory.h"
#include "options.h"
#include "pools.h"
#include "real.h"
#include "session.h"
#include "streams.h"

struct nvs_gpu nvs_gpus[NVS_MAX_GPUS];
int nvs_gpu_count;

/* On pages that the kernel clears in a child, however it was made. */
struct wiped {
    _Atomic uint32_t is_alive;
    char rest_of_line[60];
    struct nvs_gate gates[NVS_MAX_GPUS];
};

enum state { UNSET, READY, OFF };
static _Atomic int state;
static _Atomic bool is_ending;
static struct nvs_lock setup_lock;
static struct wiped *wiped;
static pid_t owner;

static uint64_t device_bytes(CUdevice device)
{
    size_t bytes = 0;
    return nvs_real.cuDeviceTotalMem_v2(&bytes, device) == CUDA_SUCCESS ? bytes : 0;
}

static bool pages_memory(CUdevice device)
{
    int managed = 0, concurrent = 0;
    nvs_real.cuDeviceGetAttribute(&managed, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, device);
    nvs_real.cuDeviceGetAttribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device);
    return managed && concurrent;
}

static uint8_t kind_of(CUdevice device)
{
    char name[256] = "";
    nvs_real.cuDeviceGetName(name, sizeof name - 1, device);
    return strstr(name, " MIG ") ? NVS_GPU_KIND_MIG : NVS_GPU_KIND_GPU;
}

static void print_label(struct nvs_gpu *gpu)
{
    const uint8_t *u = gpu->uuid;
    snprintf(gpu->label, sizeof gpu->label, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             gpu->kind == NVS_GPU_KIND_MIG ? "MIG" : "GPU", u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10],
             u[11], u[12], u[13], u[14], u[15]);
}

static void set_up_gpu(int index)
{
    struct nvs_gpu *gpu = &nvs_gpus[index];
    CUuuid uuid = {{0}};
    *gpu = (struct nvs_gpu){.index = index, .gate = &wiped->gates[index], .turn = {.state = NVS_TURN_JOINING}};
    if (nvs_real.cuDeviceGetUuid_v2(&uuid, index) != CUDA_SUCCESS)
        nvs_real.cuDeviceGetUuid(&uuid, index);
    memcpy(gpu->uuid, uuid.bytes, sizeof gpu->uuid);
    gpu->kind = kind_of(index);
    gpu->bytes = device_bytes(index);
    gpu->can_be_managed = pages_memory(index);
    print_label(gpu);
    nvs_account_init(&gpu->account, gpu->bytes, nvs_options()->limit_bytes, nvs_options()->single_oversub);
}

static void program_ends(void)
{
    if (owner != getpid())
        return;
    atomic_store(&is_ending, true);
    nvs_session_stop();
}

static void once_per_program(void)
{
    static _Atomic bool done;
    if (atomic_exchange(&done, true))
        return;
    nvs_at_fork_child(nvs_process_forked);
    atexit(program_ends);
}

/* With the setup lock held. */
static int set_up(void)
{
    int count = 0;
    int loaded = nvs_real_load(); /* first of all: even a disabled library forwards what it is asked */
    if (nvs_options()->disable)
        return OFF;
    if (loaded != 0 || nvs_real.cuDeviceGetCount(&count) != CUDA_SUCCESS)
        return UNSET;
    if (!wiped)
        wiped = nvs_pages_wiped_on_fork(sizeof *wiped);
    if (!wiped || count < 1)
        return OFF;
    nvs_gpu_count = count < NVS_MAX_GPUS ? count : NVS_MAX_GPUS;
    for (int i = 0; i < nvs_gpu_count; i++)
        set_up_gpu(i);
    nvs_passage_setup();
    if (nvs_gpu_count > 1)
        atomic_fetch_or(&nvs_passage_mode, NVS_BY_CONTEXT);
    owner = getpid();
    once_per_program();
    atomic_store(&wiped->is_alive, 1);
    int error = nvs_session_start();
    if (error) {
        nvs_warn("cannot start a thread (%s): this process runs unshared and without a memory limit", strerror(error));
        return OFF;
    }
    return READY;
}

bool nvs_process_ready(void)
{
    int now = atomic_load_explicit(&state, memory_order_acquire);
    if (NVS_LIKELY(now == READY && atomic_load_explicit(&wiped->is_alive, memory_order_relaxed)))
        return true;
    if (now == OFF)
        return false;
    if (now == READY)
        nvs_process_forked(); /* a child made without fork(): nobody has told us */
    nvs_lock_take(&setup_lock);
    if (atomic_load(&state) == UNSET)
        atomic_store_explicit(&state, set_up(), memory_order_release);
    nvs_lock_give(&setup_lock);
    return atomic_load(&state) == READY;
}

bool nvs_process_is_set_up(void)
{
    return atomic_load(&state) == READY && atomic_load_explicit(&wiped->is_alive, memory_order_relaxed);
}

bool nvs_process_is_ending(void) { return atomic_load(&is_ending); }

void nvs_process_forked(void)
{
    setup_lock = (struct nvs_lock){0};
    if (atomic_load(&state) == OFF)
        return;
    atomic_store(&state, UNSET);
    for (int i = 0; wiped && i < NVS_MAX_GPUS; i++)
        atomic_store(&wiped->gates[i].word, 0);
    nvs_session_forked();
    nvs_passage_forked();
    nvs_streams_forked();
    nvs_drain_forked();
    nvs_memory_forked();
    nvs_pools_forked();
}

struct nvs_gpu *nvs_current_gpu(void)
{
    CUdevice device;
    if (nvs_real.cuCtxGetDevice(&device) != CUDA_SUCCESS || device < 0 || device >= nvs_gpu_count)
        return NULL;
    return &nvs_gpus[device];
}
