/* What a launch costs on a driver: CPU time of the calling thread and of the whole process, per launch.
 *
 *   launch_sim [launches] [threads]
 *
 * Run with LD_LIBRARY_PATH at the simulated driver or the null driver. Launches are submitted in bursts and drained in
 * between without being counted, as a program that keeps the card busy does. Prints one JSON object. */
#define _GNU_SOURCE
#include "cuda_api.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BURST 1000 /* nearly what a stream holds */

static CUcontext context;
static CUfunction function;
static long launches = 1000000;

static double clock_s(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void check(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "%s: error %d\n", what, (int)result);
        exit(1);
    }
}

static void *submit(void *out)
{
    CUstream stream;
    double cpu = 0;
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    for (long done = 0; done < launches; done += BURST) {
        double before = clock_s(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < BURST; i++)
            check(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL), "cuLaunchKernel");
        cpu += clock_s(CLOCK_THREAD_CPUTIME_ID) - before;
        check(cuStreamSynchronize(stream), "cuStreamSynchronize");
    }
    *(double *)out = cpu;
    return NULL;
}

int main(int argc, char **argv)
{
    CUmodule module;
    pthread_t threads[64];
    double cpu[64], sum = 0;
    launches = argc > 1 ? atol(argv[1]) : launches;
    int count = argc > 2 ? atoi(argv[2]) : 1;
    check(cuInit(0), "cuInit");
    check(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    check(cuModuleLoadData(&module, "any image will do"), "cuModuleLoadData");
    check(cuModuleGetFunction(&function, module, "kernel"), "cuModuleGetFunction");
    double process = clock_s(CLOCK_PROCESS_CPUTIME_ID), wall = clock_s(CLOCK_MONOTONIC);
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, submit, &cpu[i]);
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        sum += cpu[i];
    }
    double total = (double)((launches + BURST - 1) / BURST * BURST) * count;
    printf("{\"launches\": %.0f, \"threads\": %d, \"caller_cpu_ns\": %.1f, \"process_cpu_ns\": %.1f, \"wall_ns\": %.1f}\n", total, count,
           sum / total * 1e9, (clock_s(CLOCK_PROCESS_CPUTIME_ID) - process) / total * 1e9, (clock_s(CLOCK_MONOTONIC) - wall) / total * 1e9);
    return 0;
}
