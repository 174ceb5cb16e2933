/* The settings of the client machine. */
#ifndef NVS_CONFIG_H
#define NVS_CONFIG_H

#include "client/client.h"

/* What the options of this process say about the conversation with the scheduler. */
struct nvs_client_config nvs_config_of_client(void);

#endif
