/* Whether the library is at work in this process: set-up, fork, exit. */
#ifndef NVS_PROCESS_H
#define NVS_PROCESS_H

#include <stdbool.h>

/* True if the driver is initialised and the library is at work; sets everything up in the first call that finds the driver
 * initialised. */
bool nvs_process_ready(void);
/* True if that has happened already. */
bool nvs_process_is_set_up(void);
/* In a forked child: resets everything to the state before set-up. */
void nvs_process_forked(void);

#endif
