/* Finding functions: cuGetProcAddress answers from its own table, never by dlsym, which would find an interposer's
 * functions. Functions that are not simulated say so once. */
#include "driver/driver.h"

#include <string.h>

/* ---- stubs ---- */

#define FN(symbol, name, since, streams)
#define NO(symbol, name, since, streams) CUresult symbol(void);
#pragma GCC visibility push(default)
#include "driver/functions.def"
#pragma GCC visibility pop
#undef NO

static CUresult unsupported(const char *name)
{
    sim_trace_unsupported(name);
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* Called with any arguments: the calling convention lets a function ignore them. */
#define NO(symbol, name, since, streams) \
    CUresult symbol(void) { return unsupported(#symbol); }
#include "driver/functions.def"
#undef NO
#undef FN

/* ---- lookup ---- */

enum { BOTH, LEGACY, THREAD };

#define FN(symbol, name, since, streams) {#name, (void *)symbol, since, streams},
#define NO(symbol, name, since, streams) {#name, (void *)symbol, since, streams},
static const struct entry { const char *name; void *function; int since, streams; } entries[] = {
#include "driver/functions.def"
};

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    const struct entry *best = NULL;
    bool known = false;
    if (symbol == NULL || symbol[0] == '\0' || function == NULL || flags > 2)
        return CUDA_ERROR_INVALID_VALUE;
    int unwanted = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ? LEGACY : THREAD;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        const struct entry *entry = &entries[i];
        if (strcmp(entry->name, symbol) != 0)
            continue;
        known = true;
        if (entry->streams != unwanted && entry->since <= version && (best == NULL || entry->since > best->since))
            best = entry;
    }
    *function = best != NULL ? best->function : NULL;
    if (status != NULL)
        *status = best != NULL ? CU_GET_PROC_ADDRESS_SUCCESS
                : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return best != NULL || status != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* The forms for programs that were compiled for the per-thread default stream: without a flag they find functions of that kind. */
CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    return cuGetProcAddress_v2(symbol, function, version, flags ? flags : CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, status);
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags)
{
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}

CUresult cuGetProcAddress_ptsz(const char *symbol, void **function, int version, cuuint64_t flags)
{
    return cuGetProcAddress_v2_ptsz(symbol, function, version, flags, NULL);
}

/* NVIDIA's runtime checks the driver by private tables; there are none here. */
CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    if (table == NULL || id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}
