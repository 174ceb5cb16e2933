/* The start of a process: calls that wait until it is known whether there is a scheduler, and which limits it sets. */
#ifndef NVS_JOINING_H
#define NVS_JOINING_H

/* Waits, at most for the joining time, until the scheduler has answered our registration or is known to be away. */
void nvs_joining_wait_known(void);
/* Before memory is allocated: waits in addition, within the same time, for a scheduler that is away. It may set a limit. */
void nvs_joining_wait_done(void);

/* The helper's side. */
void nvs_joining_away(void);
void nvs_joining_done(void);
void nvs_joining_forked(void);

#endif
