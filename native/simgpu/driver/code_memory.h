/* What modules and graphs take of the card. */
#ifndef SIM_CODE_MEMORY_H
#define SIM_CODE_MEMORY_H

#include <stdint.h>

#include "cuda_api.h"

struct sim_code_charge { CUcontext context; uint64_t context_id, bytes; };

/* Once for each charge; later calls do nothing. */
CUresult sim_code_charge(struct sim_code_charge *charge, CUcontext context, uint64_t bytes);
void sim_code_uncharge(struct sim_code_charge *charge);
void sim_code_context_gone(CUcontext context);

#endif
