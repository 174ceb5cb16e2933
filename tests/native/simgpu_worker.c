/* A program on the simulated card that does what it is told, one command per line, one answer per line:
 *
 *   managed BYTES   allocate managed memory            -> result (0 = success)
 *   native BYTES    allocate device memory             -> result
 *   free            free what was allocated last       -> result
 *   pass N          N kernels that touch the last allocation, one after the other -> simulated milliseconds
 *   spin US         one kernel of so many simulated microseconds                   -> simulated milliseconds
 *   spins US        100 such kernels, without waiting  -> 0
 *   kernel NAME     one kernel of that name            -> simulated milliseconds
 *   prefetch        the last allocation to the card    -> simulated milliseconds
 *   evict           the last allocation to the host    -> simulated milliseconds
 *   remote          advises that the last allocation stays on the host -> result
 *   bring           like prefetch, without waiting     -> result
 *   halves XY       each half of the last allocation to the card (i), to the host (o) or nowhere (-), at once on two
 *                   streams -> simulated milliseconds
 *   both            prefetch, and on another stream a pass as soon as possible -> simulated milliseconds
 *   start N         like pass, without waiting         -> 0
 *   export          a handle of the last allocation    -> the handle in hexadecimal, or an error number
 *   import HANDLE   memory of another process          -> result; it is the last allocation from then on
 *   poke N, peek    writes, reads a word at the start of the last allocation -> 0, the word
 *   close           gives imported memory back         -> result
 *   save, back      the process leaves the card, comes back  -> result
 *   info            -> free and total bytes of the card
 *   uuid N          -> the N-th device's UUID, in hexadecimal
 *   fork            a child tries to use the driver    -> the child's result; the child stays until the parent's input ends
 *
 * Says "ready" first; ends when its input does. */
#define _GNU_SOURCE
#include "cuda_api.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static CUdeviceptr last;
static size_t last_bytes;
static CUevent begin, end;
static CUmodule module;
static CUfunction touch, spin;

static void must(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "%s: error %d\n", what, (int)result);
        exit(1);
    }
}
#define MUST(call) must(call, #call)

/* The stream is held up until the first operations are in it: what is measured is the card and not the machine's scheduling
 * of this program between two calls. */
static unsigned long long gate, opened;

static void open_gate(void) { __atomic_store_n(&gate, opened, __ATOMIC_RELEASE); }

