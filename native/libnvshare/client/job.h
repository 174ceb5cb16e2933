/* The messages of a process of a job, whose kernels wait for those of other processes. */
#ifndef NVS_JOB_H
#define NVS_JOB_H

#include "client/client.h"

/* Kernels of the process wait for those of other processes. */
uint32_t nvs_job_use_collectives(struct nvs_client *client);
/* False if DO_LET_ONE has nothing to do: work passes an open gate without it, and a drain lets it through if it waits for it. */
bool nvs_job_must_let(const struct nvs_client *client, int gpu);
/* The submission that DO_LET_ONE let pass has finished, or there was none. */
uint32_t nvs_job_let_done(struct nvs_client *client, int gpu);

#endif
