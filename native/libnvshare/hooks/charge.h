/* Device memory that has no address is charged when it is created and noted by its handle: arrays, mipmaps, instances of graphs. */
#ifndef NVS_HOOKS_CHARGE_H
#define NVS_HOOKS_CHARGE_H

#include "gpu.h"
#include "lookup/symbols.h"
#include "memory/memory.h"

/* The body of every function that creates something: charge `bytes`, make the driver's `call`, note `*handle` or return the charge. */
#define NVS_CHARGE(kind, handle, bytes, call) \
    do { \
        struct nvs_gpu *gpu = nvs_gpu_current(); \
        uint64_t size = gpu ? (bytes) : 0; \
        if (!size) \
            return call; \
        CUresult reserved = nvs_memory_reserve(gpu, size, false); \
        if (reserved != CUDA_SUCCESS) \
            return reserved; \
        CUresult result = call; \
        return nvs_charge_end(result, gpu, kind, result == CUDA_SUCCESS ? *(handle) : NULL, size); \
    } while (0)

/* Both return `result`. */
/* After the driver's call: notes the handle, or returns the charge if the call failed. */
CUresult nvs_charge_end(CUresult result, struct nvs_gpu *gpu, enum nvs_kind kind, const void *handle, uint64_t bytes);
/* After the driver's call that destroys it: returns the charge, or notes the entry again if the call failed. */
CUresult nvs_charge_return(CUresult result, bool is_ours, const struct nvs_ledger_entry *entry);

#endif
