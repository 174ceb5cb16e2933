/* Kernels on several GPUs that wait for each other, as collectives do:
 *
 *   lib_collective BYTES AHEAD FLAGS RANKS FIRST COUNT
 *
 * RANKS threads take part, each on the GPU of its number; this process has COUNT of them, from FIRST on. In each round each raises its
 * flag on its GPU and then waits, in a kernel, for that of the next. A thread waits for its GPU every AHEAD rounds. The flags are in the
 * file FLAGS. The process with rank 0 ends all when its standard input ends or says anything. Prints how many rounds there were, and the
 * longest time that the first rank here was without one. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "lib_check.h"
#include "lib_driver.h"

enum { MOST_RANKS = 16 };

/* What all processes share. */
static struct shared {
    uint64_t flags[MOST_RANKS][8];
    _Atomic long started, last; /* how many ranks are there; the last round of all, once it is known */
} *shared;
static int ranks, first, count;
static long ahead, rounds, longest_ms;
static size_t bytes;

static double now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec * 1e-6;
}

static void one_round(int me, long round, CUfunction wait, CUstream stream)
{
    uint64_t *next = shared->flags[(me + 1) % ranks], value = (uint64_t)round;
    void *params[] = {&next, &value};
    EQUAL(cu.MemsetD32Async((CUdeviceptr)(uintptr_t)shared->flags[me], (unsigned)round, 1, stream), 0);
    EQUAL(cu.LaunchKernel(wait, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL), 0);
    if (round % ahead == 0)
        EQUAL(cu.StreamSynchronize(stream), 0);
}

static bool is_told_to_end(void) { return poll(&(struct pollfd){.fd = STDIN_FILENO, .events = POLLIN}, 1, 0) > 0; }

/* Rank 0 says which round is the last: one that nobody can have begun. */
static void take_part(int me, CUfunction wait, CUstream stream)
{
    double last_ms = now_ms();
    for (long round = 1; round <= shared->last; round++) {
        one_round(me, round, wait, stream);
        double now = now_ms();
        if (me == 0 && shared->last == LONG_MAX && is_told_to_end())
            shared->last = round + 2 * ranks * (ahead + 1);
        if (me != first)
            continue;
        rounds = round;
        longest_ms = now - last_ms > (double)longest_ms ? (long)(now - last_ms) : longest_ms;
        last_ms = now;
    }
    EQUAL(cu.StreamSynchronize(stream), 0);
}

static void *rank(void *number)
{
    int me = (int)(uintptr_t)number;
    CUcontext context;
    CUmodule module;
    CUfunction wait;
    CUstream stream;
    CUdeviceptr ballast;
    EQUAL(cu.CtxCreate(&context, 0, me), 0);
    EQUAL(cu.ModuleLoadData(&module, ""), 0);
    EQUAL(cu.ModuleGetFunction(&wait, module, "sim_wait_flag"), 0);
    EQUAL(cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0);
    EQUAL(cu.MemAlloc(&ballast, bytes), 0);
    shared->started++;
    while (shared->started < ranks)
        usleep(1000);
    take_part(me, wait, stream);
    return NULL;
}

static void map_flags(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && ftruncate(fd, sizeof *shared) == 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(shared != MAP_FAILED);
    EQUAL(cu.MemHostRegister(shared, sizeof *shared, 0), 0);
    long unset = 0;
    atomic_compare_exchange_strong(&shared->last, &unset, LONG_MAX);
}

int main(int argc, char **argv)
{
    pthread_t threads[MOST_RANKS];
    CUcontext primary;
    if (argc < 7 || lib_driver_find("procaddress") != 0)
        return 2;
    bytes = strtoull(argv[1], NULL, 10);
    ahead = atol(argv[2]);
    ranks = atoi(argv[4]), first = atoi(argv[5]), count = atoi(argv[6]);
    CHECK(ranks <= MOST_RANKS);
    EQUAL(cu.Init(0), 0);
    EQUAL(cu.CtxCreate(&primary, 0, first), 0);
    map_flags(argv[3]);
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, rank, (void *)(uintptr_t)(first + i));
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("%ld %ld\n", rounds, longest_ms);
    return 0;
}
