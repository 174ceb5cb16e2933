/* The table of the intercepted functions, and cuGetProcAddress, which answers from it. */
#include "lookup/symbols.h"

#include <string.h>

#include "base/options.h"
#include "lookup/real.h"
#include "suspend/stubs.h"

static const struct nvs_symbol symbols[] = {
#define ROW(name, symbol, since, variant) {#name, #symbol, since, variant, (void *)symbol, (void **)&nvs_real.symbol},
#define NVS_STREAM(name, symbol, since, variant, stream, params, args) ROW(name, symbol, since, variant)
#define NVS_SYNC(name, symbol, since, variant, params, args) ROW(name, symbol, since, variant)
#define NVS_HOOK(name, symbol, since, variant, params) ROW(name, symbol, since, variant)
#include "lookup/symbols.def"
};
static const int symbol_count = sizeof symbols / sizeof *symbols;

const struct nvs_symbol *nvs_symbol_find(const char *symbol)
{
    for (int i = 0; i < symbol_count; i++)
        if (!strcmp(symbols[i].symbol, symbol))
            return &symbols[i];
    return NULL;
}

static bool suits(const struct nvs_symbol *row, int version, cuuint64_t flags)
{
    enum nvs_variant wanted = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ? NVS_PTDS : NVS_LEGACY;
    return row->since <= version && (row->variant == NVS_ANY || row->variant == wanted);
}

/* A name may have several signatures. Which one the driver returned is best told by the pointer itself. If the driver returns other
 * pointers from cuGetProcAddress than from dlsym, the documented rule decides: the newest one not above the version asked for. */
static void *choose(const char *name, void *found, int version, cuuint64_t flags)
{
    const struct nvs_symbol *best = NULL;
    for (int i = 0; i < symbol_count; i++) {
        const struct nvs_symbol *row = &symbols[i];
        if (strcmp(row->name, name) != 0)
            continue;
        if (*row->real == found)
            return row->ours;
        if (suits(row, version, flags) && (!best || row->since > best->since))
            best = row;
    }
    if (!best)
        return found;
    if (!nvs_real_has((const void *const *)best->real))
        *best->real = found;
    return best->ours;
}

static CUresult route(const char *name, void **fn, int version, cuuint64_t flags, CUresult result)
{
    if (result == CUDA_SUCCESS && name && fn && *fn && !nvs_options()->disable)
        *fn = nvs_stub_for(name, choose(name, *fn, version, flags));
    return result;
}

/* `asked` are the flags as the function below means them: without any, the form for the per-thread default stream means that stream. */
#define PER_THREAD(flags) ((flags) ? (flags) : CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
#define ANSWER(symbol, params, args, asked) \
    CUresult symbol params \
    { \
        if (nvs_real_load() != 0) \
            return CUDA_ERROR_NOT_INITIALIZED; \
        return route(name, fn, version, asked, nvs_real.symbol args); \
    }
#define PARAMS (const char *name, void **fn, int version, cuuint64_t flags)
#define PARAMS_V2 (const char *name, void **fn, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
ANSWER(cuGetProcAddress, PARAMS, (name, fn, version, flags), flags)
ANSWER(cuGetProcAddress_ptsz, PARAMS, (name, fn, version, flags), PER_THREAD(flags))
ANSWER(cuGetProcAddress_v2, PARAMS_V2, (name, fn, version, flags, status), flags)
ANSWER(cuGetProcAddress_v2_ptsz, PARAMS_V2, (name, fn, version, flags, status), PER_THREAD(flags))
