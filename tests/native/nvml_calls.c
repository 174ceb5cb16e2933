/* Every function of the simulated NVML, called once rightly and, where that differs, once wrongly; on two cards. */
#include <string.h>
#include <unistd.h>

#include "cudart_check.h"
#include "nvml/nvml_api.h"

#define NV(name, ...) nvmlReturn_t name(__VA_ARGS__)

NV(nvmlInit, void);
NV(nvmlInit_v2, void);
NV(nvmlInitWithFlags, unsigned);
NV(nvmlShutdown, void);
const char *nvmlErrorString(nvmlReturn_t);
NV(nvmlSystemGetDriverVersion, char *, unsigned);
NV(nvmlSystemGetNVMLVersion, char *, unsigned);
NV(nvmlSystemGetCudaDriverVersion, int *);
NV(nvmlSystemGetCudaDriverVersion_v2, int *);
NV(nvmlSystemGetProcessName, unsigned, char *, unsigned);
NV(nvmlDeviceGetCount, unsigned *);
NV(nvmlDeviceGetCount_v2, unsigned *);
NV(nvmlDeviceGetHandleByIndex, unsigned, nvmlDevice_t *);
NV(nvmlDeviceGetHandleByIndex_v2, unsigned, nvmlDevice_t *);
NV(nvmlDeviceGetHandleByUUID, const char *, nvmlDevice_t *);
NV(nvmlDeviceGetHandleByPciBusId, const char *, nvmlDevice_t *);
NV(nvmlDeviceGetHandleByPciBusId_v2, const char *, nvmlDevice_t *);
NV(nvmlDeviceGetName, nvmlDevice_t, char *, unsigned);
NV(nvmlDeviceGetUUID, nvmlDevice_t, char *, unsigned);
NV(nvmlDeviceGetPciInfo, nvmlDevice_t, nvmlPciInfo_t *);
NV(nvmlDeviceGetPciInfo_v2, nvmlDevice_t, nvmlPciInfo_t *);
NV(nvmlDeviceGetPciInfo_v3, nvmlDevice_t, nvmlPciInfo_t *);
NV(nvmlDeviceGetMemoryInfo, nvmlDevice_t, nvmlMemory_t *);
NV(nvmlDeviceGetMemoryInfo_v2, nvmlDevice_t, nvmlMemory_v2_t *);
NV(nvmlDeviceGetBAR1MemoryInfo, nvmlDevice_t, nvmlBAR1Memory_t *);
NV(nvmlDeviceGetUtilizationRates, nvmlDevice_t, nvmlUtilization_t *);
NV(nvmlDeviceGetIndex, nvmlDevice_t, unsigned *);
NV(nvmlDeviceGetMinorNumber, nvmlDevice_t, unsigned *);
NV(nvmlDeviceGetComputeMode, nvmlDevice_t, unsigned *);
NV(nvmlDeviceGetPersistenceMode, nvmlDevice_t, unsigned *);
NV(nvmlDeviceGetBrand, nvmlDevice_t, unsigned *);
NV(nvmlDeviceGetArchitecture, nvmlDevice_t, unsigned *);
NV(nvmlDeviceGetMaxMigDeviceCount, nvmlDevice_t, unsigned *);
NV(nvmlDeviceIsMigDeviceHandle, nvmlDevice_t, unsigned *);
NV(nvmlDeviceGetMaxPcieLinkGeneration, nvmlDevice_t, unsigned *);
NV(nvmlDeviceGetCurrPcieLinkGeneration, nvmlDevice_t, unsigned *);
NV(nvmlDeviceGetMaxPcieLinkWidth, nvmlDevice_t, unsigned *);
NV(nvmlDeviceGetCurrPcieLinkWidth, nvmlDevice_t, unsigned *);
NV(nvmlDeviceGetCudaComputeCapability, nvmlDevice_t, int *, int *);
NV(nvmlDeviceGetMigMode, nvmlDevice_t, unsigned *, unsigned *);
NV(nvmlDeviceGetMigDeviceHandleByIndex, nvmlDevice_t, unsigned, nvmlDevice_t *);
NV(nvmlDeviceGetFieldValues, nvmlDevice_t, int, nvmlFieldValue_t *);
NV(nvmlDeviceGetComputeRunningProcesses, nvmlDevice_t, unsigned *, void *);
NV(nvmlDeviceGetComputeRunningProcesses_v2, nvmlDevice_t, unsigned *, void *);
NV(nvmlDeviceGetComputeRunningProcesses_v3, nvmlDevice_t, unsigned *, void *);
NV(nvmlDeviceGetGraphicsRunningProcesses, nvmlDevice_t, unsigned *, void *);
NV(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlDevice_t, unsigned *, void *);
NV(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDevice_t, unsigned *, void *);
NV(nvmlDeviceGetMPSComputeRunningProcesses, nvmlDevice_t, unsigned *, void *);
NV(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlDevice_t, unsigned *, void *);
NV(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlDevice_t, unsigned *, void *);
NV(nvmlEventSetCreate, nvmlEventSet_t *);
NV(nvmlEventSetFree, nvmlEventSet_t);
NV(nvmlEventSetWait, nvmlEventSet_t, nvmlEventData_t *, unsigned);
NV(nvmlEventSetWait_v2, nvmlEventSet_t, nvmlEventData_t *, unsigned);
NV(nvmlDeviceGetSupportedEventTypes, nvmlDevice_t, unsigned long long *);
NV(nvmlDeviceRegisterEvents, nvmlDevice_t, unsigned long long, nvmlEventSet_t);
NV(nvshareSimInjectXid, const char *, unsigned long long);
NV(nvmlDeviceGetFanSpeed, nvmlDevice_t);
NV(nvmlDeviceGetTemperature, nvmlDevice_t);
NV(nvmlDeviceGetPowerUsage, nvmlDevice_t);
NV(nvmlDeviceGetEnforcedPowerLimit, nvmlDevice_t);
NV(nvmlDeviceGetPowerManagementLimit, nvmlDevice_t);
NV(nvmlDeviceGetClockInfo, nvmlDevice_t);
NV(nvmlDeviceGetMaxClockInfo, nvmlDevice_t);
NV(nvmlDeviceGetEccMode, nvmlDevice_t);
NV(nvmlDeviceGetSerial, nvmlDevice_t);
NV(nvmlDeviceGetPerformanceState, nvmlDevice_t);
NV(nvmlDeviceGetEncoderUtilization, nvmlDevice_t);
NV(nvmlDeviceGetDecoderUtilization, nvmlDevice_t);
NV(nvmlDeviceGetDisplayActive, nvmlDevice_t);
NV(nvmlDeviceGetDisplayMode, nvmlDevice_t);
NV(nvmlDeviceGetNvLinkRemoteDeviceType, nvmlDevice_t);
NV(nvmlDeviceGetNvLinkRemotePciInfo_v2, nvmlDevice_t);
NV(nvmlDeviceGetGpuFabricInfoV, nvmlDevice_t);
NV(nvmlDeviceGetP2PStatus, nvmlDevice_t);
NV(nvmlDeviceGetDriverModel, nvmlDevice_t);
NV(nvmlDeviceGetTotalEccErrors, nvmlDevice_t);
NV(nvmlDeviceGetProcessUtilization, nvmlDevice_t, nvmlProcessUtilizationSample_t *, unsigned *, unsigned long long);

