/* The memory that the arguments of a call name: ranges of copies and memsets, pointers among the parameters of kernels. */
#ifndef NVS_ARGUMENTS_H
#define NVS_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "lookup/symbols.h"

/* Callbacks that get the pointers and ranges. An address may be any number that a parameter has. */
struct nvs_named {
    void (*pointer)(void *self, uint64_t address);
    void (*range)(void *self, uint64_t address, uint64_t bytes);
    void *self;
};

/* Of a kernel, whose parameters are in `params` or in a buffer that `extra` names. Costs calls to the driver. False if the driver does
 * not describe the parameters. */
bool nvs_arguments_kernel(CUfunction function, void **params, void **extra, const struct nvs_named *named);
/* Both sides of copies. */
void nvs_arguments_copy_2d(const CUDA_MEMCPY2D *copy, const struct nvs_named *named);
void nvs_arguments_copy_3d(const CUDA_MEMCPY3D *copy, const struct nvs_named *named);

#endif
