/* Two processes share device memory and an event by handle, as PyTorch does with CUDA tensors in queues between processes. The producer's
 * stream is held until the consumer has queued its wait for the event: without the event the consumer would read zeros.
 *
 * Prints "0 0" (the results of producer and consumer), or which call failed. */
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib_driver.h"

enum { WORDS = 1 << 20 };
#define PATTERN 0x5eed5eedu

struct handles { CUipcMemHandle memory; CUipcEventHandle event; };
static int to_consumer[2], to_producer[2];

static void *named(const char *symbol) { return dlsym(dlopen("libcuda.so.1", RTLD_NOW), symbol); }

#define TRY(call) \
    do { \
        CUresult tried = (call); \
        if (tried != CUDA_SUCCESS) { \
            fprintf(stderr, "%s: %d\n", #call, tried); \
            return (int)tried; \
        } \
    } while (0)

static int start(CUstream *stream)
{
    CUcontext context;
    TRY(cu.Init(0));
    TRY(cu.CtxCreate(&context, 0, 0));
    TRY(cu.StreamCreate(stream, CU_STREAM_NON_BLOCKING));
    return 0;
}

static void wait_for_consumer(void *nothing)
{
    char word;
    (void)nothing;
    if (read(to_producer[0], &word, 1) != 1)
        _exit(9);
}

static int produce(void)
{
    CUresult (*share_event)(CUipcEventHandle *, CUevent);
    CUstream stream;
    CUevent event;
    CUdeviceptr memory;
    struct handles handles;
    *(void **)&share_event = named("cuIpcGetEventHandle");
    TRY(start(&stream));
    TRY(cu.MemAlloc(&memory, WORDS * sizeof(uint32_t)));
    TRY(cu.IpcGetMemHandle(&handles.memory, memory));
    TRY(cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    TRY(cu.LaunchHostFunc(stream, wait_for_consumer, NULL));
    TRY(cu.MemsetD32Async(memory, PATTERN, WORDS, stream));
    TRY(cu.EventRecord(event, stream));
    TRY(share_event(&handles.event, event));
    if (write(to_consumer[1], &handles, sizeof handles) != sizeof handles)
        return -1;
    TRY(cu.StreamSynchronize(stream));
    return 0;
}

static int consume(void)
{
    CUresult (*open_memory)(CUdeviceptr *, CUipcMemHandle, unsigned), (*open_event)(CUevent *, CUipcEventHandle), (*query)(CUevent);
    CUresult (*copy)(void *, CUdeviceptr, size_t, CUstream);
    static uint32_t words[WORDS];
    CUstream stream;
    CUevent event;
    CUdeviceptr memory;
    struct handles handles;
    *(void **)&open_memory = named("cuIpcOpenMemHandle_v2");
    *(void **)&open_event = named("cuIpcOpenEventHandle");
    *(void **)&query = named("cuEventQuery");
    *(void **)&copy = named("cuMemcpyDtoHAsync_v2");
    if (read(to_consumer[0], &handles, sizeof handles) != sizeof handles)
        return -1;
    TRY(start(&stream));
    TRY(open_memory(&memory, handles.memory, 1));
    TRY(open_event(&event, handles.event));
    if (query(event) != CUDA_ERROR_NOT_READY)
        return -2;
    TRY(cu.StreamWaitEvent(stream, event, 0));
    if (write(to_producer[1], "q", 1) != 1)
        return -3;
    TRY(copy(words, memory, sizeof words, stream)); /* to pageable memory: may wait for the stream */
    TRY(cu.StreamSynchronize(stream));
    TRY(query(event));
    for (int i = 0; i < WORDS; i++)
        if (words[i] != PATTERN)
            return -4;
    TRY(cu.EventDestroy(event));
    return 0;
}

int main(void)
{
    int status = 0;
    if (pipe(to_consumer) != 0 || pipe(to_producer) != 0)
        return 2;
    pid_t consumer = fork();
    close(to_consumer[consumer == 0]); /* each end where it is used: a process that ends is noticed */
    close(to_producer[consumer != 0]);
    if (lib_driver_find("dlsym") != 0)
        return 3;
    if (consumer == 0)
        _exit(consume() & 0xff);
    int produced = produce();
    close(to_consumer[1]);
    waitpid(consumer, &status, 0);
    printf("%d %d\n", produced, WIFEXITED(status) ? WEXITSTATUS(status) : 255);
    return 0;
}
