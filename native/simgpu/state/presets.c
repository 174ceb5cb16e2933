/* Known cards. docs/simulated-gpu.md gives the source of each number. */
#include "state/config.h"

#include <stdio.h>
#include <strings.h>

static const struct preset {
    const char *key, *name;
    uint32_t major, minor;
    uint64_t memory_bytes;
    double device_bandwidth, link_bandwidth, fault_bandwidth, evicting_fault_bandwidth;
} presets[] = {
    {"p100", "Simulated P100", 6, 0, 16ull << 30, 0x1p30 * 10 / 0.12, 12e9, 0x1p30 * 10 / 3.70, 0},
    {"t4", "Simulated T4", 7, 5, 15ull << 30, 320e9, 12e9, 5e9, 0.35e9},
    {"a100", "Simulated A100", 8, 0, 40ull << 30, 1555e9, 25e9, 8.2e9, 0},
    {"h100", "Simulated H100", 9, 0, 80ull << 30, 2000e9, 50e9, 8.2e9, 0},
};

bool sim_config_preset(struct sim_config *config, const char *name)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        const struct preset *preset = &presets[i];
        if (strcasecmp(name, preset->key) != 0)
            continue;
        snprintf(config->name, sizeof config->name, "%s", preset->name);
        config->compute_major = preset->major;
        config->compute_minor = preset->minor;
        config->memory_bytes = preset->memory_bytes;
        config->device_bandwidth = preset->device_bandwidth;
        config->copy_bandwidth = config->evict_bandwidth = preset->link_bandwidth;
        config->fault_bandwidth = preset->fault_bandwidth;
        config->evicting_fault_bandwidth = preset->evicting_fault_bandwidth;
        return true;
    }
    return false;
}
