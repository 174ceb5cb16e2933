/* A CUDA program that does as it is told: one command per line on stdin, one answer per line on stdout ("RESULT
 * VALUE..."). What it calls, it finds as argv[1] says: "dlsym", "default" (dlsym in the global scope), "procaddress" or, if linked with the
 * driver, "linked". */
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib_driver.h"

static CUcontext contexts[16];
static CUfunction spin[16];
static CUstream streams[64];
static int stream_count, context_count, current;

static double now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec * 1e-6;
}

static CUresult launch_in(int context, uint64_t us, CUstream stream)
{
    void *params[] = {&us};
    return cu.LaunchKernel(spin[context], 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static CUresult launch(uint64_t us, CUstream stream) { return launch_in(current, us, stream); }

static CUresult ready(CUresult result, CUcontext made)
{
    CUmodule module;
    if (result == CUDA_SUCCESS)
        result = cu.CtxSetCurrent(made);
    if (result == CUDA_SUCCESS)
        result = cu.ModuleLoadData(&module, "");
    if (result == CUDA_SUCCESS)
        result = cu.ModuleGetFunction(&spin[context_count], module, "sim_spin_us");
    contexts[context_count] = made;
    current = context_count++;
    return result;
}

static void init(int device)
{
    CUcontext made = NULL;
    CUresult result = cu.Init(0);
    if (result == CUDA_SUCCESS)
        result = cu.CtxCreate(&made, 0, device);
    result = ready(result, made);
    printf("%d %d\n", result, current);
}

/* Makes so many and goes on in the last one. */
static void make_contexts(int count)
{
    CUcontext made = NULL;
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < count && result == CUDA_SUCCESS; i++)
        if ((result = cu.CtxCreate(&made, 0, 0)) == CUDA_SUCCESS)
            result = cu.CtxPopCurrent(&made);
    result = ready(result, made);
    printf("%d %d\n", result, current);
}

static void retain(int device)
{
    CUcontext made = NULL;
    CUresult result = cu.Init(0);
    if (result == CUDA_SUCCESS)
        result = cu.DevicePrimaryCtxRetain(&made, device);
    result = ready(result, made);
    printf("%d %d\n", result, current);
}

static void allocate(const char *how, size_t n, size_t m)
{
    CUdeviceptr d = 0;
    size_t pitch = 0;
    CUmemGenericAllocationHandle h = 0;
    CUarray array = NULL;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUDA_ARRAY_DESCRIPTOR desc = {.Width = n, .Height = m, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!strcmp(how, "alloc"))
        result = cu.MemAlloc(&d, n);
    else if (!strcmp(how, "managed"))
        result = cu.MemAllocManaged(&d, n, CU_MEM_ATTACH_GLOBAL);
    else if (!strcmp(how, "pitch"))
        result = cu.MemAllocPitch(&d, &pitch, n, m, 4);
    else if (!strcmp(how, "async"))
        result = cu.MemAllocAsync(&d, n, NULL);
    else if (!strcmp(how, "create"))
        result = cu.MemCreate(&h, n, &prop, 0), d = h;
    else if (!strcmp(how, "array"))
        result = cu.ArrayCreate(&array, &desc), d = (uintptr_t)array;
    printf("%d %llu %zu\n", result, d, pitch);
}

static void map(CUmemGenericAllocationHandle h, size_t n)
{
    CUdeviceptr d = 0;
    CUresult result = cu.MemAddressReserve(&d, n, 0, 0, 0);
    if (result == CUDA_SUCCESS)
        result = cu.MemMap(d, n, 0, h, 0);
    printf("%d %llu\n", result, d);
}

static CUstream stream_at(int i) { return i < 0 ? NULL : streams[i]; }

static void loop(uint64_t us, double ms, int batch, int stream)
{
    double end = now_ms() + ms, longest = 0, last = now_ms();
    long launches = 0;
    CUresult result = CUDA_SUCCESS;
    while (result == CUDA_SUCCESS && now_ms() < end) {
        for (int i = 0; i < batch && result == CUDA_SUCCESS; i++, launches++)
            result = launch(us, stream_at(stream));
        if (result == CUDA_SUCCESS)
            result = cu.StreamSynchronize(stream_at(stream));
        double now = now_ms();
        longest = now - last > longest ? now - last : longest;
        last = now;
    }
    printf("%d %ld %.1f\n", result, launches, longest);
}

/* Two contexts at once, a thread each: how long each was kept from making progress at most. */
struct side { int context; uint64_t us; double end, longest; long launches; CUresult result; };

static void *one_side(void *argument)
{
    struct side *side = argument;
    double last = now_ms();
    side->result = cu.CtxSetCurrent(contexts[side->context]);
    while (side->result == CUDA_SUCCESS && now_ms() < side->end) {
        side->result = launch_in(side->context, side->us, NULL);
        if (side->result == CUDA_SUCCESS)
            side->result = cu.StreamSynchronize(NULL);
        double now = now_ms();
        side->longest = now - last > side->longest ? now - last : side->longest;
        side->launches++;
        last = now;
    }
    return NULL;
}

static void both(uint64_t us, double ms)
{
    struct side sides[2] = {{.context = 0, .us = us, .end = now_ms() + ms}, {.context = 1, .us = us, .end = now_ms() + ms}};
    pthread_t ids[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&ids[i], NULL, one_side, &sides[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(ids[i], NULL);
    printf("%d %ld %.1f %ld %.1f\n", sides[0].result | sides[1].result, sides[0].launches, sides[0].longest, sides[1].launches,
           sides[1].longest);
}

/* One thread on two GPUs: a kernel on the first, then one on the second, as a pipeline does. */
static void alternate(uint64_t us, double ms)
{
    double end = now_ms() + ms;
    long rounds = 0;
    CUresult result = CUDA_SUCCESS;
    for (; result == CUDA_SUCCESS && now_ms() < end; rounds++)
        for (int i = 0; i < 2 && result == CUDA_SUCCESS; i++) {
            cu.CtxSetCurrent(contexts[i]);
            result = launch_in(i, us, NULL);
            if (result == CUDA_SUCCESS)
                result = cu.CtxSynchronize();
        }
    printf("%d %ld\n", result, rounds);
}

struct hammer { long times; size_t bytes; long good, refused, bad; };

static void *hammering(void *argument)
{
    struct hammer *h = argument;
    cu.CtxSetCurrent(contexts[0]);
    for (long i = 0; i < h->times; i++) {
        CUdeviceptr d;
        CUresult result = cu.MemAlloc(&d, h->bytes);
        if (result == CUDA_SUCCESS && cu.MemFree(d) == CUDA_SUCCESS)
            h->good++;
        else if (result == CUDA_ERROR_OUT_OF_MEMORY)
            h->refused++;
        else
            h->bad++;
    }
    return NULL;
}

static void hammer(int threads, long times, size_t bytes)
{
    pthread_t ids[64];
    struct hammer all[64] = {0}, sum = {0};
    for (int i = 0; i < threads; i++) {
        all[i] = (struct hammer){.times = times, .bytes = bytes};
        pthread_create(&ids[i], NULL, hammering, &all[i]);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        sum.good += all[i].good;
        sum.refused += all[i].refused;
        sum.bad += all[i].bad;
    }
    printf("0 %ld %ld %ld\n", sum.good, sum.refused, sum.bad);
}

/* Several threads set the same limit of the same context, each to two values in turn. */
struct setter { CUlimit limit; long times; size_t value; CUresult result; };

static void *setting(void *argument)
{
    struct setter *s = argument;
    cu.CtxSetCurrent(contexts[0]);
    for (long i = 0; i < s->times && s->result == CUDA_SUCCESS; i++)
        s->result = cu.CtxSetLimit(s->limit, s->value * (size_t)(1 + i % 2));
    return NULL;
}

static void set_limit_together(int threads, long times, CUlimit limit, size_t value)
{
    pthread_t ids[64];
    struct setter all[64];
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < threads; i++) {
        all[i] = (struct setter){.limit = limit, .times = times, .value = value * (size_t)(1 + i)};
        pthread_create(&ids[i], NULL, setting, &all[i]);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        result = result == CUDA_SUCCESS ? all[i].result : result;
    }
    printf("%d\n", result);
}

/* Takes pieces of `bytes` until refused, in several threads at once; says how many there were and keeps them. */
static _Atomic long filled;
static void *filling(void *bytes)
{
    CUdeviceptr d;
    cu.CtxSetCurrent(contexts[0]);
    while (cu.MemAlloc(&d, *(size_t *)bytes) == CUDA_SUCCESS)
        filled++;
    return NULL;
}

static void fill(int threads, size_t bytes)
{
    pthread_t ids[64];
    filled = 0;
    for (int i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, filling, &bytes);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    printf("0 %ld\n", filled);
}

static CUresult end_green(void);

/* An allocation, the load of the module in the file LIB_CLIENT_MODULE, or the end of a context, in a thread of its own. Its answer is a
 * line like any other, whenever it comes. */
struct aside { char how[64]; size_t bytes; };

static void *allocating_aside(void *argument)
{
    struct aside *aside = argument;
    cu.CtxSetCurrent(contexts[0]);
    CUmodule module;
    if (!strcmp(aside->how, "load"))
        printf("%d\n", cu.ModuleLoad(&module, getenv("LIB_CLIENT_MODULE")));
    else if (!strcmp(aside->how, "destroy"))
        printf("%d\n", cu.CtxDestroy(contexts[aside->bytes]));
    else if (!strcmp(aside->how, "releaseprimary"))
        printf("%d\n", cu.DevicePrimaryCtxRelease((CUdevice)aside->bytes));
    else if (!strcmp(aside->how, "greendestroy"))
        printf("%d\n", end_green());
    else
        allocate(aside->how, aside->bytes, 1);
    fflush(stdout);
    free(aside);
    return NULL;
}

static void allocate_aside(const char *how, size_t bytes)
{
    pthread_t id;
    struct aside *aside = calloc(1, sizeof *aside);
    strncpy(aside->how, how, sizeof aside->how - 1);
    aside->bytes = bytes;
    pthread_create(&id, NULL, allocating_aside, aside);
    pthread_detach(id);
}

static void copy(size_t n)
{
    CUdeviceptr d;
    char *host = malloc(n), *back = calloc(1, n);
    for (size_t i = 0; i < n; i++)
        host[i] = (char)(i * 7);
    CUresult result = cu.MemAlloc(&d, n);
    if (result == CUDA_SUCCESS)
        result = cu.MemcpyHtoD(d, host, n);
    if (result == CUDA_SUCCESS)
        result = cu.MemcpyDtoH(back, d, n);
    printf("%d %d\n", result, memcmp(host, back, n) == 0);
    cu.MemFree(d);
    free(host);
    free(back);
}

static void info(void)
{
    size_t free_bytes = 0, total = 0, device_total = 0;
    CUresult result = cu.MemGetInfo(&free_bytes, &total);
    cu.DeviceTotalMem(&device_total, 0);
    printf("%d %zu %zu %zu\n", result, free_bytes, total, device_total);
}

static void close_everything(void)
{
    for (int fd = 3; fd < 4096; fd++)
        close(fd);
    printf("0\n");
}

static long install_filter(struct sock_filter *filter, size_t length)
{
    struct sock_fprog program = {.len = (unsigned short)length, .filter = filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

/* No thread of this process can start another one from here on, as if there were too many. */
static long refuse_threads(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return install_filter(filter, sizeof filter / sizeof *filter);
}

/* As a sandbox may that the program enters after it has begun to use the GPU. */
static long refuse_membarrier(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return install_filter(filter, sizeof filter / sizeof *filter);
}

static bool first_thread_has_ended(void)
{
    char text[1024] = "";
    FILE *stat = fopen("/proc/self/stat", "r");
    if (stat == NULL || fgets(text, sizeof text, stat) == NULL)
        exit(4);
    fclose(stat);
    return strstr(text, ") Z ") != NULL;
}

static void *end_later(void *ms)
{
    while (!first_thread_has_ended())
        usleep(1000);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){0}); /* so the library cannot connect again */
    for (int fd = 3; fd < 4096; fd++)
        shutdown(fd, SHUT_RDWR);
    usleep((useconds_t)(uintptr_t)ms * 1000);
    _exit(0);
}

/* The process is ending, its sockets are closed, and what it has on the card is freed so much later: as if the kernel took
 * long to close the device. */
static void end_slowly(long ms)
{
    pthread_t id;
    if (pthread_create(&id, NULL, end_later, (void *)(uintptr_t)ms) != 0)
        exit(4);
    syscall(SYS_exit, 0); /* this thread only */
}

/* Puts a socket of the program over every number in the range; what is sent to them arrives at its other end. */
static int listening = -1;
static void cover(int from, int to)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        exit(4);
    listening = pair[0];
    for (int fd = from; fd < to; fd++)
        if (fd != pair[0] && fd != pair[1])
            dup2(pair[1], fd);
    printf("0\n");
}

static void overheard(void)
{
    char bytes[4096];
    ssize_t got = recv(listening, bytes, sizeof bytes, MSG_DONTWAIT);
    printf("0 %zd\n", got < 0 ? 0 : got);
}

static void spin_many(uint64_t us, long times, int stream)
{
    CUresult result = CUDA_SUCCESS;
    double began = now_ms();
    for (long i = 0; i < times && result == CUDA_SUCCESS; i++)
        result = launch(us, stream_at(stream));
    printf("%d %.3f\n", result, now_ms() - began);
}

/* On the calling thread's own default stream. */
static void spin_per_thread(uint64_t us)
{
    CUresult (*launch_ptsz)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **);
    void *params[] = {&us};
    *(void **)&launch_ptsz = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernel_ptsz");
    printf("%d\n", launch_ptsz(spin[current], 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

/* A graph that allocates: built by name or by capture, made executable. */
static CUgraphExec exec;

static CUresult built(size_t n, CUgraph *graph)
{
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.bytesize = n};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUresult result = cu.GraphCreate(graph, 0);
    return result == CUDA_SUCCESS ? cu.GraphAddMemAllocNode(&node, *graph, NULL, 0, &params) : result;
}

static CUresult captured(size_t n, CUgraph *graph)
{
    CUstream stream;
    CUdeviceptr d;
    CUresult result = cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (result == CUDA_SUCCESS)
        result = cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    if (result == CUDA_SUCCESS)
        result = cu.MemAllocAsync(&d, n, stream);
    if (result == CUDA_SUCCESS)
        result = cu.StreamEndCapture(stream, graph);
    return result == CUDA_SUCCESS ? cu.StreamDestroy(stream) : result;
}

static void graph_alloc(size_t n, CUresult (*make)(size_t, CUgraph *))
{
    CUgraph graph;
    CUresult result = make(n, &graph);
    if (result == CUDA_SUCCESS) {
        result = cu.GraphInstantiateWithFlags(&exec, graph, 0);
        cu.GraphDestroy(graph);
    }
    printf("%d\n", result);
}

/* A kernel that runs until the flag is set. */
static uint64_t flag;

static CUresult special(const char *kernel, CUstream stream, void **params)
{
    CUmodule module;
    CUfunction function;
    CUresult result = cu.ModuleLoadData(&module, "");
    if (result == CUDA_SUCCESS)
        result = cu.ModuleGetFunction(&function, module, kernel);
    return result == CUDA_SUCCESS ? cu.LaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL) : result;
}

/* A kernel that gets an address and touches so many bytes from there on. */
static CUresult touch(uint64_t address, uint64_t bytes)
{
    void *params[] = {&address, &bytes};
    return special("sim_touch", NULL, params);
}

static CUresult hold(CUstream stream)
{
    uint64_t *at = &flag, one = 1;
    void *params[] = {&at, &one};
    return special("sim_wait_flag", stream, params);
}

/* SIGUSR1 sets the flag too: a test can let a kernel end while the program waits at a gate and takes no command. */
static void on_signal(int number)
{
    (void)number;
    __atomic_store_n(&flag, 1, __ATOMIC_SEQ_CST);
}

static void set_flag(uint64_t value)
{
    __atomic_store_n(&flag, value, __ATOMIC_SEQ_CST);
    printf("0\n");
}

/* One kernel on the stream of each number, as one launch: they run until the flag is set. The streams' contexts are those of the same
 * numbers. */
static CUresult hold_together(int count)
{
    uint64_t *at = &flag, one = 1;
    void *params[] = {&at, &one};
    CUDA_LAUNCH_PARAMS list[16];
    CUresult (*launch_all)(CUDA_LAUNCH_PARAMS *, unsigned, unsigned);
    *(void **)&launch_all = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchCooperativeKernelMultiDevice");
    for (int i = 0; i < count; i++) {
        CUmodule module;
        CUfunction function;
        cu.CtxSetCurrent(contexts[i]);
        CUresult result = cu.ModuleLoadData(&module, "");
        if (result == CUDA_SUCCESS)
            result = cu.ModuleGetFunction(&function, module, "sim_wait_flag");
        if (result != CUDA_SUCCESS)
            return result;
        list[i] = (CUDA_LAUNCH_PARAMS){function, 1, 1, 1, 1, 1, 1, 0, streams[i], params};
    }
    return launch_all(list, (unsigned)count, 0);
}

/* A host function that runs until the flag is set, as one that waits for a mutex. */
static void wait_on_host(void *nothing)
{
    (void)nothing;
    while (!__atomic_load_n(&flag, __ATOMIC_SEQ_CST))
        usleep(100);
}

/* Submits, and then sets the flag: as the owner of that mutex. */
static void spin_then_flag(uint64_t us, int stream)
{
    CUresult result = launch(us, stream_at(stream));
    __atomic_store_n(&flag, 1, __ATOMIC_SEQ_CST);
    printf("%d\n", result);
}

/* Streams that are destroyed while they have work: `count` of them wait for the flag, the last one computes for `us`. Then the flag
 * is set. */
static void churn(int count, uint64_t us)
{
    CUresult result = CUDA_SUCCESS;
    __atomic_store_n(&flag, 0, __ATOMIC_SEQ_CST);
    for (int i = 0; i <= count && result == CUDA_SUCCESS; i++) {
        CUstream stream;
        result = cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
        if (result == CUDA_SUCCESS)
            result = i < count ? hold(stream) : launch(us, stream);
        if (result == CUDA_SUCCESS)
            result = cu.StreamDestroy(stream);
    }
    __atomic_store_n(&flag, 1, __ATOMIC_SEQ_CST);
    printf("%d\n", result);
}

/* One stream after the other: made, used, finished and destroyed. */
static CUresult one_by_one(long count)
{
    CUresult result = CUDA_SUCCESS;
    for (long i = 0; i < count && result == CUDA_SUCCESS; i++) {
        CUstream stream;
        result = cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
        if (result == CUDA_SUCCESS)
            result = launch(1, stream);
        if (result == CUDA_SUCCESS)
            result = cu.StreamSynchronize(stream);
        if (result == CUDA_SUCCESS)
            result = cu.StreamDestroy(stream);
    }
    return result;
}

/* Makes pools at a location and allocates from each. */
static void make_pools(int count, size_t bytes, int location)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {location, 0}};
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < count && result == CUDA_SUCCESS; i++) {
        CUmemoryPool pool;
        CUdeviceptr d;
        result = cu.MemPoolCreate(&pool, &props);
        if (result == CUDA_SUCCESS)
            result = cu.MemAllocFromPoolAsync(&d, bytes, pool, NULL);
    }
    printf("%d\n", result);
}

