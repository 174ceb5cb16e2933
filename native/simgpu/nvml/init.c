/* Starting, stopping, finding devices. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "nvml/nvml.h"

/* A version that no real driver has. */
#define DRIVER_VERSION "580.00.00"
#define NVML_VERSION "13.580.00.00"
enum { CUDA_VERSION = 13000 };

static struct sim_view view;
/* With NVSHARE_SIM_MIG=1: the card whose instances the cards of the node are. Only its names are used. */
static struct sim_card split = {.uuid_text = "GPU-51351351-5135-4135-8135-513513513513", .pci_bus_id = "00000000:01:00.0", .pci_bus = 1};
static int users;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

/* A forked child has lost the descriptors behind the view (state/node.c closes them), so it starts uninitialised. */
static void forget_in_child(void)
{
    users = 0;
    pthread_mutex_init(&guard, NULL);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_in_child);
}

nvmlReturn_t nvml_ready(void)
{
    return __atomic_load_n(&users, __ATOMIC_ACQUIRE) > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

struct sim_view *nvml_view(void)
{
    return &view;
}

static unsigned cards(void)
{
    return view.node->config.gpus;
}

int nvml_is_split(nvmlDevice_t device)
{
    return device == &split;
}

/* What NVML enumerates: the split card, or the cards. */
static unsigned listed(void)
{
    return view.node->config.mig && cards() > 0 ? 1 : cards();
}

static nvmlDevice_t listed_at(unsigned index)
{
    return view.node->config.mig ? &split : view.cards[index];
}

int nvml_index(nvmlDevice_t device)
{
    if (nvml_is_split(device))
        return 0;
    for (unsigned i = 0; i < cards(); i++)
        if (view.cards[i] == device && device != NULL)
            return (int)i;
    return -1;
}

nvmlReturn_t nvml_check(nvmlDevice_t device)
{
    nvmlReturn_t result = nvml_ready();
    if (result != NVML_SUCCESS)
        return result;
    return nvml_index(device) < 0 ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

struct sim_card *nvml_lock(nvmlDevice_t device)
{
    if (nvml_is_split(device))
        device = view.cards[0];
    sim_card_lock(device);
    sim_card_reap(device, view.card_fds[nvml_index(device)], -1);
    return device;
}

nvmlReturn_t nvml_copy(const char *text, char *buffer, unsigned length)
{
    if (buffer == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(buffer, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlInitWithFlags(unsigned flags);
NVML_API nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    nvmlReturn_t result = NVML_SUCCESS;
    (void)flags;
    sim_wait_for_pipe("NVSHARE_SIM_NVML_INIT");
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&guard);
    if (users == 0 && sim_view_open(&view) != 0)
        result = NVML_ERROR_DRIVER_NOT_LOADED;
    if (result == NVML_SUCCESS)
        __atomic_store_n(&users, users + 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&guard);
    return result;
}

NVML_API nvmlReturn_t nvmlInit(void);
NVML_API nvmlReturn_t nvmlInit(void)
{
    return nvmlInitWithFlags(0);
}

NVML_API nvmlReturn_t nvmlInit_v2(void);
NVML_API nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

NVML_API nvmlReturn_t nvmlShutdown(void);
NVML_API nvmlReturn_t nvmlShutdown(void)
{
    nvmlReturn_t result = NVML_SUCCESS;
    pthread_mutex_lock(&guard);
    if (users == 0)
        result = NVML_ERROR_UNINITIALIZED;
    else if (__atomic_sub_fetch(&users, 1, __ATOMIC_ACQ_REL) == 0)
        sim_view_close(&view);
    pthread_mutex_unlock(&guard);
    return result;
}

NVML_API const char *nvmlErrorString(nvmlReturn_t result);
NVML_API const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
#define NVML_RESULT(value, name, text)                                                                                 \
    case value:                                                                                                        \
        return text;
#include "nvml/results.def"
#undef NVML_RESULT
    default:
        return "Unknown Error";
    }
}

NVML_API nvmlReturn_t nvmlSystemGetDriverVersion(char *buffer, unsigned length);
NVML_API nvmlReturn_t nvmlSystemGetDriverVersion(char *buffer, unsigned length)
{
    nvmlReturn_t result = nvml_ready();
    return result != NVML_SUCCESS ? result : nvml_copy(DRIVER_VERSION, buffer, length);
}

NVML_API nvmlReturn_t nvmlSystemGetNVMLVersion(char *buffer, unsigned length);
NVML_API nvmlReturn_t nvmlSystemGetNVMLVersion(char *buffer, unsigned length)
{
    return nvml_copy(NVML_VERSION, buffer, length);
}

NVML_API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version);
NVML_API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    if (version == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *version = CUDA_VERSION;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version);
NVML_API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return nvmlSystemGetCudaDriverVersion(version);
}

NVML_API nvmlReturn_t nvmlDeviceGetCount(unsigned *count);
NVML_API nvmlReturn_t nvmlDeviceGetCount(unsigned *count)
{
    nvmlReturn_t result = nvml_ready();
    if (result != NVML_SUCCESS || count == NULL)
        return result != NVML_SUCCESS ? result : NVML_ERROR_INVALID_ARGUMENT;
    *count = listed();
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count);
NVML_API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    return nvmlDeviceGetCount(count);
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device);
NVML_API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
    nvmlReturn_t result = nvml_ready();
    if (result != NVML_SUCCESS)
        return result;
    if (device == NULL || index >= listed())
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = listed_at(index);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);
NVML_API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex(index, device);
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
NVML_API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    nvmlReturn_t result = nvml_ready();
    if (result != NVML_SUCCESS)
        return result;
    if (uuid == NULL || device == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (view.node->config.mig && strcmp(split.uuid_text, uuid) == 0) {
        *device = &split;
        return NVML_SUCCESS;
    }
    for (unsigned i = 0; i < cards(); i++)
        if (strcmp(view.cards[i]->uuid_text, uuid) == 0) {
            *device = view.cards[i];
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

/* Both "00000000:01:00.0" and the short "0000:01:00.0" name a device. */
static int same_bus(const char *a, const char *b)
{
    unsigned domain[2], bus[2], device[2];
    return sscanf(a, "%x:%x:%x", &domain[0], &bus[0], &device[0]) == 3 && sscanf(b, "%x:%x:%x", &domain[1], &bus[1], &device[1]) == 3 &&
           domain[0] == domain[1] && bus[0] == bus[1] && device[0] == device[1];
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus, nvmlDevice_t *device);
NVML_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus, nvmlDevice_t *device)
{
    nvmlReturn_t result = nvml_ready();
    if (result != NVML_SUCCESS)
        return result;
    if (bus == NULL || device == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < listed(); i++)
        if (same_bus(listed_at(i)->pci_bus_id, bus)) {
            *device = listed_at(i);
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *device);
NVML_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByPciBusId(bus, device);
}
