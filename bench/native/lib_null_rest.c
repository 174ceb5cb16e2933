/* The rest of the null driver: success, whatever is asked. Weak, so that lib_null.c can know better. */
#include "symbols.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NVS_NULL(symbol, params) __attribute__((weak)) CUresult symbol params { return CUDA_SUCCESS; }
#define NVS_STREAM(name, symbol, since, variant, stream, params, args) NVS_NULL(symbol, params)
#define NVS_SYNC(name, symbol, since, variant, params, args) NVS_NULL(symbol, params)
#define NVS_HOOK(name, symbol, since, variant, params) NVS_NULL(symbol, params)
#define NVS_USED(symbol, params) NVS_EXPORT CUresult symbol params; NVS_NULL(symbol, params)
#include "symbols.def"
