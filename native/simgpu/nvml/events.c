/* Errors that a card reports. An XID is injected (nvshareSimInjectXid) by writing it into the card's ring in the shared
 * state and then touching the card's file; a set that waits has an inotify watch on the files of its cards, so it sleeps
 * until something happens and sees injections from any process on the machine.
 *
 * A set reports what happened after the card was registered with it, in order, each error once. Some errors mean that
 * the card must be reset: then the recovery action says so until code 0, "recovered", is injected. Code 0 itself is not
 * an event.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nvml/nvml.h"

struct nvml_event_set {
    pthread_mutex_t guard;
    int watch;
    int registered[SIM_MAX_CARDS];
    uint64_t seen[SIM_MAX_CARDS];
};

/* XIDs after which NVIDIA's documentation asks for a reset or worse. */
static int needs_reset(uint64_t code)
{
    static const uint64_t fatal[] = {46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158};
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++)
        if (fatal[i] == code)
            return 1;
    return 0;
}

unsigned nvml_recovery_action(const struct sim_card *card)
{
    uint64_t count = atomic_load(&card->xid_count);
    uint64_t oldest = count > SIM_XID_RING ? count - SIM_XID_RING : 0;
    unsigned action = NVML_RECOVERY_NONE;
    for (uint64_t i = oldest; i < count; i++) {
        uint64_t code = card->xids[i % SIM_XID_RING].code;
        if (code == 0)
            action = NVML_RECOVERY_NONE;
        else if (needs_reset(code))
            action = NVML_RECOVERY_GPU_RESET;
    }
    return action;
}

NVML_API nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *out);
NVML_API nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *out)
{
    nvmlReturn_t result = nvml_ready();
    if (result != NVML_SUCCESS || out == NULL)
        return result != NVML_SUCCESS ? result : NVML_ERROR_INVALID_ARGUMENT;
    nvmlEventSet_t set = calloc(1, sizeof *set);
    if (set == NULL)
        return NVML_ERROR_MEMORY;
    set->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (set->watch < 0) {
        free(set);
        return NVML_ERROR_OPERATING_SYSTEM;
    }
    pthread_mutex_init(&set->guard, NULL);
    *out = set;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set);
NVML_API nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    if (set == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    close(set->watch);
    pthread_mutex_destroy(&set->guard);
    free(set);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types);
NVML_API nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    nvmlReturn_t result = nvml_check(device);
    if (result != NVML_SUCCESS || types == NULL)
        return result != NVML_SUCCESS ? result : NVML_ERROR_INVALID_ARGUMENT;
    *types = NVML_EVENT_XID;
    return NVML_SUCCESS;
}

/* The descriptor's own file, so that the watch holds whatever the directory is called here. */
static int watch_card(int watch, int card_fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", card_fd);
    return inotify_add_watch(watch, path, IN_ATTRIB);
}

NVML_API nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set);
NVML_API nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    nvmlReturn_t result = nvml_check(device);
    if (result != NVML_SUCCESS || set == NULL)
        return result != NVML_SUCCESS ? result : NVML_ERROR_INVALID_ARGUMENT;
    if (types & ~NVML_EVENT_XID)
        return NVML_ERROR_NOT_SUPPORTED;
    int index = nvml_index(device);
    pthread_mutex_lock(&set->guard);
    if (watch_card(set->watch, nvml_view()->card_fds[index]) < 0)
        result = NVML_ERROR_OPERATING_SYSTEM;
    else if (types != 0 && !set->registered[index]) {
        set->registered[index] = 1;
        set->seen[index] = atomic_load(&device->xid_count);
    }
    pthread_mutex_unlock(&set->guard);
    return result;
}

/* The next unseen error of one card; false if there is none. Lock of the set held. */
static int next_error(nvmlEventSet_t set, int index, nvmlEventData_t *out)
{
    struct sim_card *card = nvml_view()->cards[index];
    uint64_t count = atomic_load(&card->xid_count);
    if (count - set->seen[index] > SIM_XID_RING) /* the ring went round: the oldest are lost */
        set->seen[index] = count - SIM_XID_RING;
    while (set->seen[index] < count) {
        uint64_t code = card->xids[set->seen[index]++ % SIM_XID_RING].code;
        if (code == 0)
            continue;
        *out = (nvmlEventData_t){.device = card,
                                 .eventType = NVML_EVENT_XID,
                                 .eventData = code,
                                 .gpuInstanceId = NVML_NO_INSTANCE,
                                 .computeInstanceId = NVML_NO_INSTANCE};
        return 1;
    }
    return 0;
}

static int take(nvmlEventSet_t set, nvmlEventData_t *out)
{
    int found = 0;
    char spent[4096];
    pthread_mutex_lock(&set->guard);
    while (read(set->watch, spent, sizeof spent) > 0)
        continue; /* before looking at the rings: what comes later wakes again */
    for (int i = 0; i < SIM_MAX_CARDS && !found; i++)
        found = set->registered[i] && next_error(set, i, out);
    pthread_mutex_unlock(&set->guard);
    return found;
}

NVML_API nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *out, unsigned timeout_ms);
NVML_API nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *out, unsigned timeout_ms)
{
    nvmlReturn_t result = nvml_ready();
    if (result != NVML_SUCCESS || set == NULL || out == NULL)
        return result != NVML_SUCCESS ? result : NVML_ERROR_INVALID_ARGUMENT;
    uint64_t deadline = sim_now_ns() + timeout_ms * 1000000ull;
    while (!take(set, out)) {
        uint64_t now = sim_now_ns();
        struct pollfd wait = {.fd = set->watch, .events = POLLIN};
        if (now >= deadline)
            return NVML_ERROR_TIMEOUT;
        if (poll(&wait, 1, (int)((deadline - now) / 1000000 % 0x7fffffff) + 1) < 0 && errno != EINTR)
            return NVML_ERROR_OPERATING_SYSTEM;
    }
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *out, unsigned timeout_ms);
NVML_API nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *out, unsigned timeout_ms)
{
    return nvmlEventSetWait_v2(set, out, timeout_ms);
}

/* Not NVML's: makes a card report an error, to every process that waits for one. Works without nvmlInit, on the node that
 * the environment names at this moment. Returns 0, or an NVML error. */
NVML_API nvmlReturn_t nvshareSimInjectXid(const char *uuid, unsigned long long code);
NVML_API nvmlReturn_t nvshareSimInjectXid(const char *uuid, unsigned long long code)
{
    struct sim_view view;
    nvmlReturn_t result = NVML_ERROR_NOT_FOUND;
    if (uuid == NULL || sim_view_open(&view) != 0)
        return uuid == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_DRIVER_NOT_LOADED;
    for (unsigned i = 0; i < view.node->config.gpus; i++)
        if (strcmp(view.cards[i]->uuid_text, uuid) == 0) {
            sim_card_inject_xid(view.cards[i], code);
            result = futimens(view.card_fds[i], NULL) == 0 ? NVML_SUCCESS : NVML_ERROR_OPERATING_SYSTEM;
        }
    sim_view_close(&view);
    return result;
}
