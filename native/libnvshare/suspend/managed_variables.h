/* Managed variables of modules. A process that has one cannot be suspended: the driver refuses managed memory in a checkpoint. */
#ifndef NVS_MANAGED_VARIABLES_H
#define NVS_MANAGED_VARIABLES_H

#include <stdbool.h>
#include <stdint.h>

/* Which calls of the driver may show one. */
enum nvs_variable_call { NVS_NO_VARIABLE_CALL, NVS_CODE_LOADED, NVS_VARIABLE_LOOKED_UP };
enum nvs_variable_call nvs_managed_variables_call(const char *name);
/* True if such a call, which has succeeded with these first two arguments, has loaded or returned a managed variable. */
bool nvs_managed_variables_shown(enum nvs_variable_call call, uintptr_t first, uintptr_t second);

#endif
