/* How any thread wakes the helper while it polls. */
#ifndef NVS_WAKE_H
#define NVS_WAKE_H

#include <stdbool.h>

/* Makes the helper run a step soon. From any thread. */
void nvs_wake_helper(void);

/* A pair of sockets, not an eventfd: a socket has an inode of its own, so that one that the program has closed is
 * recognised. */
void nvs_wake_open(void);
int nvs_wake_fd(void);
/* True if the program closed one of the pair since the step began: the helper cannot be woken, so it must not sleep. */
bool nvs_wake_is_broken(void);
/* The helper begins a step: it will see everything that threads changed before they woke it. Opens a new pair if the program
 * closed one of ours. */
void nvs_wake_clear(void);
void nvs_wake_forked(void);

#endif
