#include "trace.h"

#include <stdio.h>
#include <stdlib.h>

#include "explore.h"

enum { TRACE = 4096 };

static struct { int thread; const char *what, *name; uint64_t value; } trace[TRACE];
static int traced;

void trace_reset(void) { traced = 0; }

void trace_note(int thread, const char *what, const char *name, uint64_t value)
{
    if (traced < TRACE)
        trace[traced++] = (__typeof__(trace[0])){thread, what, name, value};
}

void explore_require(bool holds, const char *what)
{
    if (holds)
        return;
    for (int i = 0; i < traced; i++)
        printf("%3d  thread %d  %-8s %s = %llu\n", i, trace[i].thread, trace[i].what, trace[i].name, (unsigned long long)trace[i].value);
    printf("violated: %s\n", what);
    exit(1);
}
