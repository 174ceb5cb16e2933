/* The conversation with the scheduler, as the rest of the library sees it. */
#ifndef NVS_SESSION_H
#define NVS_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"

/* Starts the helper thread. 0 or an errno. */
int nvs_session_start(void);
/* The program exits: from here on the helper does not call the driver. Waits a little for a call in progress. */
void nvs_session_leave_driver(void);
void nvs_session_forked(void);

/* True while the scheduler is there and knows us. */
bool nvs_session_is_registered(void);
/* True while work should be kept short because others may want the GPU. */
bool nvs_session_paces(void);

#endif
