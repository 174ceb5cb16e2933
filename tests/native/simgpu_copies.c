/* Copies and memsets in all their forms move the right bytes, in stream order. */
#include "simgpu_check.h"

enum { BYTES = 4096 };
static unsigned char in[BYTES], out[BYTES];
static CUdeviceptr a, b;

static void fresh(void)
{
    memset(out, 0xee, sizeof out);
    OK(cuMemsetD8_v2, a, 0, BYTES);
    OK(cuMemsetD8_v2, b, 0, BYTES);
}

static bool arrived(void) { return memcmp(in, out, BYTES) == 0; }

static void linear(CUcontext context)
{
    CUdeviceptr host_in = (CUdeviceptr)(uintptr_t)in, host_out = (CUdeviceptr)(uintptr_t)out;
    fresh();
    PTDS(CUDA_SUCCESS, cuMemcpyHtoD_v2, a, in, BYTES);
    PTDS(CUDA_SUCCESS, cuMemcpyDtoD_v2, b, a, BYTES);
    PTDS(CUDA_SUCCESS, cuMemcpyDtoH_v2, out, b, BYTES);
    TRUE_(arrived());
    fresh();
    PTDS(CUDA_SUCCESS, cuMemcpy, a, host_in, BYTES);
    PTDS(CUDA_SUCCESS, cuMemcpyPeer, b, context, a, context, BYTES);
    PTDS(CUDA_SUCCESS, cuMemcpy, host_out, b, BYTES);
    TRUE_(arrived());
    fresh();
    PTSZ(CUDA_SUCCESS, cuMemcpyHtoDAsync_v2, a, in, BYTES, NULL);
    PTSZ(CUDA_SUCCESS, cuMemcpyDtoDAsync_v2, b, a, BYTES, NULL);
    PTSZ(CUDA_SUCCESS, cuMemcpyDtoHAsync_v2, out, b, BYTES, NULL);
    OK(cuCtxSynchronize);
    TRUE_(arrived());
    fresh();
    PTSZ(CUDA_SUCCESS, cuMemcpyAsync, a, host_in, BYTES, NULL);
    PTSZ(CUDA_SUCCESS, cuMemcpyPeerAsync, b, context, a, context, BYTES, NULL);
    PTSZ(CUDA_SUCCESS, cuMemcpyAsync, host_out, b, BYTES, NULL);
    OK(cuCtxSynchronize);
    TRUE_(arrived());
    IS(BAD_VALUE, cuMemcpyHtoD_v2, a, in, BYTES + 1);
    IS(BAD_VALUE, cuMemcpyDtoH_v2, out, 4096, 4);
    IS(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyPeer, b, NULL, a, context, BYTES);
}

static void batches(void)
{
    CUdeviceptr to[] = {a, b}, from[] = {(CUdeviceptr)(uintptr_t)in, a};
    size_t sizes[] = {BYTES, BYTES}, failed = 9, index = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = 1};
    CUstream stream = NULL;
    OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    fresh();
    PTSZ(CUDA_SUCCESS, cuMemcpyBatchAsync, to, from, sizes, 2, &attributes, &index, 1, &failed, stream);
    PTSZ(CUDA_SUCCESS, cuMemcpyBatchAsync_v2, to, from, sizes, 2, &attributes, &index, 1, stream);
    OK(cuMemcpyDtoHAsync_v2, out, b, BYTES, stream);
    OK(cuStreamSynchronize, stream);
    TRUE_(arrived());
    IS(BAD_VALUE, cuMemcpyBatchAsync, to, from, sizes, 2, &attributes, &index, 1, &failed, NULL);
    OK(cuStreamDestroy_v2, stream);
}

static void in_two_and_three_dimensions(CUcontext context)
{
    CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = in, .srcPitch = 64, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = a, .dstPitch = 128, .WidthInBytes = 64, .Height = 16};
    CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = a, .srcPitch = 128, .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .dstDevice = (CUdeviceptr)(uintptr_t)out, .dstPitch = 64, .WidthInBytes = 64, .Height = 16};
    fresh();
    PTDS(CUDA_SUCCESS, cuMemcpy2D_v2, &up);
    PTDS(CUDA_SUCCESS, cuMemcpy2DUnaligned_v2, &down);
    TRUE_(memcmp(in, out, 64 * 16) == 0 && ((unsigned char *)(uintptr_t)a)[64] == 0);
    fresh();
    PTSZ(CUDA_SUCCESS, cuMemcpy2DAsync_v2, &up, NULL);
    OK(cuCtxSynchronize);
    OK(cuMemcpy2D_v2, &down);
    TRUE_(memcmp(in, out, 64 * 16) == 0);
    down.WidthInBytes = 200; /* wider than the pitch */
    IS(BAD_VALUE, cuMemcpy2D_v2, &down);
    CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = in, .srcPitch = 16, .srcHeight = 8, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                         .dstDevice = b, .dstPitch = 32, .dstHeight = 16, .WidthInBytes = 16, .Height = 8, .Depth = 4};
    CUDA_MEMCPY3D back = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = b, .srcPitch = 32, .srcHeight = 16, .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = out, .dstPitch = 16, .dstHeight = 8, .WidthInBytes = 16, .Height = 8, .Depth = 4};
    fresh();
    PTDS(CUDA_SUCCESS, cuMemcpy3D_v2, &box);
    PTSZ(CUDA_SUCCESS, cuMemcpy3DAsync_v2, &box, NULL);
    PTDS(CUDA_SUCCESS, cuMemcpy3D_v2, &back);
    TRUE_(memcmp(in, out, 16 * 8 * 4) == 0);
    CUDA_MEMCPY3D_PEER peer;
    memcpy(&peer, &back, sizeof peer);
    peer.srcContext = peer.dstContext = context;
    memset(out, 0, sizeof out);
    PTDS(CUDA_SUCCESS, cuMemcpy3DPeer, &peer);
    PTSZ(CUDA_SUCCESS, cuMemcpy3DPeerAsync, &peer, NULL);
    OK(cuCtxSynchronize);
    TRUE_(memcmp(in, out, 16 * 8 * 4) == 0);
}

