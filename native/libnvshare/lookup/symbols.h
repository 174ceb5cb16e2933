/* The tables made from symbols.def: exported prototypes, the driver's functions, and their names. */
#ifndef NVS_SYMBOLS_H
#define NVS_SYMBOLS_H

#include "cuda_types.h"

#define NVS_EXPORT __attribute__((visibility("default")))

/* CUDA_LAUNCH_PARAMS as far as we read it. */
struct nvs_launch_params {
    CUfunction function;
    unsigned grid[3], block[3], shared;
    CUstream stream;
    void **params;
};

enum nvs_variant { NVS_ANY, NVS_LEGACY, NVS_PTDS };

/* In C, a hook has the name of the driver's function. On x86_64 its symbol has another name, because the driver's name is exported as a
 * jump to the hook (lookup/exports.c). */
#if defined(__x86_64__)
#define NVS_HOOK_NAME(symbol, params) CUresult symbol params __asm__("nvs_hook_" #symbol);
#else
#define NVS_HOOK_NAME(symbol, params) NVS_EXPORT CUresult symbol params;
#endif
#define NVS_STREAM(name, symbol, since, variant, stream, params, args) NVS_HOOK_NAME(symbol, params)
#define NVS_SYNC(name, symbol, since, variant, params, args) NVS_HOOK_NAME(symbol, params)
#define NVS_HOOK(name, symbol, since, variant, params) NVS_HOOK_NAME(symbol, params)
#include "lookup/symbols.def"

/* The driver's own functions; one that the driver lacks answers CUDA_ERROR_NOT_FOUND. */
struct nvs_real {
#define NVS_STREAM(name, symbol, since, variant, stream, params, args) CUresult (*symbol) params;
#define NVS_SYNC(name, symbol, since, variant, params, args) CUresult (*symbol) params;
#define NVS_HOOK(name, symbol, since, variant, params) CUresult (*symbol) params;
#define NVS_USED(symbol, params) CUresult (*symbol) params;
#include "lookup/symbols.def"
};
extern struct nvs_real nvs_real;

/* One intercepted entry point. `real` is its place in nvs_real. */
struct nvs_symbol {
    const char *name;
    const char *symbol;
    int since;
    enum nvs_variant variant;
    void *ours;
    void **real;
};

/* The intercepted entry point of this exported name, or NULL. */
const struct nvs_symbol *nvs_symbol_find(const char *symbol);

#endif
