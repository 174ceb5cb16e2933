/* The helper's reports about the working set of the process, and about slow work. */
#ifndef NVS_REPORTS_H
#define NVS_REPORTS_H

#include <stdint.h>

#include "gpu.h"

/* Looks at the GPU while the process may use it, and reports what is new; when to call again. */
int64_t nvs_reports_tick(struct nvs_gpu *gpu, int64_t now_ns);
/* Memory was allocated or freed, or a lock is about to be requested: the working set is reported before it. */
void nvs_reports_before_figures(struct nvs_gpu *gpu);
void nvs_reports_forked(void);

#endif