/* Managed memory that the program does not get from cuMemAllocManaged: of a pool, or a variable of a module. */
static const char managed_ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                                  ".visible .global .attribute(.managed) .align 4 .u32 counter;\n.visible .entry count() { ret; }\n";

static CUresult allocated_from(CUresult result, const CUmemoryPool *pool)
{
    CUdeviceptr d;
    return result == CUDA_SUCCESS ? cu.MemAllocFromPoolAsync(&d, 1 << 20, *pool, NULL) : result;
}

static CUresult other_managed(const char *what)
{
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED, .location = location};
    CUmemoryPool pool = NULL;
    CUmodule module;
    CUlibrary library;
    CUdeviceptr d;
    size_t bytes;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!strcmp(what, "pool"))
        return allocated_from(cu.MemPoolCreate(&pool, &props), &pool);
    if (!strcmp(what, "default"))
        return allocated_from(cu.MemGetDefaultMemPool(&pool, &location, CU_MEM_ALLOCATION_TYPE_MANAGED), &pool);
    if (!strcmp(what, "current"))
        return allocated_from(cu.MemGetMemPool(&pool, &location, CU_MEM_ALLOCATION_TYPE_MANAGED), &pool);
    if (!strcmp(what, "module"))
        return cu.ModuleLoadData(&module, managed_ptx);
    if (!strcmp(what, "library") && (result = cu.LibraryLoadData(&library, "", NULL, NULL, 0, NULL, NULL, 0)) == CUDA_SUCCESS)
        result = cu.LibraryGetManaged(&d, &bytes, library, "counter");
    if (!strcmp(what, "variable") && (result = cu.ModuleLoad(&module, getenv("LIB_CLIENT_MODULE"))) == CUDA_SUCCESS)
        result = cu.ModuleGetGlobal(&d, &bytes, module, "counter");
    return result;
}

