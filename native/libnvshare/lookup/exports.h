/* The driver functions that this library exports, for programs that are linked with the driver. */
#ifndef NVS_EXPORTS_H
#define NVS_EXPORTS_H

#include <stdbool.h>

/* True if this function is our export, not the driver's function. */
bool nvs_export_is(const void *function);
/* True if there is an export of this name. */
bool nvs_export_has(const char *name);

#endif
