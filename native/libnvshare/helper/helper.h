/* Inside the helper thread: what its files share. */
#ifndef NVS_HELPER_H
#define NVS_HELPER_H

#include <stdint.h>

#include "client/client.h"
#include "helper/link.h"

/* The conversation with the scheduler. Only the helper thread touches it, and its deputy while the helper is in the driver. */
extern struct nvs_client nvs_helper_client;
extern struct nvs_link nvs_helper_link;

/* Handles one frame, and does what follows from it. `is_helper`: false in the deputy, which does not call the driver. */
void nvs_session_receive(const uint8_t *frame, int64_t now, bool is_helper);

/* Sends a PING if it is due. For the deputy. */
void nvs_session_ping(int64_t now);

/* Sends a question about budget. */
void nvs_session_send_ask(int gpu, uint32_t ask, uint64_t need);

#endif
