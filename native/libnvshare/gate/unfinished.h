/* Whether a GPU has unfinished work of this process, at a glance: unlike a drain it records nothing, and takes part in no turn. */
#ifndef NVS_UNFINISHED_H
#define NVS_UNFINISHED_H

struct nvs_gpu;

enum nvs_unfinished {
    NVS_UNFINISHED_NONE,
    NVS_UNFINISHED_SOME,
    NVS_UNFINISHED_MORE,    /* none so far; the next look goes on with the streams that are left */
    NVS_UNFINISHED_UNKNOWN, /* a stream cannot be asked now */
};

/* nvs_streams_lock is held before and after, and given back while the driver is called (gate/calls.h). Only the helper calls it. */
enum nvs_unfinished nvs_unfinished(const struct nvs_gpu *gpu);
void nvs_unfinished_forked(void);

#endif