static nvmlDevice_t first, second;

static void starting_and_stopping(void)
{
    unsigned count = 0;
    char text[8];
    GIVES(NVML_ERROR_UNINITIALIZED, nvmlDeviceGetCount(&count));
    GIVES(NVML_ERROR_UNINITIALIZED, nvmlShutdown());
    OK(nvmlInit());
    OK(nvmlInit_v2());
    OK(nvmlShutdown());
    OK(nvmlDeviceGetCount(&count)); /* one user is left */
    OK(nvmlShutdown());
    GIVES(NVML_ERROR_UNINITIALIZED, nvmlDeviceGetCount(&count));
    OK(nvmlInitWithFlags(0));
    CHECK(strcmp(nvmlErrorString(NVML_ERROR_NOT_FOUND), "Not Found") == 0);
    GIVES(NVML_ERROR_INSUFFICIENT_SIZE, nvmlSystemGetDriverVersion(text, 2));
}

static void the_system(void)
{
    int version = 0;
    char text[96];
    OK(nvmlSystemGetDriverVersion(text, sizeof text));
    OK(nvmlSystemGetNVMLVersion(text, sizeof text));
    OK(nvmlSystemGetCudaDriverVersion(&version));
    OK(nvmlSystemGetCudaDriverVersion_v2(&version));
    CHECK(version >= 12000);
    OK(nvmlSystemGetProcessName((unsigned)getpid(), text, sizeof text));
    CHECK(strstr(text, "nvml_calls") != NULL);
    GIVES(NVML_ERROR_NOT_FOUND, nvmlSystemGetProcessName(0x7ffffff0, text, sizeof text));
}

