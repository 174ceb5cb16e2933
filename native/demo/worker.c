/* A job as there are many: takes memory, then works on all of it again and again, with pauses in which it computes on
 * the host if asked. Says how far it is.
 *
 *   worker MEMORY BURSTS PASSES ROUNDS PAUSE_MS [managed]
 *
 * Each burst is PASSES kernels over all memory, ROUNDS rounds each; then the host is busy for PAUSE_MS. Output, a line
 * each: `ready SECONDS`, `progress DONE BURSTS`, at last `done SECONDS`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver.h"

#define PIECES 8

struct job {
    uint64_t memory;
    unsigned bursts, passes, rounds, pause_ms;
    bool managed;
    CUdeviceptr pieces[PIECES];
};

static void take_memory(struct job *job)
{
    uint64_t piece = job->memory / PIECES;
    for (int i = 0; i < PIECES; i++) {
        if (job->managed)
            DEMO_MUST(cuMemAllocManaged(&job->pieces[i], piece, CU_MEM_ATTACH_GLOBAL));
        else
            DEMO_MUST(cuMemAlloc_v2(&job->pieces[i], piece));
    }
}

/* One pass is one kernel for each piece: all memory is worked on, and nothing can be put off. */
static void burst(const struct job *job)
{
    uint64_t piece = job->memory / PIECES;
    for (unsigned pass = 0; pass < job->passes; pass++)
        for (int i = 0; i < PIECES; i++)
            DEMO_MUST(demo_pass(job->pieces[i], piece, job->rounds));
    DEMO_MUST(cuCtxSynchronize());
}

/* The host's part of the work does not use the GPU; that it sleeps here instead of computing changes nothing for the GPU. */
static void host_part(unsigned ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    while (ms != 0 && nanosleep(&left, &left) != 0)
        ;
}

int main(int argc, char **argv)
{
    if (argc < 6 || argc > 7 || (argc == 7 && strcmp(argv[6], "managed") != 0)) {
        fprintf(stderr, "usage: worker MEMORY BURSTS PASSES ROUNDS PAUSE_MS [managed]\n");
        return 2;
    }
    struct job job = {
        .memory = demo_bytes(argv[1]), .bursts = (unsigned)demo_bytes(argv[2]), .passes = (unsigned)demo_bytes(argv[3]),
        .rounds = (unsigned)demo_bytes(argv[4]), .pause_ms = (unsigned)demo_bytes(argv[5]), .managed = argc == 7,
    };
    double began = demo_now();
    setvbuf(stdout, NULL, _IOLBF, 0);
    demo_begin(0);
    take_memory(&job);
    printf("ready %.3f\n", demo_now() - began);
    for (unsigned done = 0; done < job.bursts; done++) {
        burst(&job);
        printf("progress %u %u\n", done + 1, job.bursts);
        host_part(job.pause_ms);
    }
    printf("done %.3f\n", demo_now() - began);
    return 0;
}
