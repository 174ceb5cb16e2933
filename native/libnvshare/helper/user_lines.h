/* Lines on stderr: what the user is told about the conversation with the scheduler. */
#ifndef NVS_USER_LINES_H
#define NVS_USER_LINES_H

#include <stdint.h>

/* The lines that enum nvs_client_do asks for. `error`: of the last attempt to connect. */
void nvs_user_lines_print(uint32_t todo, int error);
/* A received message: printed if NVSHARE_DEBUG is set, a LONG_WAIT always. */
void nvs_user_lines_of_frame(const uint8_t *frame);
/* From the thread that allocates first while the scheduler is away: why it waits, and that no scheduler came. */
void nvs_user_lines_of_wait_for_limit(void);
void nvs_user_lines_of_no_limit(void);

#endif
