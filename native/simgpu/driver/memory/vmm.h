/* Physical memory handles and their mappings; shared by physical.c, vmm.c, ipc.c and pointer.c. */
#ifndef SIM_VMM_H
#define SIM_VMM_H

#include "driver/driver.h"

struct sim_physical {
    uint32_t kind;                   /* SIM_PHYSICAL */
    _Atomic uint32_t references;     /* handles and mappings: the memory lives until the last of both is gone */
    _Atomic uint32_t handles;
    uint64_t id, size;
    CUmemAllocationProp properties;
    unsigned card;
    bool host, imported, ipc;
    int fd;                          /* memory file; the process' common one unless it can be exported */
    bool own_file;
    uint64_t offset;
};

struct sim_mapping { struct sim_physical *physical; uint64_t offset; int access; };

/* The physical memory of a handle that the program holds. */
CUresult sim_physical_of(CUmemGenericAllocationHandle handle, struct sim_physical **physical);
/* One reference less; with the last one the memory goes. */
void sim_physical_drop(struct sim_physical *physical);

#endif