static void launch(unsigned long n)
{
    unsigned long long address = last, bytes = last_bytes;
    void *params[] = {&address, &bytes};
    for (unsigned long i = 0; i < n; i++) {
        MUST(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        if (i == 500)
            open_gate(); /* a stream does not hold many more */
    }
}

static void timed(void (*work)(unsigned long), unsigned long argument)
{
    float ms;
    MUST(cuStreamWaitValue64(NULL, (CUdeviceptr)(uintptr_t)&gate, ++opened, CU_STREAM_WAIT_VALUE_GEQ));
    MUST(cuEventRecord(begin, NULL));
    work(argument);
    MUST(cuEventRecord(end, NULL));
    open_gate();
    MUST(cuEventSynchronize(end));
    MUST(cuEventElapsedTime(&ms, begin, end));
    printf("%.3f\n", (double)ms);
}

static void launch_spin(unsigned long us)
{
    unsigned long long duration = us;
    void *params[] = {&duration};
    MUST(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

static CUfunction named;

static void launch_named(unsigned long unused)
{
    (void)unused;
    MUST(cuLaunchKernel(named, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
}

static void prefetch(unsigned long unused)
{
    (void)unused;
    MUST(cuMemPrefetchAsync(last, last_bytes, 0, NULL));
}

static void evict(unsigned long unused)
{
    (void)unused;
    MUST(cuMemPrefetchAsync(last, last_bytes, CU_DEVICE_CPU, NULL));
}

/* Both streams wait for the gate, so that they begin at the same time; the default stream waits for both. */
static void on_two_streams(void (*work)(CUstream stream, int which, const char *how), const char *how)
{
    static CUstream streams[2];
    static CUevent done[2];
    float ms;
    ++opened;
    for (int i = 0; i < 2; i++) {
        if (streams[i] == NULL) {
            MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
            MUST(cuEventCreate(&done[i], 0));
        }
        MUST(cuStreamWaitValue64(streams[i], (CUdeviceptr)(uintptr_t)&gate, opened, CU_STREAM_WAIT_VALUE_GEQ));
        if (i == 0)
            MUST(cuEventRecord(begin, streams[0]));
        work(streams[i], i, how);
        MUST(cuEventRecord(done[i], streams[i]));
        MUST(cuStreamWaitEvent(NULL, done[i], 0));
    }
    MUST(cuEventRecord(end, NULL));
    open_gate();
    MUST(cuEventSynchronize(end));
    MUST(cuEventElapsedTime(&ms, begin, end));
    printf("%.3f\n", (double)ms);
}

static void move_half(CUstream stream, int which, const char *how)
{
    size_t half = last_bytes / 2;
    if (how[which] != '-')
        MUST(cuMemPrefetchAsync(last + (size_t)which * half, half, how[which] == 'i' ? 0 : CU_DEVICE_CPU, stream));
}

static void prefetch_and_pass(CUstream stream, int which, const char *how)
{
    unsigned long long address = last, bytes = last_bytes;
    void *params[] = {&address, &bytes};
    (void)how;
    if (which == 0)
        MUST(cuMemPrefetchAsync(last, last_bytes, 0, stream));
    else
        MUST(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void print_uuid(int ordinal)
{
    CUuuid uuid;
    MUST(cuDeviceGetUuid_v2(&uuid, ordinal));
    for (int i = 0; i < 16; i++)
        printf("%02x", (unsigned char)uuid.bytes[i]);
    printf("\n");
}

static void export_last(void)
{
    CUipcMemHandle handle;
    CUresult result = cuIpcGetMemHandle(&handle, last);
    if (result != CUDA_SUCCESS)
        printf("%d", (int)result);
    for (size_t i = 0; result == CUDA_SUCCESS && i < sizeof handle; i++)
        printf("%02x", (unsigned char)handle.reserved[i]);
    printf("\n");
}

static void import_memory(const char *text)
{
    CUipcMemHandle handle;
    for (size_t i = 0; i < sizeof handle; i++) {
        unsigned byte = 0;
        sscanf(text + 2 * i, "%2x", &byte);
        handle.reserved[i] = (char)byte;
    }
    printf("%d\n", (int)cuIpcOpenMemHandle_v2(&last, handle, 1));
}

static void peek(void)
{
    unsigned word;
    MUST(cuMemcpyDtoH_v2(&word, last, sizeof word));
    printf("%u\n", word);
}

static void fork_child(void)
{
    int answer[2];
    char result = 0;
    if (pipe(answer) != 0)
        exit(1);
    fflush(stdout);
    if (fork() == 0) {
        CUdeviceptr pointer;
        int count, again = cuInit(0), listed = cuDeviceGetCount(&count), allocated = cuMemAlloc_v2(&pointer, 16);
        result = again == listed && listed == allocated ? (char)again : 99;
        if (write(answer[1], &result, 1) != 1)
            _exit(1);
        while (read(0, &result, 1) > 0)
            ;
        _exit(0);
    }
    if (read(answer[0], &result, 1) != 1)
        exit(1);
    printf("%d\n", result);
}

static CUresult save(void)
{
    CUresult result = cuCheckpointProcessLock(getpid(), NULL);
    return result == CUDA_SUCCESS ? cuCheckpointProcessCheckpoint(getpid(), NULL) : result;
}

static CUresult come_back(void)
{
    CUresult result = cuCheckpointProcessRestore(getpid(), NULL);
    return result == CUDA_SUCCESS ? cuCheckpointProcessUnlock(getpid(), NULL) : result;
}

static void launch_spins(unsigned long long us)
{
    for (int i = 0; i < 100; i++)
        launch_spin(us);
    printf("0\n");
}

/* The commands that move memory; false if it is none of them. */
static bool move_memory(const char *command)
{
    if (strcmp(command, "prefetch") == 0)
        timed(prefetch, 0);
    else if (strcmp(command, "evict") == 0)
        timed(evict, 0);
    else if (strcmp(command, "remote") == 0)
        printf("%d\n", (int)cuMemAdvise(last, last_bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU));
    else if (strcmp(command, "bring") == 0)
        printf("%d\n", (int)cuMemPrefetchAsync(last, last_bytes, 0, NULL));
    else if (strcmp(command, "save") == 0 || strcmp(command, "back") == 0)
        printf("%d\n", (int)(command[0] == 's' ? save() : come_back()));
    else if (strcmp(command, "both") == 0)
        on_two_streams(prefetch_and_pass, "");
    else
        return false;
    return true;
}

static void obey(const char *command, unsigned long long number)
{
    size_t available, total;
    if (move_memory(command)) {
        return;
    } else if (strcmp(command, "managed") == 0 || strcmp(command, "native") == 0) {
        last_bytes = number;
        printf("%d\n", (int)(command[0] == 'm' ? cuMemAllocManaged(&last, number, CU_MEM_ATTACH_GLOBAL) : cuMemAlloc_v2(&last, number)));
    } else if (strcmp(command, "free") == 0) {
        printf("%d\n", (int)cuMemFree_v2(last));
    } else if (strcmp(command, "pass") == 0) {
        timed(launch, number);
    } else if (strcmp(command, "spin") == 0) {
        timed(launch_spin, number);
    } else if (strcmp(command, "spins") == 0) {
        launch_spins(number);
    } else if (strcmp(command, "start") == 0) {
        launch(number);
        printf("0\n");
    } else if (strcmp(command, "info") == 0) {
        MUST(cuMemGetInfo_v2(&available, &total));
        printf("%zu %zu\n", available, total);
    } else if (strcmp(command, "uuid") == 0) {
        print_uuid((int)number);
    } else if (strcmp(command, "export") == 0) {
        export_last();
    } else if (strcmp(command, "poke") == 0) {
        MUST(cuMemsetD32_v2(last, (unsigned)number, 1));
        printf("0\n");
    } else if (strcmp(command, "peek") == 0) {
        peek();
    } else if (strcmp(command, "close") == 0) {
        printf("%d\n", (int)cuIpcCloseMemHandle(last));
    } else if (strcmp(command, "fork") == 0) {
        fork_child();
    } else {
        fprintf(stderr, "unknown command %s\n", command);
        exit(1);
    }
}

int main(void)
{
    char line[256], command[32];
    CUcontext context;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoadData(&module, "any image"));
    MUST(cuModuleGetFunction(&touch, module, "sim_touch"));
    MUST(cuModuleGetFunction(&spin, module, "sim_spin_us"));
    MUST(cuEventCreate(&begin, 0));
    MUST(cuEventCreate(&end, 0));
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("ready\n");
    while (fgets(line, sizeof line, stdin) != NULL) {
        unsigned long long number = 0;
        char name[64] = "", handle[129] = "";
        if (sscanf(line, "import %128s", handle) == 1) {
            import_memory(handle);
        } else if (sscanf(line, "halves %63s", name) == 1) {
            on_two_streams(move_half, name);
        } else if (sscanf(line, "kernel %63s", name) == 1) {
            MUST(cuModuleGetFunction(&named, module, name));
            timed(launch_named, 0);
        } else if (sscanf(line, "%31s %llu", command, &number) >= 1) {
            obey(command, number);
        }
    }
    return 0;
}
