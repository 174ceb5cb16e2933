/* What the probes share. A probe is one question about a GPU, asked by an ordinary CUDA program: it prints `NAME VALUE` a
 * line, or `failed CALL: ERROR` and ends with 1. `nvshare doctor --gpu` runs each in a process of its own. */
#ifndef PROBE_H
#define PROBE_H

#include "driver.h"

#define PROBE_MUST(call) probe_must(call, #call)
void probe_must(CUresult result, const char *what);
void probe_fail(const char *what);

/* Makes the context of the first device current, loads the kernels, and prints whether the GPU is simulated. */
void probe_begin(void);

/* Starts a kernel that reads and writes these bytes; one that does nothing. */
void probe_touch(CUdeviceptr data, uint64_t bytes);
CUresult probe_nothing(CUstream stream);

/* GPU time between two points of the default stream, in seconds. On a simulated GPU these are simulated seconds. */
void probe_start(void);
double probe_stop(void);

void probe_identity(void);
void probe_moves(uint64_t bytes);
void probe_launches(unsigned count);
void probe_allocations(unsigned count);
void probe_work(uint64_t bytes, double seconds);
void probe_fill(double seconds);

void probe_graphs(void);
void probe_pools(void);
void probe_virtual_memory(void);
void probe_fork(void);
void probe_pointers(void);
void probe_small_memory(void);
void probe_nvml(void);

#endif
