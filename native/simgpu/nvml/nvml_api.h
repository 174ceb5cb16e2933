/* The part of NVML that the simulated libnvidia-ml.so.1 speaks: facts of its ABI, as the Python binding and monitoring
 * programs use it. */
#ifndef NVML_API_H
#define NVML_API_H

#include <stdint.h>

typedef int nvmlReturn_t;

enum {
#define NVML_RESULT(value, name, text) name = value,
#include "nvml/results.def"
#undef NVML_RESULT
};

typedef struct sim_card *nvmlDevice_t;
typedef struct nvml_event_set *nvmlEventSet_t;

typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
    unsigned long long bar1Total, bar1Free, bar1Used;
} nvmlBAR1Memory_t;

typedef struct {
    unsigned gpu, memory;
} nvmlUtilization_t;

typedef struct {
    unsigned pid;
    unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct {
    unsigned pid;
    unsigned long long usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct {
    unsigned pid;
    unsigned long long timeStamp;
    unsigned smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

typedef struct {
    unsigned fieldId, scopeId;
    long long timestamp, latencyUsec;
    unsigned valueType;
    nvmlReturn_t nvmlReturn;
    union {
        double dVal;
        unsigned uiVal;
        unsigned long long ullVal;
    } value;
} nvmlFieldValue_t;

#define NVML_MEMORY_V2 0x02000028u
#define NVML_NO_INSTANCE 0xffffffffu
#define NVML_EVENT_XID 8ull
#define NVML_FIELD_RECOVERY_ACTION 230u
#define NVML_VALUE_UNSIGNED_INT 1u
enum { NVML_RECOVERY_NONE = 0, NVML_RECOVERY_GPU_RESET = 1 };

_Static_assert(sizeof(nvmlMemory_v2_t) == (NVML_MEMORY_V2 & 0xffffffu), "nvmlMemory_v2_t");
_Static_assert(sizeof(nvmlPciInfo_t) == 68 && sizeof(nvmlProcessInfo_t) == 24 && sizeof(nvmlEventData_t) == 32, "NVML ABI");
_Static_assert(sizeof(nvmlFieldValue_t) == 40, "nvmlFieldValue_t");

#endif
