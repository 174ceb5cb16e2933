/* Modules; shared by module.c and library.c. */
#ifndef SIM_MODULE_H
#define SIM_MODULE_H

#include "driver/driver.h"

#define SIM_MODULE_NAMES 4096
#define SIM_GLOBAL_BYTES 65536

struct sim_global { struct sim_global *next; char *name; struct sim_allocation *memory; };

struct CUmod_st {
    uint32_t kind;
    CUcontext context;
    CUlibrary library;
    struct sim_code_charge charge;
    pthread_mutex_t lock;
    CUfunction functions;
    struct sim_global *globals;
    bool names_known;
    unsigned name_count;
    char *names[SIM_MODULE_NAMES];
};

CUresult sim_module_load(const void *image, CUcontext context, CUmodule *module);
CUresult sim_module_load_file(const char *path, CUcontext context, CUmodule *module);
void sim_module_unload(CUmodule module);
CUresult sim_module_function(CUmodule module, const char *name, CUfunction *function);
CUresult sim_module_global(CUmodule module, CUcontext context, const char *name, uint32_t memory, CUdeviceptr *pointer, size_t *bytes);

#endif
