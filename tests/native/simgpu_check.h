/* The conformance programs' own little test kit.
 *
 * IS(expected, function, arguments…) calls a driver function, asserts its result and notes its name. At the end done()
 * writes the names to the file in $COVERED; the test that runs all programs compares them with what the driver exports.
 * PTSZ and PTDS do so for a function and its per-thread twin. */
#ifndef SIMGPU_CHECK_H
#define SIMGPU_CHECK_H

#define _GNU_SOURCE
#include "cuda_api.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *covered[2048];
static unsigned covered_count, failures;

static inline void note(const char *name)
{
    for (unsigned i = 0; i < covered_count; i++)
        if (strcmp(covered[i], name) == 0)
            return;
    if (covered_count < sizeof covered / sizeof *covered)
        covered[covered_count++] = name;
}

static inline void check_result(const char *name, int line, CUresult expected, CUresult result)
{
    const char *wanted = "?", *got = "?";
    note(name);
    if (expected == result)
        return;
    cuGetErrorName(expected, &wanted);
    cuGetErrorName(result, &got);
    fprintf(stderr, "line %d: %s gave %s (%d), not %s\n", line, name, got, (int)result, wanted);
    failures++;
}

static inline void check_true(bool condition, int line, const char *text)
{
    if (condition)
        return;
    fprintf(stderr, "line %d: not true: %s\n", line, text);
    failures++;
}

#define IS(expected, function, ...) check_result(#function, __LINE__, expected, function(__VA_ARGS__))
#define OK(function, ...) IS(CUDA_SUCCESS, function, ##__VA_ARGS__)
#define PTSZ(expected, function, ...) (IS(expected, function, __VA_ARGS__), IS(expected, function##_ptsz, __VA_ARGS__))
#define PTDS(expected, function, ...) (IS(expected, function, __VA_ARGS__), IS(expected, function##_ptds, __VA_ARGS__))
#define TRUE_(condition) check_true(condition, __LINE__, #condition)
#define BAD_VALUE CUDA_ERROR_INVALID_VALUE
#define BAD_HANDLE CUDA_ERROR_INVALID_HANDLE

/* A context on device 0, current. */
static inline CUcontext start(void)
{
    CUcontext context = NULL;
    OK(cuInit, 0);
    OK(cuDevicePrimaryCtxRetain, &context, 0);
    OK(cuCtxSetCurrent, context);
    return context;
}

static inline CUfunction kernel(const char *name)
{
    static CUmodule module;
    CUfunction function = NULL;
    if (module == NULL)
        OK(cuModuleLoadData, &module, "an image of no known form");
    OK(cuModuleGetFunction, &function, module, name);
    return function;
}

/* A kernel that runs for so many simulated microseconds. */
static inline CUresult spin(CUstream stream, unsigned long long microseconds)
{
    static CUfunction function;
    void *params[] = {&microseconds, NULL};
    if (function == NULL)
        function = kernel("sim_spin_us");
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

/* Holds a stream up until let_go(): what is submitted behind it is certain not to have run. */
static unsigned long long held __attribute__((aligned(8)));
static unsigned long long holds;

static inline void hold(CUstream stream)
{
    OK(cuStreamWaitValue64, stream, (CUdeviceptr)(uintptr_t)&held, ++holds, CU_STREAM_WAIT_VALUE_GEQ);
}

static inline void let_go(void) { __atomic_store_n(&held, holds, __ATOMIC_RELEASE); }

static inline double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline int done(void)
{
    const char *path = getenv("COVERED");
    FILE *file = path != NULL ? fopen(path, "a") : NULL;
    for (unsigned i = 0; file != NULL && i < covered_count; i++)
        fprintf(file, "%s\n", covered[i]);
    if (file != NULL)
        fclose(file);
    if (failures > 0)
        fprintf(stderr, "%u checks failed\n", failures);
    return failures > 0;
}

#endif
