/* Functions of the driver that the program may call without a stub in front, so that nobody knows who is in the driver. Such a process
 * must not be suspended (suspend/passage.h). */
#ifndef NVS_BYPASS_H
#define NVS_BYPASS_H

/* One is known: what it is, in words that follow "this process uses". The text must last. For any thread. */
void nvs_bypass_known(const char *what);
/* The same words if there is one; else NULL. Looks at the objects that were loaded since the last time: whether one is linked with a
 * function of the driver that we do not export. Takes milliseconds. For one thread at a time. */
const char *nvs_bypass_find(void);

#endif
