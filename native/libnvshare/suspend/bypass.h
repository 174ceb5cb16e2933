/* Driver functions that the program may call without passing a stub. Then it is not known which threads are in the driver, and the
 * process must not be suspended (suspend/passage.h). */
#ifndef NVS_BYPASS_H
#define NVS_BYPASS_H

/* Notes that there is one. `what` describes it, in words that follow "this process uses"; the text must stay valid. For any thread. */
void nvs_bypass_known(const char *what);
/* The same words if there is one, otherwise NULL. Checks whether an object that was loaded since the last call is linked with a driver
 * function that we do not export. Takes milliseconds. For one thread at a time. */
const char *nvs_bypass_find(void);

#endif