static void finding_devices(void)
{
    unsigned count = 0, index = 9;
    char uuid[96];
    nvmlPciInfo_t pci;
    nvmlDevice_t found = NULL;
    OK(nvmlDeviceGetCount_v2(&count));
    CHECK(count == 2);
    OK(nvmlDeviceGetHandleByIndex(0, &first));
    OK(nvmlDeviceGetHandleByIndex_v2(1, &second));
    CHECK(first != second);
    GIVES(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetHandleByIndex(2, &found));
    OK(nvmlDeviceGetUUID(second, uuid, sizeof uuid));
    OK(nvmlDeviceGetHandleByUUID(uuid, &found));
    CHECK(found == second);
    GIVES(NVML_ERROR_NOT_FOUND, nvmlDeviceGetHandleByUUID("GPU-0", &found));
    OK(nvmlDeviceGetPciInfo(second, &pci));
    OK(nvmlDeviceGetPciInfo_v2(second, &pci));
    OK(nvmlDeviceGetPciInfo_v3(second, &pci));
    OK(nvmlDeviceGetHandleByPciBusId(pci.busIdLegacy, &found));
    OK(nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &found));
    CHECK(found == second);
    GIVES(NVML_ERROR_NOT_FOUND, nvmlDeviceGetHandleByPciBusId("0000:7F:00.0", &found));
    OK(nvmlDeviceGetIndex(second, &index));
    CHECK(index == 1);
    OK(nvmlDeviceGetMinorNumber(first, &index));
    CHECK(index == 0);
    GIVES(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetIndex((nvmlDevice_t)&pci, &index));
}

static void one_device(void)
{
    char name[96];
    unsigned value = 9, pending = 9;
    int major = 0, minor = 0;
    nvmlMemory_t memory;
    nvmlMemory_v2_t memory2 = {.version = NVML_MEMORY_V2};
    nvmlBAR1Memory_t bar1;
    nvmlUtilization_t use;
    nvmlDevice_t mig;
    OK(nvmlDeviceGetName(first, name, sizeof name));
    OK(nvmlDeviceGetMemoryInfo(first, &memory));
    CHECK(memory.total == memory.free + memory.used && memory.total > 0);
    OK(nvmlDeviceGetMemoryInfo_v2(first, &memory2));
    CHECK(memory2.total == memory.total);
    memory2.version = 7;
    GIVES(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, nvmlDeviceGetMemoryInfo_v2(first, &memory2));
    GIVES(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetMemoryInfo(first, NULL));
    OK(nvmlDeviceGetBAR1MemoryInfo(first, &bar1));
    OK(nvmlDeviceGetUtilizationRates(first, &use));
    CHECK(use.gpu == 0);
    OK(nvmlDeviceGetComputeMode(first, &value));
    CHECK(value == 0);
    OK(nvmlDeviceGetPersistenceMode(first, &value));
    OK(nvmlDeviceGetBrand(first, &value));
    OK(nvmlDeviceGetArchitecture(first, &value));
    CHECK(value == 7);
    OK(nvmlDeviceGetCudaComputeCapability(first, &major, &minor));
    CHECK(major == 8 && minor == 0);
    OK(nvmlDeviceGetMigMode(first, &value, &pending));
    CHECK(value == 0 && pending == 0);
    OK(nvmlDeviceGetMaxMigDeviceCount(first, &value));
    CHECK(value == 0);
    OK(nvmlDeviceIsMigDeviceHandle(first, &value));
    CHECK(value == 0);
    GIVES(NVML_ERROR_NOT_FOUND, nvmlDeviceGetMigDeviceHandleByIndex(first, 0, &mig));
}

static void the_link(void)
{
    unsigned value = 0;
    OK(nvmlDeviceGetMaxPcieLinkGeneration(first, &value));
    CHECK(value == 3); /* 12 GB/s */
    OK(nvmlDeviceGetCurrPcieLinkGeneration(first, &value));
    CHECK(value == 1); /* idle */
    OK(nvmlDeviceGetMaxPcieLinkWidth(first, &value));
    CHECK(value == 16);
    OK(nvmlDeviceGetCurrPcieLinkWidth(first, &value));
    CHECK(value == 16);
    GIVES(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetCurrPcieLinkWidth(first, NULL));
    GIVES(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetMaxPcieLinkWidth((nvmlDevice_t)&value, &value));
}

