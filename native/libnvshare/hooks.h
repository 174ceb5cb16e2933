/* What the hooks share. */
#ifndef NVS_HOOKS_H
#define NVS_HOOKS_H

#include "process.h"
#include "symbols.h"

/* Before anything else in a hook: where the library is not at work, the driver's own answer is the answer. */
#define NVS_PASS_UNLESS_READY(call) \
    do { \
        if (NVS_UNLIKELY(!nvs_process_ready())) \
            return nvs_real.call; \
    } while (0)

#endif
