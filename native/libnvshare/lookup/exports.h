/* The functions of the driver that this library exports, for programs that are linked with it. */
#ifndef NVS_EXPORTS_H
#define NVS_EXPORTS_H

#include <stdbool.h>

/* True if it is an export of ours, and not the driver's. */
bool nvs_export_is(const void *function);
/* True if there is one of this name. */
bool nvs_export_has(const char *name);

#endif
