/* What NVML tells about one device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvml/nvml.h"

enum { COMPUTE_MODE_DEFAULT = 0, BRAND_NVIDIA = 14, BAR1_BYTES = 256 << 20 };

/* Defines a query: the handle is checked and `out` is not NULL before the body runs with `card` bound. */
#define QUERY(name, type, body)                                                                                        \
    NVML_API nvmlReturn_t name(nvmlDevice_t card, type *out);                                                          \
    NVML_API nvmlReturn_t name(nvmlDevice_t card, type *out)                                                           \
    {                                                                                                                  \
        nvmlReturn_t result = nvml_check(card);                                                                        \
        if (result == NVML_SUCCESS && out == NULL)                                                                     \
            result = NVML_ERROR_INVALID_ARGUMENT;                                                                      \
        return result != NVML_SUCCESS ? result : (body);                                                               \
    }

/* A query whose answer is a string. */
#define TEXT(name, text)                                                                                               \
    NVML_API nvmlReturn_t name(nvmlDevice_t card, char *buffer, unsigned length);                                      \
    NVML_API nvmlReturn_t name(nvmlDevice_t card, char *buffer, unsigned length)                                       \
    {                                                                                                                  \
        nvmlReturn_t result = nvml_check(card);                                                                        \
        return result != NVML_SUCCESS ? result : nvml_copy(text, buffer, length);                                      \
    }

/* Exists on real cards, has no meaning on a simulated one; monitoring programs expect "not supported" rather than a missing symbol. */
#define UNSUPPORTED(name)                                                                                              \
    NVML_API nvmlReturn_t name(nvmlDevice_t card);                                                                     \
    NVML_API nvmlReturn_t name(nvmlDevice_t card)                                                                      \
    {                                                                                                                  \
        nvmlReturn_t result = nvml_check(card);                                                                        \
        return result != NVML_SUCCESS ? result : NVML_ERROR_NOT_SUPPORTED;                                             \
    }

static nvmlReturn_t say(unsigned *out, unsigned value)
{
    *out = value;
    return NVML_SUCCESS;
}

/* With NVSHARE_SIM_NVML_MEMORY=0 as a GPU that shares the memory of the machine. */
static nvmlReturn_t memory(nvmlDevice_t device, nvmlMemory_t *out)
{
    const char *is_reported = getenv("NVSHARE_SIM_NVML_MEMORY");
    if (is_reported != NULL && strcmp(is_reported, "0") == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    struct sim_card *card = nvml_lock(device);
    uint64_t used = sim_card_used(card), total = card->total_bytes;
    sim_card_unlock(card);
    if (used > total) /* never shown as less than nothing free */
        used = total;
    *out = (nvmlMemory_t){.total = total, .free = total - used, .used = used};
    return NVML_SUCCESS;
}

static nvmlReturn_t memory_v2(nvmlDevice_t device, nvmlMemory_v2_t *out)
{
    nvmlMemory_t plain;
    if (out->version != NVML_MEMORY_V2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t result = memory(device, &plain);
    if (result != NVML_SUCCESS)
        return result;
    uint64_t reserved = 0;
    const char *text = getenv("NVSHARE_SIM_NVML_RESERVED");
    if (text == NULL || !sim_parse_bytes(text, &reserved) || reserved > plain.free)
        reserved = 0;
    *out = (nvmlMemory_v2_t){.version = NVML_MEMORY_V2, .total = plain.total, .reserved = reserved, .free = plain.free - reserved, .used = plain.used};
    return NVML_SUCCESS;
}

static nvmlReturn_t utilisation(nvmlDevice_t device, nvmlUtilization_t *out)
{
    if (nvml_view()->node->config.mig)
        return NVML_ERROR_NOT_SUPPORTED; /* neither of a card in MIG mode nor of an instance */
    struct sim_card *card = nvml_lock(device);
    *out = (nvmlUtilization_t){.gpu = sim_card_utilisation(card, sim_now_ns())};
    sim_card_unlock(card);
    return NVML_SUCCESS;
}

static nvmlReturn_t pci(nvmlDevice_t card, nvmlPciInfo_t *out)
{
    memset(out, 0, sizeof *out);
    sscanf(card->pci_bus_id, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    snprintf(out->busId, sizeof out->busId, "%08X:%02X:%02X.0", out->domain, out->bus & 0xff, out->device & 0xff);
    snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "%04X:%02X:%02X.0", out->domain & 0xffff, out->bus & 0xff, out->device & 0xff);
    return NVML_SUCCESS;
}

/* From the compute capability: the generations and their numbers. */
static unsigned architecture(const struct sim_config *config)
{
    unsigned major = config->compute_major, minor = config->compute_minor;
    switch (major) {
    case 6:
        return 4;
    case 7:
        return minor >= 5 ? 6 : 5;
    case 8:
        return minor == 9 ? 8 : 7;
    case 9:
        return 9;
    default:
        return major >= 10 ? 10 : 0xffffffffu;
    }
}

QUERY(nvmlDeviceGetMemoryInfo, nvmlMemory_t, memory(card, out))
QUERY(nvmlDeviceGetMemoryInfo_v2, nvmlMemory_v2_t, memory_v2(card, out))
QUERY(nvmlDeviceGetUtilizationRates, nvmlUtilization_t, utilisation(card, out))
QUERY(nvmlDeviceGetPciInfo, nvmlPciInfo_t, pci(card, out))
QUERY(nvmlDeviceGetPciInfo_v2, nvmlPciInfo_t, pci(card, out))
QUERY(nvmlDeviceGetPciInfo_v3, nvmlPciInfo_t, pci(card, out))
QUERY(nvmlDeviceGetIndex, unsigned, say(out, (unsigned)nvml_index(card)))
QUERY(nvmlDeviceGetMinorNumber, unsigned, say(out, card->index))
QUERY(nvmlDeviceGetComputeMode, unsigned, say(out, COMPUTE_MODE_DEFAULT))
QUERY(nvmlDeviceGetPersistenceMode, unsigned, say(out, 1))
QUERY(nvmlDeviceGetBrand, unsigned, say(out, BRAND_NVIDIA))
QUERY(nvmlDeviceGetArchitecture, unsigned, say(out, architecture(&nvml_view()->node->config)))
QUERY(nvmlDeviceGetMaxMigDeviceCount, unsigned, say(out, nvml_is_split(card) ? nvml_view()->node->config.gpus : 0))
QUERY(nvmlDeviceIsMigDeviceHandle, unsigned, say(out, nvml_view()->node->config.mig && !nvml_is_split(card)))
QUERY(nvmlDeviceGetBAR1MemoryInfo, nvmlBAR1Memory_t,
      ((*out = (nvmlBAR1Memory_t){.bar1Total = BAR1_BYTES, .bar1Free = BAR1_BYTES}), NVML_SUCCESS))
TEXT(nvmlDeviceGetName, nvml_view()->node->config.name)
TEXT(nvmlDeviceGetUUID, card->uuid_text)
UNSUPPORTED(nvmlDeviceGetFanSpeed)
UNSUPPORTED(nvmlDeviceGetTemperature)
UNSUPPORTED(nvmlDeviceGetPowerUsage)
UNSUPPORTED(nvmlDeviceGetEnforcedPowerLimit)
UNSUPPORTED(nvmlDeviceGetPowerManagementLimit)
UNSUPPORTED(nvmlDeviceGetClockInfo)
UNSUPPORTED(nvmlDeviceGetMaxClockInfo)
UNSUPPORTED(nvmlDeviceGetEccMode)
UNSUPPORTED(nvmlDeviceGetSerial)
UNSUPPORTED(nvmlDeviceGetPerformanceState)
UNSUPPORTED(nvmlDeviceGetEncoderUtilization)
UNSUPPORTED(nvmlDeviceGetDecoderUtilization)
UNSUPPORTED(nvmlDeviceGetDisplayActive)
UNSUPPORTED(nvmlDeviceGetDisplayMode)
UNSUPPORTED(nvmlDeviceGetNvLinkRemoteDeviceType)
UNSUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo_v2)
UNSUPPORTED(nvmlDeviceGetGpuFabricInfoV)
UNSUPPORTED(nvmlDeviceGetP2PStatus)
UNSUPPORTED(nvmlDeviceGetDriverModel)
UNSUPPORTED(nvmlDeviceGetTotalEccErrors)

NVML_API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t card, int *major, int *minor);
NVML_API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t card, int *major, int *minor)
{
    nvmlReturn_t result = nvml_check(card);
    if (result != NVML_SUCCESS || major == NULL || minor == NULL)
        return result != NVML_SUCCESS ? result : NVML_ERROR_INVALID_ARGUMENT;
    *major = (int)nvml_view()->node->config.compute_major;
    *minor = (int)nvml_view()->node->config.compute_minor;
    return NVML_SUCCESS;
}

