/* The real functions behind those that we replace. */
#ifndef NVS_REAL_H
#define NVS_REAL_H

#include <stdbool.h>

#include "lookup/symbols.h"

/* 0 once the driver is loaded and its functions are in nvs_real; -1 if there is no driver. Safe from any thread at any time. */
int nvs_real_load(void);
/* True if the driver has this function (a pointer in nvs_real). */
int nvs_real_has(const void *const *slot);

/* The C library's own (or the next preloaded library's) dlsym and dlvsym; NULL if it has none. */
void *(*nvs_real_dlsym(void))(void *, const char *);
void *(*nvs_real_dlvsym(void))(void *, const char *, const char *);

/* Looks `symbol` up in a library without loading it a second time; NULL if there is none. */
void *nvs_real_nvml(const char *symbol);

/* True if the program has looked up a function of NVIDIA's video encoder, or was linked with it. */
bool nvs_real_encoder_is_used(void);
void nvs_real_encoder_found(void);
/* Looks whether the program was linked with the encoder. */
void nvs_real_look_for_encoder(void);

/* True if kernels of this process may wait for those of other processes: it has looked up a function of NCCL, or was linked with NCCL
 * and started as one of several. NVSHARE_GANG decides if it is set. */
bool nvs_real_collectives_are_used(void);
void nvs_real_collectives_found(void);
void nvs_real_look_for_collectives(void);

/* True if the driver's library has this function under this name. Used in memory mode checkpoint only. */
bool nvs_real_is_driver(const char *name, const void *function);

/* True if the driver is already loaded in this process and has this function. Does not load the driver. */
bool nvs_real_driver_has(const char *name);
/* The function of this name behind our export: what a program that is linked with the driver would call without us. NULL if there is
 * none. */
void *nvs_real_next(const char *name);

#endif
