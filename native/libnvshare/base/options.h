/* The settings from the environment, read once. */
#ifndef NVS_OPTIONS_H
#define NVS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* NVSHARE_MEMORY_MODE: what device memory becomes. */
enum nvs_mode { NVS_MODE_MANAGED, NVS_MODE_NATIVE, NVS_MODE_CHECKPOINT };

struct nvs_options {
    bool disable;
    bool debug;
    bool single_oversub;
    int64_t memory_mode;    /* enum nvs_mode */
    bool prefetch;          /* memory is moved in bulk at a switch */
    bool live_shrink;       /* memory above a lowered limit moves to the host */
    bool gpu_time;          /* the helper looks how long work keeps the GPU busy */
    uint64_t limit_bytes;   /* 0: none */
    int64_t core_limit;     /* percent of each GPU's time, for the group; 0: none */
    int64_t gang;           /* kernels wait for those of other processes: 1 yes, 0 no, -1 find out */
    int64_t priority;
    int64_t weight;
    int64_t reconnect_ms;   /* longest pause between attempts to connect */
    int64_t orphan_wait_ms; /* how long a waiting thread waits for a scheduler that went away */
    int64_t join_ms;        /* how long the first allocation waits for the scheduler */
    int64_t silence_ms;     /* how long a waiting thread waits without any message, its PINGs unanswered, until it runs */
    int64_t ask_ms;         /* how long an allocation waits for an answer about budget */
    char socket[108];
    char name[48];
    uint8_t run[16];
};

const struct nvs_options *nvs_options(void);

#endif