/* A card that could be split: "off" or "on" now and after the next reset. An instance has no mode. */
NVML_API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t card, unsigned *current, unsigned *pending);
NVML_API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t card, unsigned *current, unsigned *pending)
{
    nvmlReturn_t result = nvml_check(card);
    if (result != NVML_SUCCESS || current == NULL || pending == NULL)
        return result != NVML_SUCCESS ? result : NVML_ERROR_INVALID_ARGUMENT;
    if (nvml_view()->node->config.mig && !nvml_is_split(card))
        return NVML_ERROR_NOT_SUPPORTED;
    *current = *pending = nvml_view()->node->config.mig;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t card, unsigned index, nvmlDevice_t *mig);
NVML_API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t card, unsigned index, nvmlDevice_t *mig)
{
    nvmlReturn_t result = nvml_check(card);
    if (result != NVML_SUCCESS || mig == NULL)
        return result != NVML_SUCCESS ? result : NVML_ERROR_INVALID_ARGUMENT;
    if (!nvml_is_split(card) || index >= nvml_view()->node->config.gpus)
        return NVML_ERROR_NOT_FOUND;
    *mig = nvml_view()->cards[index];
    return NVML_SUCCESS;
}

/* One field is simulated, the action that the last error calls for; each other one says "not supported" for itself. */
NVML_API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t card, int count, nvmlFieldValue_t *values);
NVML_API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t card, int count, nvmlFieldValue_t *values)
{
    nvmlReturn_t result = nvml_check(card);
    if (result != NVML_SUCCESS || values == NULL || count < 0)
        return result != NVML_SUCCESS ? result : NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < count; i++) {
        values[i].timestamp = (long long)(sim_now_ns() / 1000);
        values[i].latencyUsec = 0;
        values[i].valueType = NVML_VALUE_UNSIGNED_INT;
        values[i].value.ullVal = 0;
        values[i].nvmlReturn = values[i].fieldId == NVML_FIELD_RECOVERY_ACTION ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
        if (values[i].nvmlReturn == NVML_SUCCESS)
            values[i].value.uiVal = nvml_recovery_action(card);
    }
    return NVML_SUCCESS;
}
