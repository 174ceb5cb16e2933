/* How any thread gets the helper's attention while it polls. */
#ifndef NVS_WAKE_H
#define NVS_WAKE_H

/* A pair of sockets, not an eventfd: a socket has an inode of its own, so that one that the program has closed is
 * recognised. */
void nvs_wake_open(void);
int nvs_wake_fd(void);
/* All calls so far have been heard; opens a new pair if the program closed ours. */
void nvs_wake_clear(void);
void nvs_wake_forked(void);

#endif
