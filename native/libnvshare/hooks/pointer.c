/* What the program is told about a pointer. Memory that it got from cuMemAlloc or from a default pool is device memory to it, although
 * the library allocated it as managed memory: programs choose another path for managed memory, or refuse it. */
#include <stdatomic.h>

#include "base/log.h"
#include "hooks/hooks.h"
#include "memory/entries.h"
#include "memory/managed_pools.h"
#include "memory/memory.h"

static bool differs(CUpointer_attribute attribute)
{
    return attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED || attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER
           || attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE || attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
}

/* True if the pointer is anywhere in an allocation that the program asked for as device memory and got as managed memory. */
static bool is_converted(CUdeviceptr pointer)
{
    CUdeviceptr start = 0;
    struct nvs_ledger_entry entry;
    return nvs_real.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer) == CUDA_SUCCESS
           && nvs_entries_find_address(start, &entry) && entry.is_converted;
}

static void answer_as_device(void *data, CUpointer_attribute attribute)
{
    if (attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED)
        *(unsigned *)data = 0;
    else if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
        *(unsigned *)data = CU_MEMORYTYPE_DEVICE;
    else if (attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE)
        *(CUmemoryPool *)data = nvs_managed_pool_seen(*(CUmemoryPool *)data);
    else
        *(void **)data = NULL;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr d)
{
    NVS_BEGIN_HOOK(cuPointerGetAttribute(data, attribute, d));
    CUresult result = nvs_real.cuPointerGetAttribute(data, attribute, d);
    if (result != CUDA_SUCCESS || !differs(attribute) || !is_converted(d))
        return result;
    answer_as_device(data, attribute);
    return attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER ? CUDA_ERROR_INVALID_VALUE : result; /* as for device memory */
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr d)
{
    NVS_BEGIN_HOOK(cuPointerGetAttributes(count, attributes, data, d));
    CUresult result = nvs_real.cuPointerGetAttributes(count, attributes, data, d);
    bool is_asked = false;
    for (unsigned i = 0; result == CUDA_SUCCESS && i < count; i++)
        is_asked = is_asked || differs(attributes[i]);
    if (!is_asked || !is_converted(d))
        return result;
    for (unsigned i = 0; i < count; i++)
        if (differs(attributes[i]))
            answer_as_device(data[i], attributes[i]);
    return result;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr d)
{
    static _Atomic bool is_said;
    NVS_BEGIN_HOOK(cuIpcGetMemHandle(handle, d));
    CUresult result = nvs_real.cuIpcGetMemHandle(handle, d);
    if (result != CUDA_SUCCESS && is_converted(d) && !atomic_exchange(&is_said, true))
        nvs_warn("cuIpcGetMemHandle failed: managed memory cannot be shared with other processes. "
                 "Start this program with NVSHARE_MEMORY_MODE=native");
    return result;
}