/* As a program that encodes video. */
static void use_encoder(void)
{
    void *encoder = dlopen("libnvidia-encode.so.1", RTLD_NOW);
    printf("%d\n", !encoder || !dlsym(encoder, "NvEncodeAPICreateInstance"));
}

static void get_limit(CUlimit limit)
{
    size_t value = 0;
    CUresult (*get)(size_t *, CUlimit);
    *(void **)&get = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuCtxGetLimit");
    CUresult result = get(&value, limit);
    printf("%d %zu\n", result, value);
}

static void ipc_handle(CUdeviceptr d)
{
    CUipcMemHandle handle;
    printf("%d\n", cu.IpcGetMemHandle(&handle, d));
}

static void forked(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        current = context_count = 0;
        init(0);
        fflush(stdout);
        CUdeviceptr d;
        _exit(cu.MemAlloc(&d, 1 << 20));
    }
    printf("0 %d\n", (int)child);
}

/* The child takes the parent's place: it serves, and the parent waits for it. */
static int serve(void);
static void forked_to_serve(void)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        current = context_count = 0;
        init(0);
        fflush(stdout);
        _exit(serve());
    }
    waitpid(child, &status, 0);
    printf("0 %d\n", status);
}

/* A function of the driver as a program finds it that the library does not see: by the C library's own dlsym. */
static void *unseen(const char *symbol)
{
    void *(*find)(void *, const char *);
    *(void **)&find = dlsym(dlopen("libc.so.6", RTLD_NOW), "dlsym");
    return find(dlopen("libcuda.so.1", RTLD_NOW), symbol);
}