static void processes(void)
{
    typedef nvmlReturn_t (*lister)(nvmlDevice_t, unsigned *, void *);
    static const lister lists[] = {nvmlDeviceGetComputeRunningProcesses,        nvmlDeviceGetComputeRunningProcesses_v2,
                                   nvmlDeviceGetComputeRunningProcesses_v3,     nvmlDeviceGetGraphicsRunningProcesses,
                                   nvmlDeviceGetGraphicsRunningProcesses_v2,    nvmlDeviceGetGraphicsRunningProcesses_v3,
                                   nvmlDeviceGetMPSComputeRunningProcesses,     nvmlDeviceGetMPSComputeRunningProcesses_v2,
                                   nvmlDeviceGetMPSComputeRunningProcesses_v3};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        unsigned count = 0;
        OK(lists[i](first, &count, NULL));
        CHECK(count == 0);
        GIVES(NVML_ERROR_INVALID_ARGUMENT, lists[i](first, NULL, NULL));
    }
    unsigned count = 0;
    GIVES(NVML_ERROR_NOT_FOUND, nvmlDeviceGetProcessUtilization(first, NULL, &count, 0));
    GIVES(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetProcessUtilization(first, NULL, NULL, 0));
}

static void errors_and_recovery(void)
{
    unsigned long long types = 0;
    char uuid[96];
    nvmlEventSet_t set;
    nvmlEventData_t event;
    nvmlFieldValue_t field[2] = {{.fieldId = NVML_FIELD_RECOVERY_ACTION}, {.fieldId = 1}};
    OK(nvmlDeviceGetSupportedEventTypes(first, &types));
    CHECK(types == NVML_EVENT_XID);
    OK(nvmlEventSetCreate(&set));
    OK(nvmlDeviceRegisterEvents(second, NVML_EVENT_XID, set));
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceRegisterEvents(second, 1, set));
    GIVES(NVML_ERROR_TIMEOUT, nvmlEventSetWait(set, &event, 1));
    OK(nvmlDeviceGetUUID(second, uuid, sizeof uuid));
    OK(nvshareSimInjectXid(uuid, 48));
    GIVES(NVML_ERROR_NOT_FOUND, nvshareSimInjectXid("GPU-none", 48));
    OK(nvmlEventSetWait_v2(set, &event, 10000));
    CHECK(event.device == second && event.eventData == 48 && event.eventType == NVML_EVENT_XID);
    GIVES(NVML_ERROR_TIMEOUT, nvmlEventSetWait_v2(set, &event, 0));
    for (int i = 0; i < 100; i++) /* more than are kept: the newest 64 are told, in order */
        OK(nvshareSimInjectXid(uuid, 1000 + (unsigned)i));
    for (int i = 36; i < 100; i++) {
        OK(nvmlEventSetWait_v2(set, &event, 10000));
        CHECK(event.eventData == 1000 + (unsigned)i);
    }
    GIVES(NVML_ERROR_TIMEOUT, nvmlEventSetWait_v2(set, &event, 0));
    OK(nvshareSimInjectXid(uuid, 79));
    OK(nvmlDeviceGetFieldValues(second, 2, field));
    CHECK(field[0].nvmlReturn == NVML_SUCCESS && field[0].value.uiVal == NVML_RECOVERY_GPU_RESET);
    CHECK(field[1].nvmlReturn == NVML_ERROR_NOT_SUPPORTED);
    OK(nvmlEventSetFree(set));
}

static void what_a_simulated_card_does_not_have(void)
{
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetFanSpeed(first));
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetTemperature(first));
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetPowerUsage(first));
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetEnforcedPowerLimit(first));
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetPowerManagementLimit(first));
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetClockInfo(first));
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetMaxClockInfo(first));
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetEccMode(first));
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetSerial(first));
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetPerformanceState(first));
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetEncoderUtilization(first));
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetDecoderUtilization(first));
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetDisplayActive(first));
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetDisplayMode(first));
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetNvLinkRemoteDeviceType(first));
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetNvLinkRemotePciInfo_v2(first));
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetGpuFabricInfoV(first));
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetP2PStatus(first));
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetDriverModel(first));
    GIVES(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetTotalEccErrors(first));
    GIVES(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetFanSpeed(NULL));
}

int main(void)
{
    starting_and_stopping();
    the_system();
    finding_devices();
    one_device();
    the_link();
    processes();
    errors_and_recovery();
    what_a_simulated_card_does_not_have();
    OK(nvmlShutdown());
    return failures != 0;
}
