/* Times at which something is due. */
#ifndef NVS_DEADLINE_H
#define NVS_DEADLINE_H

#include <stdint.h>

#define NVS_NEVER INT64_MAX

static inline int64_t nvs_deadline_sooner(int64_t a, int64_t b) { return a < b ? a : b; }

#endif