/* A green context with a stream in it; no context is current after it. */
static CUgreenCtx green;

static void *plain(const char *symbol) { return dlsym(dlopen("libcuda.so.1", RTLD_NOW), symbol); }

static CUresult make_green(CUdevice device)
{
    CUresult (*create)(CUgreenCtx *, CUdevResourceDesc, CUdevice, unsigned);
    CUresult (*create_stream)(CUstream *, CUgreenCtx, unsigned, int);
    *(void **)&create = plain("cuGreenCtxCreate");
    *(void **)&create_stream = plain("cuGreenCtxStreamCreate");
    CUresult result = create(&green, NULL, device, 1);
    if (result == CUDA_SUCCESS)
        result = create_stream(&streams[stream_count++], green, CU_STREAM_NON_BLOCKING, 0);
    return result == CUDA_SUCCESS ? cu.CtxSetCurrent(NULL) : result;
}

static CUresult end_green(void)
{
    CUresult (*destroy)(CUgreenCtx);
    *(void **)&destroy = plain("cuGreenCtxDestroy");
    return destroy(green);
}

static CUresult use_green(void)
{
    CUcontext context;
    CUresult (*convert)(CUcontext *, CUgreenCtx);
    *(void **)&convert = plain("cuCtxFromGreenCtx");
    CUresult result = convert(&context, green);
    return result == CUDA_SUCCESS ? cu.CtxSetCurrent(context) : result;
}

