/* The CUDA program that the cluster tests run in pods. It knows nothing of nvshare: it is linked to the driver only by
 * dlopen, like most programs, and says what the driver told it.
 *
 *   workload alloc SIZE...            allocate in turn; one line each; exit code 1 if any failed
 *   workload watch SIZE               try the allocation every millisecond; a line with the time at each change
 *   workload run SECONDS GPU [SIZE [KERNEL_US]]
 *                                     launch kernels on one GPU, a line with the count five times a second
 *   workload serve                    hold a process open that obeys lines on a local socket: alloc SIZE, free, info, launch
 *   workload ask WORD...              give such a line, print the answer
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cuda_api.h"

#define SOCKET "/tmp/workload.sock"
#define MAX_HELD 1024
#define KERNEL_US 2000

static struct {
    CUresult (*init)(unsigned int);
    CUresult (*device)(CUdevice *, int);
    CUresult (*retain)(CUcontext *, CUdevice);
    CUresult (*current)(CUcontext);
    CUresult (*alloc)(CUdeviceptr *, size_t);
    CUresult (*free)(CUdeviceptr);
    CUresult (*info)(size_t *, size_t *);
    CUresult (*load)(CUmodule *, const void *);
    CUresult (*function)(CUfunction *, CUmodule, const char *);
    CUresult (*launch)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                       unsigned int, CUstream, void **, void **);
    CUresult (*synchronize)(void);
} cuda;

static CUdeviceptr held[MAX_HELD];
static int held_count;

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "workload: the driver has no %s\n", name);
        exit(3);
    }
    return found;
}

static void must(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "workload: %s: error %d\n", what, (int)result);
        exit(3);
    }
}

static void begin(int gpu)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "workload: %s\n", dlerror());
        exit(3);
    }
    *(void **)&cuda.init = symbol(library, "cuInit");
    *(void **)&cuda.device = symbol(library, "cuDeviceGet");
    *(void **)&cuda.retain = symbol(library, "cuDevicePrimaryCtxRetain");
    *(void **)&cuda.current = symbol(library, "cuCtxSetCurrent");
    *(void **)&cuda.alloc = symbol(library, "cuMemAlloc_v2");
    *(void **)&cuda.free = symbol(library, "cuMemFree_v2");
    *(void **)&cuda.info = symbol(library, "cuMemGetInfo_v2");
    *(void **)&cuda.load = symbol(library, "cuModuleLoadData");
    *(void **)&cuda.function = symbol(library, "cuModuleGetFunction");
    *(void **)&cuda.launch = symbol(library, "cuLaunchKernel");
    *(void **)&cuda.synchronize = symbol(library, "cuCtxSynchronize");
    CUdevice device;
    CUcontext context;
    must(cuda.init(0), "cuInit");
    must(cuda.device(&device, gpu), "cuDeviceGet");
    must(cuda.retain(&context, device), "cuDevicePrimaryCtxRetain");
    must(cuda.current(context), "cuCtxSetCurrent");
}

static size_t size_of(const char *text)
{
    char *end;
    double number = strtod(text, &end);
    switch (*end) {
    case 'G': return (size_t)(number * (1ul << 30));
    case 'M': return (size_t)(number * (1ul << 20));
    case 'K': return (size_t)(number * (1ul << 10));
    default: return (size_t)number;
    }
}

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static CUresult take(const char *size)
{
    CUdeviceptr pointer = 0;
    CUresult result = cuda.alloc(&pointer, size_of(size));
    if (result == CUDA_SUCCESS && held_count < MAX_HELD)
        held[held_count++] = pointer;
    return result;
}

static void give_all_back(void)
{
    while (held_count > 0)
        must(cuda.free(held[--held_count]), "cuMemFree");
}

static int alloc(int count, char **sizes)
{
    int failed = 0;
    for (int at = 0; at < count; at++) {
        CUresult result = take(sizes[at]);
        printf("Allocating %s: %s (%d)\n", sizes[at], result == CUDA_SUCCESS ? "Success" : "OOM", (int)result);
        failed |= result != CUDA_SUCCESS;
    }
    give_all_back();
    return failed;
}

/* A change of the limit shows as a change of the answer; the clock is the machine's, so the test can compare. */
static void watch(const char *size)
{
    int last = -1;
    for (;;) {
        CUresult result = take(size);
        uint64_t now = now_ns(CLOCK_REALTIME);
        give_all_back();
        if ((int)result != last) {
            printf("%llu %s\n", (unsigned long long)now, result == CUDA_SUCCESS ? "ok" : "oom");
            fflush(stdout);
            last = (int)result;
        }
        usleep(1000);
    }
}

