/* Stubs in front of the driver's functions, for memory mode checkpoint: each enters the passage (suspend/passage.h), calls the function and
 * leaves again. They know nothing of the arguments, so they serve functions that the library does not know, too. */
#ifndef NVS_STUBS_H
#define NVS_STUBS_H

#include <stdbool.h>
#include <stdint.h>

/* What the program is given for `function`, which it has looked up by `name`: a stub in memory mode checkpoint, else the function. */
void *nvs_stub_for(const char *name, void *function);
/* True if this function has no stub: it never needs a turn, or it must reach the driver in any state of the process. */
bool nvs_stub_is_needless(const char *name);
void nvs_stubs_forked(void);
/* The function behind a stub. */
void *nvs_stub_function(unsigned stub);
/* True if it only asks for a property of a device: a program that looks at the machine needs no turn. */
bool nvs_stub_only_asks(unsigned stub);

/* True if a process that calls it cannot be suspended: its memory is managed, or shared with other processes. */
bool nvs_stub_is_unfit(unsigned stub);
/* True if a call that succeeded with these first two arguments shows that the process has a managed variable. */
bool nvs_stub_shows_unfit(unsigned stub, uintptr_t first, uintptr_t second);

#endif