static CUresult enable_peers(void)
{
    CUresult (*enable)(CUcontext, unsigned);
    *(void **)&enable = plain("cuCtxEnablePeerAccess");
    CUresult result = cu.CtxSetCurrent(contexts[0]);
    return result == CUDA_SUCCESS ? enable(contexts[1], 0) : result;
}

/* Where the memory should be: a GPU, -1 the host, -2 anywhere. */
static void preferred(CUdeviceptr d, size_t n)
{
    CUresult (*ask)(void *, size_t, int, CUdeviceptr, size_t);
    int place = 0;
    *(void **)&ask = plain("cuMemRangeGetAttribute");
    CUresult result = ask(&place, sizeof place, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, d, n);
    printf("%d %d\n", result, place);
}

/* The default pool of device 0: its release threshold or a flag of reuse is set, the flags, what it reserves and what is used of it are
 * told, or it is trimmed. */
static bool pool_command(const char *word, unsigned long long a, unsigned long long b)
{
    CUresult (*find)(CUmemoryPool *, CUdevice), (*set)(CUmemoryPool, int, void *), (*get)(CUmemoryPool, int, void *), (*trim)(CUmemoryPool, size_t);
    CUmemoryPool pool = NULL;
    uint64_t bytes[2] = {a, 0};
    *(void **)&find = plain("cuDeviceGetDefaultMemPool");
    *(void **)&set = plain("cuMemPoolSetAttribute");
    *(void **)&get = plain("cuMemPoolGetAttribute");
    *(void **)&trim = plain("cuMemPoolTrimTo");
    if (!strcmp(word, "threshold")) {
        find(&pool, 0);
        printf("%d\n", set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, bytes));
    } else if (!strcmp(word, "reuse")) {
        int is_on = (int)b;
        find(&pool, 0);
        printf("%d\n", set(pool, (int)a, &is_on));
    } else if (!strcmp(word, "reuses")) {
        int flags[4] = {0};
        find(&pool, 0);
        for (int i = 1; i < 4; i++)
            flags[0] |= get(pool, i, &flags[i]);
        printf("%d %d %d %d\n", flags[0], flags[1], flags[2], flags[3]);
    } else if (!strcmp(word, "poolinfo")) {
        find(&pool, 0);
        CUresult result = get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, bytes);
        get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, bytes + 1);
        printf("%d %llu %llu\n", result, (unsigned long long)bytes[0], (unsigned long long)bytes[1]);
    } else if (!strcmp(word, "trim")) {
        find(&pool, 0);
        printf("%d\n", trim(pool, 0));
    } else {
        return false;
    }
    return true;
}

