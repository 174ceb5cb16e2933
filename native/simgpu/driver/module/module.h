/* Modules; shared by module.c and library.c. */
#ifndef SIM_MODULE_H
#define SIM_MODULE_H

#include "driver/driver.h"

#define SIM_MODULE_NAMES 4096
#define SIM_GLOBAL_BYTES 65536
#define SIM_KERNEL_PARAMS 64

struct sim_global { struct sim_global *next; char *name; struct sim_allocation *memory; };

struct sim_param { uint32_t offset, bytes; };

/* A kernel that the image names. */
struct sim_entry {
    char *name;
    bool params_known;
    unsigned param_count;
    struct sim_param params[SIM_KERNEL_PARAMS];
};

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
    struct sim_entry *entries[SIM_MODULE_NAMES];
};

CUresult sim_module_load(const void *image, CUcontext context, CUmodule *module);
CUresult sim_module_load_file(const char *path, CUcontext context, CUmodule *module);
/* Adds a kernel of the image; NULL if there is no room for it. */
struct sim_entry *sim_module_add(CUmodule module, const char *name, size_t length);
void sim_ptx_read(CUmodule module, const char *text);
void sim_module_unload(CUmodule module);
CUresult sim_module_function(CUmodule module, const char *name, CUfunction *function);
CUresult sim_module_global(CUmodule module, CUcontext context, const char *name, uint32_t memory, CUdeviceptr *pointer, size_t *bytes);

#endif
