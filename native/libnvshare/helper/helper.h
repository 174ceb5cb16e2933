/* Inside the helper thread: what its files share. */
#ifndef NVS_HELPER_H
#define NVS_HELPER_H

#include <stdint.h>

#include "client/client.h"

/* The conversation with the scheduler. Only the helper thread touches it. */
extern struct nvs_client nvs_helper_client;

/* Sends a question about budget. */
void nvs_session_send_ask(int gpu, uint32_t ask, uint64_t need);

#endif