static bool unseen_command(const char *word, unsigned long long a)
{
    CUcontext made = NULL;
    if (!strcmp(word, "unseenreset")) {
        CUresult (*reset)(CUdevice);
        *(void **)&reset = unseen("cuDevicePrimaryCtxReset_v2");
        printf("%d\n", reset((CUdevice)a));
    } else if (!strcmp(word, "unseenretain")) {
        CUresult (*keep)(CUcontext *, CUdevice);
        *(void **)&keep = unseen("cuDevicePrimaryCtxRetain");
        CUresult result = keep(&made, (CUdevice)a);
        result = ready(result, made);
        printf("%d %d\n", result, current);
    } else if (!strcmp(word, "unseeninit")) {
        CUresult (*create)(CUcontext *, unsigned, CUdevice);
        *(void **)&create = unseen("cuCtxCreate_v2");
        printf("%d ", ready(create(&made, 0, (CUdevice)a), made));
        printf("%d\n", current);
    } else if (!strcmp(word, "unseenspin")) {
        void *seen = *(void **)&cu.LaunchKernel;
        *(void **)&cu.LaunchKernel = unseen("cuLaunchKernel");
        printf("%d\n", launch(a, NULL));
        *(void **)&cu.LaunchKernel = seen;
    } else {
        return false;
    }
    return true;
}

