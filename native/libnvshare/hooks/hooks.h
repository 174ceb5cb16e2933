/* What the hooks share. */
#ifndef NVS_HOOKS_H
#define NVS_HOOKS_H

#include "base/cancellation.h"
#include "gpu.h"
#include "lookup/symbols.h"
#include "process.h"

/* If the library is not at work, only call the driver. */
#define NVS_PASS_UNLESS_READY(call) \
    do { \
        if (NVS_UNLIKELY(!nvs_process_ready())) \
            return nvs_real.call; \
    } while (0)

/* First in every hook that takes a lock or counts something. Cancellation is deferred during the driver's call too: what was
 * charged before it is noted or returned after it. */
#define NVS_BEGIN_HOOK(call) \
    NVS_NO_CANCELLATION; \
    NVS_PASS_UNLESS_READY(call)

#endif
