/* What copy.c and copy_shaped.c share. */
#ifndef SIM_COPY_H
#define SIM_COPY_H

#include "driver/driver.h"

#define ADDRESS(pointer) ((uint64_t)(uintptr_t)(pointer))

/* What an address must be: ANY is found out from the address. */
enum sim_copy_side { SIM_COPY_HOST, SIM_COPY_DEVICE, SIM_COPY_ANY };

bool sim_copy_is_known_device(uint64_t address, uint64_t bytes);
uint32_t sim_copy_direction(bool from_device, bool to_device);
CUresult sim_copy_submit(CUstream handle, bool per_thread, const struct sim_copy *copy, bool wait);
CUresult sim_copy_linear(uint64_t to, int to_kind, uint64_t from, int from_kind, size_t bytes, CUstream stream, bool per_thread, bool wait);

#endif