/* From now on contexts are made and ended, and streams destroyed, by the functions from before CUDA 4.0, or contexts are ended by
 * cuCtxDetach. */
static bool names_command(const char *word)
{
    if (!strcmp(word, "oldnames")) {
        *(void **)&cu.CtxCreate = plain("cuCtxCreate");
        *(void **)&cu.CtxDestroy = plain("cuCtxDestroy");
        *(void **)&cu.StreamDestroy = plain("cuStreamDestroy");
    } else if (!strcmp(word, "detaches")) {
        *(void **)&cu.CtxDestroy = plain("cuCtxDetach");
    } else {
        return false;
    }
    printf("%d\n", !cu.CtxCreate || !cu.CtxDestroy || !cu.StreamDestroy);
    return true;
}

static CUresult push(CUcontext context)
{
    CUresult (*call)(CUcontext);
    *(void **)&call = plain("cuCtxPushCurrent_v2");
    return call(context);
}

static CUresult attach(void)
{
    CUcontext context;
    CUresult (*call)(CUcontext *, unsigned);
    *(void **)&call = plain("cuCtxAttach");
    return call(&context, 0);
}

static bool context_command(const char *word, unsigned long long a)
{
    if (names_command(word)) return true;
    if (!strcmp(word, "init")) init((int)a);
    else if (!strcmp(word, "contexts")) make_contexts((int)a);
    else if (!strcmp(word, "retain")) retain((int)a);
    else if (!strcmp(word, "releaseprimary")) printf("%d\n", cu.DevicePrimaryCtxRelease((CUdevice)a));
    else if (!strcmp(word, "use")) { current = (int)a; printf("%d\n", cu.CtxSetCurrent(contexts[a])); }
    else if (!strcmp(word, "peers")) printf("%d\n", enable_peers());
    else if (!strcmp(word, "green")) printf("%d\n", make_green((CUdevice)a));
    else if (!strcmp(word, "usegreen")) printf("%d\n", use_green());
    else if (!strcmp(word, "greendestroy")) printf("%d\n", end_green());
    else if (!strcmp(word, "attach")) printf("%d\n", attach());
    else if (!strcmp(word, "push")) printf("%d\n", push(contexts[a]));
    else if (!strcmp(word, "destroy")) printf("%d\n", cu.CtxDestroy(contexts[a]));
    else return false;
    return true;
}

static CUresult poke(CUdeviceptr d, unsigned value)
{
    CUresult result = cu.MemcpyHtoD(d, &value, sizeof value);
    return result == CUDA_SUCCESS ? cu.CtxSynchronize() : result;
}

static void peek(CUdeviceptr d)
{
    unsigned value = 0;
    CUresult result = cu.MemcpyDtoH(&value, d, sizeof value);
    printf("%d %u\n", result, value);
}

static bool range_command(const char *word, unsigned long long a, unsigned long long b)
{
    if (!strcmp(word, "poke")) { printf("%d\n", poke(a, (unsigned)b)); return true; }
    if (!strcmp(word, "peek")) { peek(a); return true; }
    if (!strncmp(word, "managed-", 8)) printf("%d\n", other_managed(word + 8));
    else if (!strcmp(word, "onebyone")) printf("%d\n", one_by_one((long)a));
    else if (!strcmp(word, "preferred")) preferred(a, b);
    else if (!strcmp(word, "setlimit")) printf("%d\n", cu.CtxSetLimit((CUlimit)a, b));
    else if (!strcmp(word, "getlimit")) get_limit((CUlimit)a);
    else if (!strcmp(word, "touch")) printf("%d\n", touch(a, b));
    else return false;
    return true;
}

static bool process_command(const char *word, unsigned long long a, unsigned long long b)
{
    if (!strcmp(word, "closeall")) close_everything();
    else if (!strcmp(word, "endslowly")) end_slowly((long)a);
    else if (!strcmp(word, "cover")) cover((int)a, (int)b);
    else if (!strcmp(word, "overheard")) overheard();
    else if (!strcmp(word, "refusethreads")) printf("%ld\n", refuse_threads());
    else if (!strcmp(word, "refusemembarrier")) printf("%ld\n", refuse_membarrier());
    else if (!strncmp(word, "fork", 4)) word[4] ? forked_to_serve() : forked(); /* forkserve */
    else return false;
    return true;
}