static CUfunction spinning_kernel(void)
{
    static const char image[] = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry sim_spin_us() { ret; }\n";
    CUmodule module;
    CUfunction function;
    must(cuda.load(&module, image), "cuModuleLoadData");
    must(cuda.function(&function, module, "sim_spin_us"), "cuModuleGetFunction");
    return function;
}

static void spin(CUfunction function, uint64_t kernel_us)
{
    void *arguments[] = {&kernel_us};
    must(cuda.launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL), "cuLaunchKernel");
    must(cuda.synchronize(), "cuCtxSynchronize");
}

static int run(double seconds, const char *size, uint64_t kernel_us)
{
    if (size)
        must(take(size), "cuMemAlloc");
    CUfunction function = spinning_kernel();
    uint64_t count = 0, begin = now_ns(CLOCK_MONOTONIC), told = begin, now = begin;
    printf("0.0 %llu\n", (unsigned long long)count);
    fflush(stdout);
    while ((double)(now - begin) / 1e9 < seconds) {
        spin(function, kernel_us);
        count++;
        now = now_ns(CLOCK_MONOTONIC);
        if (now - told >= 200000000ull) {
            printf("%.1f %llu\n", (double)(now - begin) / 1e9, (unsigned long long)count);
            fflush(stdout);
            told = now;
        }
    }
    printf("done %llu\n", (unsigned long long)count);
    return 0;
}

static void obey(char *line, char *answer, size_t length)
{
    char word[16] = "", size[32] = "";
    sscanf(line, "%15s %31s", word, size);
    if (!strcmp(word, "alloc")) {
        CUresult result = take(size);
        snprintf(answer, length, "%s (%d)\n", result == CUDA_SUCCESS ? "Success" : "OOM", (int)result);
    } else if (!strcmp(word, "free")) {
        give_all_back();
        snprintf(answer, length, "freed\n");
    } else if (!strcmp(word, "info")) {
        size_t available = 0, total = 0;
        must(cuda.info(&available, &total), "cuMemGetInfo");
        snprintf(answer, length, "%zu %zu\n", available, total);
    } else if (!strcmp(word, "launch")) {
        spin(spinning_kernel(), KERNEL_US);
        snprintf(answer, length, "launched\n");
    } else {
        snprintf(answer, length, "what?\n");
    }
}

static int local_socket(struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    strcpy(address->sun_path, SOCKET);
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static void serve(void)
{
    struct sockaddr_un address;
    int listener = local_socket(&address);
    unlink(SOCKET);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 16)) {
        perror("workload: " SOCKET);
        exit(3);
    }
    printf("serving\n");
    fflush(stdout);
    for (;;) {
        int peer = accept(listener, NULL, NULL);
        char line[128] = "", answer[128] = "";
        if (peer >= 0 && read(peer, line, sizeof line - 1) > 0) {
            obey(line, answer, sizeof answer);
            if (write(peer, answer, strlen(answer)) < 0)
                perror("workload: write");
        }
        close(peer);
    }
}

static int ask(int count, char **words)
{
    struct sockaddr_un address;
    int peer = local_socket(&address);
    char line[128] = "", answer[128] = "";
    for (int at = 0; at < count; at++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%s ", words[at]);
    if (connect(peer, (struct sockaddr *)&address, sizeof address) || write(peer, line, strlen(line)) < 0 ||
        read(peer, answer, sizeof answer - 1) < 0) {
        perror("workload: " SOCKET);
        return 3;
    }
    fputs(answer, stdout);
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "ask"))
        return ask(argc - 2, argv + 2);
    begin(!strcmp(what, "run") && argc > 3 ? atoi(argv[3]) : 0);
    if (!strcmp(what, "alloc"))
        return alloc(argc - 2, argv + 2);
    if (!strcmp(what, "watch") && argc > 2)
        watch(argv[2]);
    if (!strcmp(what, "run") && argc > 3)
        return run(atof(argv[2]), argc > 4 ? argv[4] : NULL, argc > 5 ? strtoull(argv[5], NULL, 10) : KERNEL_US);
    if (!strcmp(what, "serve"))
        serve();
    fprintf(stderr, "usage: workload alloc SIZE... | watch SIZE | run SECONDS GPU [SIZE [KERNEL_US]] | serve | ask WORD...\n");
    return 2;
}
