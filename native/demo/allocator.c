/* Takes and gives back GPU memory as it is told on its standard input, a command a line, an answer a line:
 *
 *   alloc BYTES    ok, or the driver's error
 *   free           gives the last one back: ok, or `none`
 *   work           a pass over everything it has: ok, or the driver's error
 *   info           free and total bytes, as the driver tells
 *   uuid           the device's UUID */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "driver.h"

#define MOST 1024

static struct { CUdeviceptr at; uint64_t bytes; } taken[MOST];
static unsigned count;

static void answer(CUresult result) { puts(result == CUDA_SUCCESS ? "ok" : demo_error(result)); }

static void allocate(const char *text)
{
    uint64_t bytes = demo_bytes(text);
    CUresult result = count < MOST ? cuMemAlloc_v2(&taken[count].at, bytes) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        taken[count++].bytes = bytes;
    answer(result);
}

static void give_back(void)
{
    if (count == 0)
        puts("none");
    else
        answer(cuMemFree_v2(taken[--count].at));
}

static void work(void)
{
    for (unsigned i = 0; i < count; i++) {
        CUresult result = demo_pass(taken[i].at, taken[i].bytes, 1);
        if (result != CUDA_SUCCESS) {
            answer(result);
            return;
        }
    }
    answer(cuCtxSynchronize());
}

static void info(void)
{
    size_t available, total;
    CUresult result = cuMemGetInfo_v2(&available, &total);
    if (result == CUDA_SUCCESS)
        printf("%zu %zu\n", available, total);
    else
        answer(result);
}

static void uuid(void)
{
    CUuuid id;
    CUresult result = cuDeviceGetUuid_v2(&id, 0);
    if (result != CUDA_SUCCESS) {
        answer(result);
        return;
    }
    printf("GPU-");
    for (int i = 0; i < 16; i++)
        printf(i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", (unsigned char)id.bytes[i]);
    puts("");
}

int main(void)
{
    char line[128];
    setvbuf(stdout, NULL, _IOLBF, 0);
    demo_begin(0);
    puts("ready");
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "alloc ", 6) == 0)
            allocate(line + 6);
        else if (strcmp(line, "free") == 0)
            give_back();
        else if (strcmp(line, "work") == 0)
            work();
        else if (strcmp(line, "info") == 0)
            info();
        else if (strcmp(line, "uuid") == 0)
            uuid();
        else
            puts("unknown");
    }
    return 0;
}