static void command(const char *word, unsigned long long a, unsigned long long b, unsigned long long c, long long d)
{
    if (context_command(word, a) || unseen_command(word, a) || pool_command(word, a, b) || range_command(word, a, b) || process_command(word, a, b)) return;
    if (!strcmp(word, "free")) printf("%d\n", cu.MemFree(a));
    else if (!strcmp(word, "freeasync")) printf("%d\n", cu.MemFreeAsync(a, NULL));
    else if (!strcmp(word, "release")) printf("%d\n", cu.MemRelease(a));
    else if (!strcmp(word, "map")) map(a, b);
    else if (!strcmp(word, "unmap")) printf("%d\n", cu.MemUnmap(a, b));
    else if (!strcmp(word, "arraydestroy")) printf("%d\n", cu.ArrayDestroy((CUarray)(uintptr_t)a));
    else if (!strcmp(word, "info")) info();
    else if (!strcmp(word, "stream")) { printf("%d ", cu.StreamCreate(&streams[stream_count], (unsigned)a)); printf("%d\n", stream_count++); }
    else if (!strcmp(word, "streamdestroy")) printf("%d\n", cu.StreamDestroy(streams[a]));
    else if (!strcmp(word, "spin")) spin_many(a, (long)b, (int)c - 1);
    else if (!strcmp(word, "loop")) loop(a, (double)b, c ? (int)c : 1, (int)d - 1);
    else if (!strcmp(word, "both") || !strcmp(word, "alternate")) (*word == 'b' ? both : alternate)(a, (double)b);
    else if (!strcmp(word, "sync")) printf("%d\n", cu.CtxSynchronize());
    else if (!strcmp(word, "copy")) copy(a);
    else if (!strcmp(word, "hammer")) hammer((int)a, (long)b, c);
    else if (!strcmp(word, "fill")) fill((int)a, b);
    else if (!strncmp(word, "aside-", 6)) allocate_aside(word + 6, a);
    else if (!strcmp(word, "holdtogether")) printf("%d\n", hold_together((int)a));
    else if (!strncmp(word, "hold", 4)) printf("%d\n", word[4] ? cu.LaunchHostFunc(stream_at((int)a - 1), wait_on_host, NULL) : hold(stream_at((int)a - 1))); /* holdhost */
    else if (!strcmp(word, "spinthenflag")) spin_then_flag(a, (int)b - 1);
    else if (!strcmp(word, "flag")) set_flag(a);
    else if (!strcmp(word, "churn")) churn((int)a, b);
    else if (!strcmp(word, "pools")) make_pools((int)a, b, (int)c);
    else if (!strcmp(word, "writevalue")) printf("%d\n", cu.StreamWriteValue32(NULL, a, 1, 0));
    else if (!strcmp(word, "setlimits")) set_limit_together((int)a, (long)b, (CUlimit)c, (size_t)d);
    else if (!strcmp(word, "ipchandle")) ipc_handle(a);
    else if (!strcmp(word, "encoder")) use_encoder();
    else if (!strcmp(word, "trap")) printf("%d\n", special("sim_trap", NULL, NULL));
    else if (!strcmp(word, "spinptds")) spin_per_thread(a);
    else if (!strcmp(word, "graphalloc")) graph_alloc(a, built);
    else if (!strcmp(word, "capturealloc")) graph_alloc(a, captured);
    else if (!strcmp(word, "graphdestroy")) printf("%d\n", cu.GraphExecDestroy(exec));
    else allocate(word, a, b);
}

/* Until the input ends, or "exit CODE", which is returned. */
static int serve(void)
{
    char line[256], word[64];
    while (fgets(line, sizeof line, stdin)) {
        unsigned long long a = 0, b = 0, c = 0, d = 0;
        if (sscanf(line, "%63s %llu %llu %llu %llu", word, &a, &b, &c, &d) < 1)
            continue;
        if (!strcmp(word, "exit"))
            return (int)a;
        command(word, a, b, c, (long long)d);
        fflush(stdout);
    }
    return 0;
}

/* With "slowexit" as argv[2]: serves on in an exit handler that runs after the library's and the driver's. */
static void serve_in_exit_handler(void)
{
    printf("0 exiting\n");
    fflush(stdout);
    serve();
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[2], "slowexit"))
        atexit(serve_in_exit_handler);
    if (lib_driver_find(argc > 1 ? argv[1] : "dlsym") != 0)
        return 3;
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_signal, .sa_flags = SA_RESTART}, NULL);
    return serve();
}
