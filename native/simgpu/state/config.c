/* Settings of the simulated node, from the environment. A value that cannot be read is reported on stderr once and the
 * default stays: a typing error must not look like a broken card. */
#include "state/config.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/quantity.h"

/* A number that begins with a digit, and a unit. */
bool sim_parse_duration_ns(const char *text, uint64_t *ns)
{
    static const struct { const char *suffix; double factor; } units[] = {{"", 1e3}, {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    char *end;
    if (!isdigit((unsigned char)text[0]))
        return false;
    double number = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].suffix) == 0 && number * units[i].factor < 0x1p62) {
            *ns = (uint64_t)(number * units[i].factor);
            return true;
        }
    }
    return false;
}

bool sim_parse_bytes(const char *text, uint64_t *bytes) { return nvs_quantity_parse(text, bytes); }

static void complain(const char *name, const char *value)
{
    fprintf(stderr, "nvshare simulated GPU: %s=%s cannot be read, the default is used\n", name, value);
}

static void read_bytes(const char *name, uint64_t *bytes)
{
    const char *value = getenv(name);
    if (value != NULL && value[0] != '\0' && !sim_parse_bytes(value, bytes))
        complain(name, value);
}

static void read_rate(const char *name, double *rate)
{
    uint64_t bytes = 0;
    const char *value = getenv(name);
    if (value == NULL || value[0] == '\0')
        return;
    if (sim_parse_bytes(value, &bytes) && bytes > 0)
        *rate = (double)bytes;
    else
        complain(name, value);
}

static void read_scale(double *scale)
{
    const char *value = getenv("NVSHARE_SIM_SCALE");
    char *end;
    if (value == NULL || value[0] == '\0')
        return;
    double number = strtod(value, &end);
    if (*end == '\0' && number >= 1e-6 && number <= 1e3)
        *scale = number;
    else
        complain("NVSHARE_SIM_SCALE", value);
}

static void read_capability(struct sim_config *config)
{
    const char *value = getenv("NVSHARE_SIM_COMPUTE_CAPABILITY");
    unsigned major, minor;
    if (value == NULL || value[0] == '\0')
        return;
    if (sscanf(value, "%u.%u", &major, &minor) == 2 && major >= 3 && major < 20 && minor < 10) {
        config->compute_major = major;
        config->compute_minor = minor;
    } else {
        complain("NVSHARE_SIM_COMPUTE_CAPABILITY", value);
    }
}

static void read_count(uint32_t *gpus)
{
    const char *value = getenv("NVSHARE_SIM_GPUS");
    char *end;
    if (value == NULL || value[0] == '\0')
        return;
    unsigned long number = strtoul(value, &end, 10);
    if (*end == '\0' && number <= SIM_MAX_CARDS)
        *gpus = (uint32_t)number;
    else
        complain("NVSHARE_SIM_GPUS", value);
}

/* One of two words; *is_second says which. */
static void read_choice(const char *name, const char *first, const char *second, uint32_t *is_second)
{
    const char *value = getenv(name);
    if (value == NULL || value[0] == '\0')
        return;
    if (strcmp(value, first) == 0 || strcmp(value, second) == 0)
        *is_second = strcmp(value, second) == 0;
    else
        complain(name, value);
}

uint64_t sim_config_host_bytes(void)
{
    uint64_t bytes = UINT64_MAX;
    read_bytes("NVSHARE_SIM_HOST_MEMORY", &bytes);
    return bytes;
}

/* As CUDA and NVML name them: one slice of the multiprocessors, and the memory. */
static void name_instances(struct sim_config *config)
{
    size_t length = strlen(config->name);
    if (config->mig)
        snprintf(config->name + length, sizeof config->name - length, " MIG 1g.%llugb", (unsigned long long)config->memory_bytes >> 30);
}

void sim_config_from_environment(struct sim_config *config)
{
    /* The defaults reproduce one published measurement: 10 GiB take 3.82 s when first touched by a kernel (3.70 s of
     * faults and 0.12 s of work) and 0.12 s when resident. */
    *config = (struct sim_config){
        .gpus = 1, .compute_major = 8, .compute_minor = 0, .touch_all = 1,
        .memory_bytes = 16ull << 30, .context_bytes = 256ull << 20, .scale = 1.0,
        .device_bandwidth = 0x1p30 * 10 / 0.12, .fault_bandwidth = 0x1p30 * 10 / 3.70,
        .copy_bandwidth = 12e9, .evict_bandwidth = 12e9, .slice_ns = 2000000,
        .module_bytes = 64ull << 10, .graph_bytes = 64ull << 10,
        .name = "Simulated GPU",
    };
    const char *card = getenv("NVSHARE_SIM_CARD");
    if (card != NULL && card[0] != '\0' && !sim_config_preset(config, card))
        complain("NVSHARE_SIM_CARD", card);
    const char *name = getenv("NVSHARE_SIM_NAME");
    if (name != NULL && name[0] != '\0')
        snprintf(config->name, sizeof config->name, "%s", name);
    read_choice("NVSHARE_SIM_MIG", "0", "1", &config->mig);
    read_choice("NVSHARE_SIM_TOUCH", "stream", "all", &config->touch_all);
    read_choice("NVSHARE_SIM_PREFETCH", "works", "ignored", &config->ignores_prefetches);
    read_choice("NVSHARE_SIM_HOST_FULL", "kill", "refuse", &config->host_refuses);
    const char *slice = getenv("NVSHARE_SIM_SLICE");
    if (slice != NULL && slice[0] != '\0' && !sim_parse_duration_ns(slice, &config->slice_ns))
        complain("NVSHARE_SIM_SLICE", slice);
    read_count(&config->gpus);
    read_capability(config);
    read_scale(&config->scale);
    read_bytes("NVSHARE_SIM_MEMORY", &config->memory_bytes);
    read_bytes("NVSHARE_SIM_CONTEXT_MEMORY", &config->context_bytes);
    read_bytes("NVSHARE_SIM_MODULE_MEMORY", &config->module_bytes);
    read_bytes("NVSHARE_SIM_GRAPH_MEMORY", &config->graph_bytes);
    name_instances(config);
    read_rate("NVSHARE_SIM_BANDWIDTH", &config->device_bandwidth);
    read_rate("NVSHARE_SIM_COPY_BANDWIDTH", &config->copy_bandwidth);
    read_rate("NVSHARE_SIM_FAULT_BANDWIDTH", &config->fault_bandwidth);
    read_rate("NVSHARE_SIM_EVICT_BANDWIDTH", &config->evict_bandwidth);
    read_rate("NVSHARE_SIM_EVICTING_FAULT_BANDWIDTH", &config->evicting_fault_bandwidth);
}

void sim_config_directory(char *buffer, size_t size)
{
    struct stat info;
    const char *value = getenv("NVSHARE_SIM_DIR");
    if (value != NULL && value[0] != '\0')
        snprintf(buffer, size, "%s", value);
    else if (stat("/dev/shm", &info) == 0 && access("/dev/shm", W_OK) == 0)
        snprintf(buffer, size, "/dev/shm/nvshare-sim-%u", (unsigned)getuid());
    else
        snprintf(buffer, size, "/tmp/nvshare-sim-%u", (unsigned)getuid());
}

void sim_wait_for_pipe(const char *variable)
{
    char byte;
    const char *path = getenv(variable);
    int fd = path != NULL && path[0] != '\0' ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    while (read(fd, &byte, 1) > 0)
        ;
    close(fd);
}
