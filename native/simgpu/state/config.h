/* Settings of the simulated node. */
#ifndef SIM_CONFIG_H
#define SIM_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_MAX_CARDS 16

struct sim_config {
    uint32_t gpus;
    uint32_t compute_major, compute_minor;
    uint32_t touch_all;              /* a kernel touches all managed memory of its process (else what it can stream) */
    uint64_t memory_bytes;
    uint64_t context_bytes;          /* what one context takes away from the card */
    double scale;                    /* real seconds per simulated second */
    double device_bandwidth;         /* bytes per simulated second: touching resident memory */
    double copy_bandwidth;           /* host <-> device copies and prefetches */
    double fault_bandwidth;          /* managed memory moved in by faults */
    double evict_bandwidth;          /* managed memory moved out to make room */
    double evicting_fault_bandwidth; /* faults that must evict, the eviction included; 0 = as the two above say */
    uint32_t mig;                    /* the cards are MIG instances of one card */
    uint32_t ignores_prefetches;     /* a prefetch succeeds and does nothing */
    uint32_t host_refuses;           /* what exceeds a process' host memory stays on the card; else its owner is killed */
    uint64_t module_bytes;           /* what one module takes away from the card, */
    uint64_t graph_bytes;            /* and one instance of a graph */
    uint64_t slice_ns;               /* simulated: how long one process computes while others wait */
    char name[96];
};

void sim_config_from_environment(struct sim_config *config);
/* Of this process: how much evicted memory the host takes (NVSHARE_SIM_HOST_MEMORY); UINT64_MAX if any amount. */
uint64_t sim_config_host_bytes(void);
/* Settings of a known card (presets.c); false if there is none of this name. */
bool sim_config_preset(struct sim_config *config, const char *name);
/* The directory: NVSHARE_SIM_DIR or one per user in /dev/shm (else /tmp). */
void sim_config_directory(char *buffer, size_t size);
/* "16Gi", "512Mi", "2G", "1073741824"; false if it is none of these. */
bool sim_parse_bytes(const char *text, uint64_t *bytes);
/* "5ms", "10us", "2s", "100ns", plain digits = microseconds. */
bool sim_parse_duration_ns(const char *text, uint64_t *ns);
/* If the variable names a pipe: waits until a process has opened it for writing and closed it. */
void sim_wait_for_pipe(const char *variable);

#endif
