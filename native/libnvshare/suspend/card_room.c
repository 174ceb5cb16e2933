#include "suspend/card_room.h"

#include <stdatomic.h>

#include "base/platform.h"
#include "helper/wake.h"
#include "lookup/real.h"

#define PATIENCE_NS (10000 * NVS_MS)

enum { NVML_SUCCESS = 0 };
struct nvml_memory { unsigned long long total, free, used; };

/* Shared by the helper and the thread that asks NVML. A question is a number. It is pending until `answered` is equal to `question`. */
static _Atomic uint32_t question; /* a futex; only the helper increments it */
static _Atomic uint32_t answered; /* stored by the thread after the answer */
static _Atomic uint64_t free_bytes;
/* Used by the helper only. */
static bool has_thread, is_answer_wanted;
static int64_t asked_ns;

/* Used only by the thread that asks. */
static struct {
    int (*init)(void);
    int (*find)(const char *uuid, void **device);
    int (*memory)(void *device, struct nvml_memory *memory);
    bool is_looked_up;
} nvml;

static bool look_up(void)
{
    if (!nvml.is_looked_up) {
        nvml.init = (int (*)(void))nvs_real_nvml("nvmlInit_v2");
        nvml.find = (int (*)(const char *, void **))nvs_real_nvml("nvmlDeviceGetHandleByUUID");
        nvml.memory = (int (*)(void *, struct nvml_memory *))nvs_real_nvml("nvmlDeviceGetMemoryInfo");
        if (!nvml.init || nvml.init() != NVML_SUCCESS) /* never shut down: the program may use it */
            nvml.memory = NULL;
    }
    nvml.is_looked_up = true;
    return nvml.find && nvml.memory;
}

/* UINT64_MAX if NVML does not report it. */
static uint64_t ask_nvml(const struct nvs_gpu *gpu)
{
    void *device;
    struct nvml_memory memory;
    if (!look_up() || nvml.find(gpu->label, &device) != NVML_SUCCESS || nvml.memory(device, &memory) != NVML_SUCCESS)
        return UINT64_MAX;
    return memory.free;
}

static void *answer(void *gpu)
{
    nvs_thread_name("nvshare-room");
    for (;;) {
        uint32_t number = atomic_load(&question);
        if (number == atomic_load(&answered)) {
            nvs_futex_wait(&question, number, -1);
            continue;
        }
        atomic_store(&free_bytes, ask_nvml(gpu));
        atomic_store(&answered, number);
        nvs_wake_helper();
    }
    return NULL;
}

static bool ask(const struct nvs_gpu *gpu, int64_t now)
{
    has_thread = has_thread || nvs_thread_start(answer, (void *)gpu) == 0;
    if (!has_thread)
        return false;
    is_answer_wanted = true;
    asked_ns = now;
    atomic_fetch_add(&question, 1);
    nvs_futex_wake_all(&question);
    return true;
}

enum nvs_card_room nvs_card_room(const struct nvs_gpu *gpu, uint64_t bytes, int64_t now)
{
    if (atomic_load(&question) != atomic_load(&answered))
        return now - asked_ns > PATIENCE_NS ? NVS_ROOM_SUFFICES : NVS_ROOM_UNKNOWN;
    if (!is_answer_wanted)
        return ask(gpu, now) ? NVS_ROOM_UNKNOWN : NVS_ROOM_SUFFICES;
    is_answer_wanted = false;
    return atomic_load(&free_bytes) >= bytes ? NVS_ROOM_SUFFICES : NVS_ROOM_LACKS;
}

void nvs_card_room_forget(void) { is_answer_wanted = false; }

void nvs_card_room_forked(void)
{
    has_thread = is_answer_wanted = nvml.is_looked_up = false;
    atomic_store(&answered, atomic_load(&question));
}
