/* NVML reports the same memory figures as CUDA. */
#ifndef NVS_HOOKS_NVML_H
#define NVS_HOOKS_NVML_H

/* Our function for an NVML name whose real one is `found`, or `found`. */
void *nvs_nvml_route(const char *name, void *found);

#endif
