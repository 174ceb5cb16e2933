/* What both demo programs need of the CUDA driver: a device, a context, a kernel that reads and writes all of a buffer. */
#ifndef DEMO_DRIVER_H
#define DEMO_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_api.h"

/* Ends the program with one line if the result is a failure: exit 3 for want of memory, else 1. */
#define DEMO_MUST(call) demo_must(call, #call)
void demo_must(CUresult result, const char *what);
const char *demo_error(CUresult result);

/* Makes the context of a device current and loads the kernel. */
void demo_begin(int device);

/* Starts `rounds` passes over a buffer. */
CUresult demo_pass(CUdeviceptr data, uint64_t bytes, uint32_t rounds);

/* Monotonic, in seconds. */
double demo_now(void);

/* A number with an optional Ki, Mi or Gi; ends the program if it is none. */
uint64_t demo_bytes(const char *text);

#endif
