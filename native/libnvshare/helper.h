/* Inside the helper thread: what session, messages and turns share. */
#ifndef NVS_HELPER_H
#define NVS_HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

/* Queues a frame for the scheduler; dropped if there is none. */
void nvs_helper_send(const void *frame, size_t bytes);
/* The scheduler has answered our registration. */
bool nvs_helper_is_registered(void);
void nvs_helper_registered(bool scheduling_is_on);
/* Sends REGISTER. */
void nvs_messages_register(void);
/* Deals with one frame; false if it breaks the protocol. */
bool nvs_messages_handle(const uint8_t *frame);
/* Somebody's question about budget is answered. */
void nvs_session_answer(uint32_t ask, uint64_t granted);

#endif
