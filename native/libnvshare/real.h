/* The real functions behind what we replace. */
#ifndef NVS_REAL_H
#define NVS_REAL_H

#include <stdbool.h>

#include "symbols.h"

/* The C library's own (or the next preloaded library's) dlsym and dlvsym; NULL if it has none. */
void *(*nvs_real_dlsym(void))(void *, const char *);
void *(*nvs_real_dlvsym(void))(void *, const char *, const char *);

/* Looks `symbol` up in a library without loading it a second time; NULL if it is not to be had. */
void *nvs_real_nvml(const char *symbol);

/* True if the driver is loaded in this process already. Does not load it. */
bool nvs_driver_present(void);

#endif
