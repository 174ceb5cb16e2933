#include "helper/config.h"

#include <string.h>

#include "base/options.h"
#include "base/platform.h"

struct nvs_client_config nvs_config_of_client(void)
{
    const struct nvs_options *options = nvs_options();
    struct nvs_client_config config = {.reconnect_ns = options->reconnect_ms * NVS_MS,
                                       .orphan_ns = options->orphan_wait_ms * NVS_MS,
                                       .join_ns = options->join_ms * NVS_MS,
                                       .silence_ns = options->silence_ms * NVS_MS,
                                       .ask_ns = options->ask_ms * NVS_MS,
                                       .own_limit = options->limit_bytes,
                                       .priority = (int16_t)options->priority,
                                       .weight = (uint16_t)options->weight,
                                       .core_limit = (uint8_t)options->core_limit};
    memcpy(config.run, options->run, sizeof config.run);
    memcpy(config.name, options->name, sizeof config.name);
    return config;
}
