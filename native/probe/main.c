/*   probe NAME [ARGUMENT ...]   */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "probe.h"

static const struct { const char *name; void (*ask)(void); } features[] = {
    {"identity", probe_identity}, {"graphs", probe_graphs}, {"pools", probe_pools}, {"virtual-memory", probe_virtual_memory},
    {"pointers", probe_pointers}, {"small-memory", probe_small_memory}, {"nvml", probe_nvml},
};

static int asked(const char *name, int argc, char **argv)
{
    const char *first = argc > 0 ? argv[0] : "0";
    if (strcmp(name, "moves") == 0)
        probe_moves(demo_bytes(first));
    else if (strcmp(name, "launches") == 0)
        probe_launches((unsigned)demo_bytes(first));
    else if (strcmp(name, "allocations") == 0)
        probe_allocations((unsigned)demo_bytes(first));
    else if (strcmp(name, "fill") == 0)
        probe_fill(atof(first));
    else if (strcmp(name, "work") == 0 && argc > 1)
        probe_work(demo_bytes(first), atof(argv[1]));
    else
        return 2;
    return 0;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    prctl(PR_SET_PDEATHSIG, 9); /* nobody reads what it prints without its parent */
    if (strcmp(name, "fork") == 0) { /* forks before it uses CUDA */
        probe_fork();
        return 0;
    }
    probe_begin();
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (strcmp(name, features[i].name) == 0) {
            features[i].ask();
            return 0;
        }
    return asked(name, argc - 2, argv + 2);
}