static void memsets(void)
{
    const unsigned short *halves = (const unsigned short *)(uintptr_t)a;
    const unsigned *words = (const unsigned *)(uintptr_t)a;
    const unsigned char *bytes = (const unsigned char *)(uintptr_t)a;
    PTDS(CUDA_SUCCESS, cuMemsetD8_v2, a, 0x11, 100);
    TRUE_(bytes[99] == 0x11 && bytes[100] != 0x11);
    PTDS(CUDA_SUCCESS, cuMemsetD16_v2, a, 0x2233, 100);
    TRUE_(halves[99] == 0x2233 && halves[100] != 0x2233);
    PTDS(CUDA_SUCCESS, cuMemsetD32_v2, a, 0x44556677, 100);
    TRUE_(words[99] == 0x44556677 && words[100] != 0x44556677);
    PTSZ(CUDA_SUCCESS, cuMemsetD8Async, a, 1, 10, NULL);
    PTSZ(CUDA_SUCCESS, cuMemsetD16Async, a + 16, 2, 10, NULL);
    PTSZ(CUDA_SUCCESS, cuMemsetD32Async, a + 64, 3, 10, NULL);
    OK(cuCtxSynchronize);
    TRUE_(bytes[9] == 1 && halves[17] == 2 && words[25] == 3);
    PTDS(CUDA_SUCCESS, cuMemsetD2D8_v2, a, 64, 4, 8, 4);
    PTDS(CUDA_SUCCESS, cuMemsetD2D16_v2, a + 16, 64, 5, 4, 4);
    PTDS(CUDA_SUCCESS, cuMemsetD2D32_v2, a + 32, 64, 6, 2, 4);
    TRUE_(bytes[64 * 3 + 7] == 4 && halves[32 * 3 + 8 + 3] == 5 && words[16 * 3 + 8 + 1] == 6);
    PTSZ(CUDA_SUCCESS, cuMemsetD2D8Async, a, 64, 7, 8, 4, NULL);
    PTSZ(CUDA_SUCCESS, cuMemsetD2D16Async, a + 16, 64, 8, 4, 4, NULL);
    PTSZ(CUDA_SUCCESS, cuMemsetD2D32Async, a + 32, 64, 9, 2, 4, NULL);
    OK(cuCtxSynchronize);
    TRUE_(bytes[64 * 3] == 7 && halves[32 * 3 + 8] == 8 && words[16 * 3 + 8] == 9);
    IS(BAD_VALUE, cuMemsetD32_v2, a + 1, 0, 4);
    IS(BAD_VALUE, cuMemsetD8_v2, a, 0, BYTES + 1);
}

/* Zeroing 2 GiB that nobody has written must not take 2 GiB of this machine. */
static void zeroing_costs_no_memory(void)
{
    CUdeviceptr big = 0;
    long resident = 0, pages = 0;
    OK(cuMemAlloc_v2, &big, 2ull << 30);
    OK(cuMemsetD8_v2, big, 0, 2ull << 30);
    FILE *file = fopen("/proc/self/statm", "r");
    TRUE_(file != NULL && fscanf(file, "%ld %ld", &pages, &resident) == 2);
    fclose(file);
    TRUE_(resident < 262144); /* 1 GiB; sanitizers have their own */
    OK(cuMemsetD8_v2, big + 100, 5, 100);
    OK(cuMemsetD8_v2, big, 0, 2ull << 30);
    TRUE_(((char *)(uintptr_t)big)[150] == 0);
    OK(cuMemFree_v2, big);
}

/* The copy waits for what is before it, and the source of an asynchronous copy may be reused at once. */
static void order_and_staging(void)
{
    CUstream stream = NULL;
    unsigned value = 1, seen = 0;
    OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    OK(cuMemsetD32Async, a, 0, 1, stream);
    OK(cuStreamSynchronize, stream);
    hold(stream);
    OK(cuMemcpyHtoDAsync_v2, a, &value, sizeof value, stream);
    value = 2;
    TRUE_(*(unsigned *)(uintptr_t)a == 0);
    let_go();
    OK(cuMemcpyDtoHAsync_v2, &seen, a, sizeof seen, stream); /* to ordinary memory: returns when it is there */
    TRUE_(seen == 1);
    OK(cuStreamDestroy_v2, stream);
}

int main(void)
{
    setenv("NVSHARE_SIM_SCALE", "0.1", 1);
    CUcontext context = start();
    for (int i = 0; i < BYTES; i++)
        in[i] = (unsigned char)(i * 7 + i / 256);
    OK(cuMemAlloc_v2, &a, BYTES);
    OK(cuMemAllocManaged, &b, BYTES, CU_MEM_ATTACH_GLOBAL);
    linear(context);
    batches();
    in_two_and_three_dimensions(context);
    memsets();
    zeroing_costs_no_memory();
    order_and_staging();
    OK(cuMemFree_v2, a);
    OK(cuMemFree_v2, b);
    return done();
}
