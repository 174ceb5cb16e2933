/* System calls without a function in old C libraries: glibc has getrandom from 2.25 and memfd_create from 2.27 on. */
#ifndef SIM_SYSTEM_CALLS_H
#define SIM_SYSTEM_CALLS_H

#include <linux/memfd.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Fills `size` bytes; false if the kernel cannot. */
static inline bool sim_random(void *to, size_t size)
{
    return syscall(SYS_getrandom, to, size, 0) == (long)size;
}

/* A file in memory, or -1. It is closed on exec. */
static inline int sim_memory_file(const char *name)
{
    return (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC);
}

#endif
